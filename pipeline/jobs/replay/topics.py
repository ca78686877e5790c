"""Everything known about each topic in each window, put together for its rows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.config.replay import IN_USE
from pipeline.jobs.replay.log_facts import load_log_facts, place_of
from pipeline.replay.back_tests import Observed, weigh_latency
from pipeline.replay.concerns import LogFacts, MetricFacts, list_concerns
from pipeline.replay.simulated_topic import RecordedTopic, SimulatedTopic
from pipeline.replay.topic_replay import CandidateRuns, KeyedRows, TopicReplay
from pipeline.storage.rows import load_rows
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.jobs.replay.services import SessionServices
    from pipeline.jobs.replay.simulation import Simulation, TopicWindow
    from pipeline.model.window import TimeWindow
    from pipeline.replay.calibrated import SessionFinding, SessionKey
    from pipeline.replay.results import ClusterFacts, ReplayRows
    from pipeline.replay.run_plan import Variant
    from pipeline.runs import RunContext

_BATCH_HEADER_BYTES = 61


def iter_topics(
    run: RunContext,
    windows: Sequence[TimeWindow],
    *,
    simulation: Simulation,
    findings: Sequence[SessionFinding],
    services: Mapping[SessionKey, SessionServices],
    cluster: ClusterFacts,
    keyed: ReplayRows,
) -> Iterator[TopicReplay]:
    """Topics of the windows, in order.

    Args:
        run: What the run is about.
        windows: Which windows.
        simulation: What was simulated.
        findings: Producer sessions.
        services: What metrics say about them.
        cluster: Leaders and brokers.
        keyed: What the keyed replay says.
    """
    by_topic: dict[TopicWindow, list[SessionFinding]] = defaultdict(list)
    for finding in findings:
        by_topic[finding.start_ms, finding.topic, finding.topic_id].append(finding)
    from_keys = _group_keyed(keyed)
    variants = _find_variants(simulation)
    facts = load_log_facts(run, windows)
    for place, recorded in _load_recorded(run, windows, cluster, by_topic, keyed):
        own, told = by_topic[place], from_keys.get(place, KeyedRows({}, {}, {}))
        if not own and not told.comparison and not run.config.replay.arrivals:
            continue  # nobody asked for more than keys
        runs = simulation.runs.get(place, {})
        candidates = [
            _gather(number, name, recorded, runs.get(number), variants.get((place, number), ()))
            for number, name in _list_candidates(run, place[1])
        ]
        reasons = [candidates[0].reason] if candidates[0].reason else []
        latency = weigh_latency([(f.record_count, services[f.session].latency_avg_ms) for f in own])
        yield TopicReplay(
            start_ms=place[0],
            recorded=recorded,
            findings=own,
            candidates=candidates,
            keyed=told,
            observed=Observed(latency_avg_ms=latency),
            concerns=list_concerns(
                recorded,
                own,
                reasons,
                facts.get(place, LogFacts()),
                [_tell_metrics(services[f.session]) for f in own],
            ),
        )


def _tell_metrics(services: SessionServices) -> MetricFacts:
    texts = (one.text for model in services.models.values() for one in model.assumptions)
    return MetricFacts(
        is_watched=services.is_watched,
        is_matched=services.client_id is not None,
        spare_client_count=services.spare_client_count,
        difference_ratio=services.total_difference_ratio,
        assumptions=tuple(dict.fromkeys(texts)),
    )


def _list_candidates(run: RunContext, topic: str) -> list[tuple[int, str]]:
    """Number in the plan and name of each candidate about a topic; what is in use comes first."""
    named = [(number, one.name) for number, one in enumerate(run.config.candidates, 1) if one.fits(topic)]
    return [(0, IN_USE), *named]


def _gather(
    number: int, name: str, recorded: RecordedTopic, runs: Mapping[int, Any] | None, variants: Sequence[Variant]
) -> CandidateRuns:
    producers = [producer for variant in variants for producer in variant.producers]
    reasons = dict.fromkeys(variant.reason for variant in variants if variant.reason)
    is_whole = bool(runs) and not reasons  # a topic of which one producer cannot be simulated is not simulated
    return CandidateRuns(
        name=name,
        partitioner=producers[0].resolved.strategy if producers else None,
        simulated=SimulatedTopic(recorded, runs) if is_whole and runs else None,
        reason="; ".join(reasons) or ("" if runs else "no arrivals are stored"),
        is_as_in_use=number > 0 and bool(variants) and all(variant.same_as == 0 for variant in variants),
        assumptions=tuple(dict.fromkeys(text for producer in producers for text in producer.assumptions)),
    )


def _find_variants(simulation: Simulation) -> dict[tuple[TopicWindow, int], list[Variant]]:
    """By topic in a window and candidate: how each unit that writes to the topic was varied."""
    found: dict[tuple[TopicWindow, int], list[Variant]] = defaultdict(list)
    for unit, variants in zip(simulation.plan.units, simulation.plan.variants, strict=True):
        for topic in unit.topics:
            place = unit.start_ms, topic.topic, topic.topic_id
            for number, variant in enumerate(variants):
                if variant is not None:
                    found[place, number].append(variant)
    return found


def _group_keyed(rows: ReplayRows) -> dict[TopicWindow, KeyedRows]:
    grouped: dict[TopicWindow, KeyedRows] = defaultdict(lambda: KeyedRows({}, defaultdict(list), defaultdict(list)))
    for row in rows.comparison:
        comparison: Any = grouped[place_of(row)].comparison
        comparison[row["candidate"]] = row
    for row in rows.results:
        results: Any = grouped[place_of(row)].results
        results[row["candidate"]].append(row)
    for row in rows.brokers:
        brokers: Any = grouped[place_of(row)].brokers
        brokers[row["candidate"]].append(row)
    return grouped


def _load_recorded(
    run: RunContext,
    windows: Sequence[TimeWindow],
    cluster: ClusterFacts,
    findings: Mapping[TopicWindow, Sequence[SessionFinding]],
    keyed: ReplayRows,
) -> Iterator[tuple[TopicWindow, RecordedTopic]]:
    """What each topic did, from the traffic of its partitions; sizes before compression from keys where they are known."""
    sizes: dict[TopicWindow, dict[int, int]] = defaultdict(dict)
    for row in keyed.results:
        sizes[place_of(row)][row["partition"]] = row["recorded_size_bytes"]
    keyless = {place_of(row): row["keyless_record_count"] for row in keyed.comparison}
    traffic: dict[TopicWindow, list[dict[str, Any]]] = defaultdict(list)
    for row in load_rows(run.warehouse, PARTITION_TRAFFIC, cluster=run.cluster_name, windows=windows).to_pylist():
        traffic[place_of(row)].append(row)
    for place in sorted(cluster.leaders):
        led = cluster.leaders[place]
        count = max([*led, *(row["partition"] for row in traffic[place])]) + 1
        records, batches, logs = (np.zeros(count, np.int64) for _ in range(3))
        by_broker: dict[int, int] = defaultdict(int)
        for row in traffic[place]:
            records[row["partition"]] += row["record_count"]
            batches[row["partition"]] += row["batch_count"]
            logs[row["partition"]] += row["size_bytes"]
            by_broker[row["leader_id"]] += row["size_bytes"]
        encoded = np.maximum(logs - _BATCH_HEADER_BYTES * batches, 0)
        for partition, size in sizes.get(place, {}).items():
            if partition < count:
                encoded[partition] = size
        known = sum(finding.keyless_count for finding in findings.get(place, ()))
        yield (
            place,
            RecordedTopic(
                topic=place[1],
                topic_id=place[2],
                leaders=led,
                broker_ids=tuple(sorted(cluster.brokers.get(place[0], ()))),
                records=records,
                sizes=encoded,
                batches=batches,
                log_sizes=logs,
                broker_log_sizes=dict(by_broker),
                judged_log_sizes=_sum_judged(findings.get(place, ())),
                keyless_count=keyless.get(place, known),
            ),
        )


def _sum_judged(findings: Sequence[SessionFinding]) -> dict[int, int]:
    """Bytes by broker of minutes on which nothing was fitted."""
    sums: dict[int, int] = defaultdict(int)
    for finding in findings:
        for broker_id, size in finding.judged_bytes_by_broker.items():
            sums[broker_id] += size
    return dict(sums)
