"""Simulates the recorded traffic of some windows under every candidate: units, runs over Spark, topics of all seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.calibration.session_traffic import iter_sessions
from pipeline.codec.records.key_ids import number_of_id
from pipeline.jobs.replay.sessions import count_tasks, read_sessions
from pipeline.partitioners.recorded import HASH_COLUMNS
from pipeline.replay.calibrated import ARRIVAL_COLUMNS
from pipeline.replay.key_places import NO_HASHES, KeyHashes
from pipeline.replay.run_plan import plan_runs
from pipeline.replay.simulated import read_runs, simulate_runs
from pipeline.replay.unit_runs import add_runs
from pipeline.replay.units import ReplayUnit, UnitSession, UnitTopic, group_sessions
from pipeline.storage.files import iter_file_rows, list_files
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.keys import KEY_HASHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from pipeline.calibration.service.model import ServiceModel
    from pipeline.calibration.session_traffic import SessionTraffic
    from pipeline.jobs.replay.services import SessionServices
    from pipeline.model.window import TimeWindow
    from pipeline.replay.calibrated import SessionFinding, SessionKey
    from pipeline.replay.results import ClusterFacts
    from pipeline.replay.run_plan import RunPlan
    from pipeline.replay.unit_runs import TopicRun
    from pipeline.runs import RunContext

    Services = Mapping[SessionKey, SessionServices]
    TopicWindow = tuple[int, str, str]
    """Start of the window, topic, topic id."""


@dataclass(frozen=True)
class Simulation:
    """What was simulated.

    Attributes:
        plan: Units, candidates and seeds.
        runs: By topic in a window and number of the candidate in the plan: a run for each seed, of all its units.
    """

    plan: RunPlan
    runs: Mapping[TopicWindow, Mapping[int, Mapping[int, TopicRun]]]


def simulate_traffic(
    spark: SparkSession,
    run: RunContext,
    windows: Sequence[TimeWindow],
    *,
    findings: Sequence[SessionFinding],
    services: Services,
    cluster: ClusterFacts,
    key_families: Mapping[TopicWindow, str],
) -> Simulation:
    """Simulates every unit under what is in use and every candidate.

    Args:
        spark: Session.
        run: Its configuration names candidates and seeds.
        windows: Which windows.
        findings: About their producer sessions.
        services: How long brokers took.
        cluster: Leaders and brokers.
        key_families: Which hash placed a topic's keys.
    """
    units = make_units(findings, services, cluster, key_families)
    seeds = range(1, run.config.replay.seeds + 1)
    plan = plan_runs(units, run.config.candidates, seeds)
    dealt = plan.deal_runs(count_tasks(spark))
    if not dealt:
        return Simulation(plan, {})
    arrivals = list_files(run.warehouse, ARRIVALS, run.cluster_name, windows)
    hashes = list_files(run.warehouse, KEY_HASHES, run.cluster_name, windows)
    simulate = partial(
        simulate_runs,
        plan=plan,
        read_arrivals=partial(_read_unit, arrivals),
        read_hashes=partial(_read_hashes, hashes),
    )
    rows = spark.sparkContext.parallelize(dealt, len(dealt)).flatMap(simulate).collect()
    return Simulation(plan, _merge_runs(plan, rows))


def make_units(
    findings: Sequence[SessionFinding],
    services: Services,
    cluster: ClusterFacts,
    key_families: Mapping[TopicWindow, str],
) -> list[ReplayUnit]:
    """Units of producer sessions, window by window: those together that wait on one broker, the others alone."""
    by_window: dict[int, dict[SessionKey, list[SessionFinding]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        by_window[finding.start_ms][finding.session].append(finding)
    units: list[ReplayUnit] = []
    for start_ms, sessions in sorted(by_window.items()):
        named = sorted(sessions)
        waiting = [_waits_on(services[session], sessions[session]) for session in named]
        shared = {broker for broker, count in Counter(b for brokers in waiting for b in brokers).items() if count > 1}
        for group in group_sessions(waiting, shared):
            topics = _list_topics(
                start_ms, [f for place in group for f in sessions[named[place]]], cluster, key_families
            )
            kept = {(topic.topic, topic.topic_id) for topic in topics}
            own = [[f for f in sessions[named[place]] if (f.topic, f.topic_id) in kept] for place in group]
            made = tuple(_make_session(found) for found in own if found)
            if made:
                models = _choose_models([(services[named[p]], sessions[named[p]]) for p in group])
                units.append(ReplayUnit(len(units), start_ms, made, topics, models))
    return units


def _waits_on(services: SessionServices, findings: Sequence[SessionFinding]) -> frozenset[int]:
    """Brokers on which a session meets others; one that cannot be replayed keeps nobody from being replayed."""
    is_known = any(finding.baseline.strategy is not None for finding in findings)
    return services.saturated if is_known else frozenset()


def _choose_models(
    sessions: Sequence[tuple[SessionServices, Sequence[SessionFinding]]],
) -> dict[int, ServiceModel]:
    """Of each broker the model of the session that sent it most."""
    chosen: dict[int, tuple[int, ServiceModel]] = {}
    for services, findings in sessions:
        for broker_id, model in services.models.items():
            sent = sum(finding.bytes_by_broker.get(broker_id, 0) for finding in findings)
            if broker_id not in chosen or sent > chosen[broker_id][0]:
                chosen[broker_id] = sent, model
    return {broker_id: model for broker_id, (_, model) in chosen.items()}


def _list_topics(
    start_ms: int,
    findings: Sequence[SessionFinding],
    cluster: ClusterFacts,
    key_families: Mapping[TopicWindow, str],
) -> tuple[UnitTopic, ...]:
    """Topics with a leader, in order."""
    topics = []
    for topic, topic_id in sorted({(finding.topic, finding.topic_id) for finding in findings}):
        led = cluster.leaders.get((start_ms, topic, topic_id))
        if led and max(led.values()) >= 0:
            leaders = tuple(led.get(partition, -1) for partition in range(max(led) + 1))
            topics.append(UnitTopic(topic, topic_id, leaders, key_families.get((start_ms, topic, topic_id), "")))
    return tuple(topics)


def _make_session(findings: Sequence[SessionFinding]) -> UnitSession:
    """One producer has one partitioner: that of the topic where it is surest, of equals the one with most records."""
    surest = max(findings, key=lambda f: (f.baseline.strategy is not None, f.baseline.confidence, f.record_count))
    return UnitSession(
        producer_id=surest.producer_id,
        producer_epoch=surest.producer_epoch,
        pooled_topic=(surest.topic, surest.topic_id) if surest.producer_id < 0 else None,
        record_count=sum(f.record_count for f in findings),
        is_keyed=any(f.keyless_count < f.record_count for f in findings),
        baseline=surest.baseline,
        compression=surest.compression,
    )


def _read_unit(paths: Sequence[str], unit: ReplayUnit) -> Iterator[SessionTraffic]:
    """A unit's arrivals; called where tasks run, like `_read_hashes`."""
    sessions = [(session.producer_id, session.producer_epoch) for session in unit.sessions]
    return iter_sessions(read_sessions(paths, ARRIVAL_COLUMNS, unit.start_ms, sessions))


def _read_hashes(paths: Sequence[str], unit: ReplayUnit) -> KeyHashes:
    if not any(session.is_keyed for session in unit.sessions) or not paths:
        return NO_HASHES
    columns = ("key_id", "is_empty", *HASH_COLUMNS.values())
    rows = pa.Table.from_batches([batch for path in paths for batch in iter_file_rows(path, columns)])
    numbers = np.array([number_of_id(key_id) for key_id in rows["key_id"].to_pylist()], np.int64)
    keys, first = np.unique(numbers, return_index=True)
    hashes = {name: rows[name].fill_null(-1).to_numpy()[first].astype(np.int64) for name in HASH_COLUMNS.values()}
    return KeyHashes(keys, rows["is_empty"].to_numpy(zero_copy_only=False)[first], hashes)


def _merge_runs(plan: RunPlan, rows: Iterable[pa.RecordBatch]) -> dict[TopicWindow, dict[int, dict[int, TopicRun]]]:
    """Adds up the units that write to a topic; a candidate that makes the same run as another has its runs."""
    parts: dict[tuple[TopicWindow, int, int], list[tuple[int, TopicRun]]] = defaultdict(list)
    for row in read_runs(rows):
        unit = plan.units[row.unit]
        topic = unit.topics[row.topic]
        for candidate, variant in enumerate(plan.variants[row.unit]):
            if variant is not None and variant.producers and variant.same_as == row.candidate:
                place = unit.start_ms, topic.topic, topic.topic_id
                parts[place, candidate, row.seed].append((row.unit, row.run))
    merged: dict[TopicWindow, dict[int, dict[int, TopicRun]]] = defaultdict(lambda: defaultdict(dict))
    for (place, candidate, seed), found in sorted(parts.items(), key=lambda item: item[0]):
        merged[place][candidate][seed] = add_runs(run for _, run in sorted(found, key=lambda part: part[0]))
    return {place: dict(by_candidate) for place, by_candidate in merged.items()}
