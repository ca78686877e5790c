"""Infers the partitioner and settings of every producer session; tasks read a session's arrivals and batches."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.calibration.limits import LEAST_SAMPLE
from pipeline.calibration.partitioner.baseline import Baseline, identify_baseline
from pipeline.calibration.partitioner.linger_waits import settle_linger
from pipeline.calibration.partitioner.settings import measure_compression
from pipeline.calibration.service.batch_fit import ADAPTIVE, choose_variant
from pipeline.calibration.service.latency_fit import needs_trial, sharpen_services
from pipeline.calibration.service.model import Models, ServiceModel
from pipeline.calibration.service.trial import SessionTopic
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic, batches_of, iter_sessions
from pipeline.calibration.within_ms import choose_pattern
from pipeline.replay.clients import name_versions, name_zones
from pipeline.replay.keyed.plan import strategy_in_use
from pipeline.replay.metrics import MetricsBySession, SessionMetrics, fit_sessions, share_models, sum_sent
from pipeline.replay.recorded import SLOTS, ProducerSession, Recording, SessionKey, Sessions, SessionWindow, TopicWindow
from pipeline.replay.simulated.producers import is_simulated
from pipeline.simulator.clients.client import PLACEMENTS
from pipeline.stages import deal_tasks, run_values

ReadRows = Callable[[int, Iterable[tuple[int, int]]], pa.Table]
"""Start of the window and sessions to their rows; called where tasks run."""


class SessionReaders(NamedTuple):
    """They give `ARRIVAL_COLUMNS`, and `BATCH_COLUMNS` of all epochs: arrivals pool those of transactional producers."""

    arrivals: ReadRows
    batches: ReadRows


ARRIVAL_COLUMNS = (
    *("window_start", "topic", "topic_id", "producer_id", "producer_epoch", "minute_start", "timestamp_type", "part"),
    *("record_count", "unreadable_record_count", "aborted_record_count", "outlier_record_count", "late_record_count"),
    *("gap_ms", "body_bytes", "partition", "key_index", "keys", "sampling_rate"),
)
BATCH_COLUMNS = (
    *("window_start", "topic", "topic_id", "partition", "leader_id", "producer_id", "producer_epoch", "record_count"),
    *("size_bytes", "codec", "is_control", "base_timestamp", "max_timestamp", "base_offset"),
)
_SESSION_RECORDS = 20_000  # what looking at a session costs, in records
_TRIAL_RECORDS = 1_000_000  # what looking at it by simulation costs, likewise


def calibrate_sessions(
    spark: SparkSession, recording: Recording, key_families: Mapping[TopicWindow, str], read: SessionReaders
) -> tuple[list[ProducerSession], dict[SessionKey, SessionMetrics]]:
    """Every producer session with its client, version, settings and zone, and what its metrics say; see `find_sessions`."""
    sessions = find_sessions(spark, recording, key_families, read)
    metrics = fit_sessions(recording, sessions)
    sessions = name_versions(recording, sessions, metrics)
    sessions, metrics = refine_sessions(spark, recording, sessions, metrics, read)
    return name_zones(recording, sessions, metrics), metrics


def find_sessions(
    spark: SparkSession, recording: Recording, key_families: Mapping[TopicWindow, str], read: SessionReaders
) -> list[ProducerSession]:
    """Describes every producer session in topics with leaders; `key_families` says which hash assigned a topic's keys."""
    if not recording.with_arrivals:
        return []
    partition_counts = {where: sum(one >= 0 for one in led.values()) for where, led in recording.leaders.items()}
    racks = {
        where: {partition: recording.racks.get(where[0], {}).get(one, "") for partition, one in led.items() if one >= 0}
        for where, led in recording.leaders.items()
    }
    strategies = {topic: strategy_in_use(recording.partitioners, topic) for _, topic, _ in recording.leaders}
    configured = {topic: name for topic, name in strategies.items() if name and is_simulated(name)}

    def look(sessions: Sequence[SessionWindow]) -> Iterator[ProducerSession]:
        for start_ms, of_window in itertools.groupby(sorted(sessions), key=itemgetter(0)):
            own = [(producer_id, epoch) for _, producer_id, epoch in of_window]
            select, told = batches_of(read.batches(start_ms, own)), set[tuple[int, int]]()
            for traffic in iter_sessions(read.arrivals(start_ms, own)):
                where = start_ms, traffic.topic, traffic.topic_id
                if where in partition_counts:
                    batches = select(traffic)
                    baseline = identify_baseline(
                        traffic,
                        batches,
                        partition_counts[where],
                        key_family=key_families.get(where),
                        configured=configured.get(traffic.topic),
                        racks=racks[where],
                    )
                    session = describe_session(start_ms, window_ms, traffic, batches, baseline)
                    key = traffic.producer_id, traffic.producer_epoch
                    # a producer's commits are those of all its topics
                    yield replace(session, commits_ms=session.commits_ms[:0]) if key in told else session
                    if partition_counts[where]:
                        told.add(key)

    counts, window_ms = recording.sessions, recording.window_ms
    tasks = deal_tasks(spark, list(counts), lambda session: _SESSION_RECORDS + counts[session])
    seen = run_values(spark, tasks, look)
    return sorted(seen, key=lambda s: (s.start_ms, s.producer_id, s.producer_epoch, s.topic, s.topic_id))


def describe_session(
    start_ms: int, window_ms: int, traffic: SessionTraffic, batches: SessionBatches, baseline: Baseline
) -> ProducerSession:
    slots = np.clip((batches.max_ms - start_ms) * SLOTS // window_ms, 0, SLOTS - 1)
    brokers, numbers = np.unique(batches.leader, return_inverse=True)
    sizes = np.bincount(numbers, weights=batches.size_bytes).astype(np.int64)
    return ProducerSession(
        start_ms=start_ms,
        topic=traffic.topic,
        topic_id=traffic.topic_id,
        producer_id=traffic.producer_id,
        producer_epoch=traffic.producer_epoch,
        record_count=len(traffic),
        keyless_count=int((~traffic.is_keyed).sum()),
        pattern=choose_pattern(traffic.elapsed_ms),
        batch_count=len(batches),
        bytes_by_broker=dict(zip(brokers.tolist(), sizes.tolist(), strict=True)),
        bytes_by_slot=np.bincount(slots, weights=batches.size_bytes, minlength=SLOTS).astype(np.int64),
        baseline=baseline,
        compression=measure_compression(traffic, batches),
        timestamp_type=traffic.timestamp_type,
        counts={
            "aborted": traffic.aborted_record_count,
            "outlier": traffic.outlier_record_count,
            "late": traffic.late_record_count,
        },
        sampling_rate=traffic.sampling_rate,
        commits_ms=batches.commits_ms,
    )


class _Trial(NamedTuple):
    """A session to be looked at by simulation: its topics, the one with most records without a key first."""

    key: SessionKey
    topics: tuple[ProducerSession, ...]
    leaders: Mapping[tuple[str, str], tuple[int, ...]]
    metrics: SessionMetrics
    end_ms: int
    racks: Mapping[int, str]


def refine_sessions(
    spark: SparkSession, recording: Recording, sessions: Sessions, metrics: MetricsBySession, read: SessionReaders
) -> tuple[list[ProducerSession], dict[SessionKey, SessionMetrics]]:
    """Sharpens baselines and models of sessions whose delays or variant are open: tasks simulate a minute of each."""
    settled = [replace(one, baseline=settle_linger(one.baseline, metrics[one.key].waiting)) for one in sessions]
    trials = _list_trials(recording, settled, metrics)
    tasks = deal_tasks(spark, trials, lambda _: _TRIAL_RECORDS)
    found = dict(run_values(spark, tasks, partial(_refine, read)))
    refined = [
        replace(one, baseline=found[one.key][1]) if one.key in found and one.keyless_count else one for one in settled
    ]
    sharpened = {key: replace(own, models=found[key][0]) if key in found else own for key, own in metrics.items()}
    return refined, share_models(sharpened, sum_sent(sessions))


def _list_trials(recording: Recording, sessions: Sessions, metrics: MetricsBySession) -> list[_Trial]:
    by_key: dict[SessionKey, list[ProducerSession]] = defaultdict(list)
    for session in sessions:
        by_key[session.key].append(session)
    trials = []
    for key, topics in by_key.items():
        own = metrics[key]
        if can_refine(topics, own.models):
            largest_first = tuple(sorted(topics, key=lambda topic: (-topic.keyless_count, *topic.topic_key)))
            racks = recording.racks.get(key[0], {})
            leaders = {topic.topic_key: recording.list_leaders(topic.topic_window) for topic in topics}
            trials.append(_Trial(key, largest_first, leaders, own, key[0] + recording.window_ms, racks))
    return trials


def can_refine(topics: Sessions, models: Models) -> bool:
    """Whether a simulation may say more: where records without a key go depends on what is open."""
    batch_count = sum(topic.batch_count for topic in topics if topic.keyless_count)
    strategies = {topic.baseline.strategy for topic in topics if topic.keyless_count}
    is_followed = bool(strategies) and strategies <= PLACEMENTS.keys()
    is_open = ADAPTIVE in strategies or any(map(needs_trial, models.values()))
    return batch_count >= LEAST_SAMPLE and is_followed and is_open


def _refine(
    read: SessionReaders, trials: Sequence[_Trial]
) -> Iterator[tuple[SessionKey, tuple[dict[int, ServiceModel], Baseline]]]:
    for trial in trials:
        start_ms, producer_id, epoch, *_ = trial.key
        select = batches_of(read.batches(start_ms, [(producer_id, epoch)]))
        arrivals = iter_sessions(read.arrivals(start_ms, [(producer_id, epoch)]))
        traffics = {(traffic.topic, traffic.topic_id): traffic for traffic in arrivals}
        if weights := trial.metrics.weights:  # the metrics are those of the first client
            traffics = {topic: traffic.deal(weights)[0] for topic, traffic in traffics.items()}
        topics = [
            SessionTopic(own, select(own), trial.leaders[one.topic_key], one.baseline, one.compression, trial.racks)
            for one in trial.topics
            if (own := traffics.get(one.topic_key)) is not None
        ]
        models = sharpen_services(
            topics, trial.metrics.models, trial.metrics.nodes, start_ms, trial.end_ms, spans=trial.metrics.spans
        )
        yield trial.key, (models, choose_variant(topics, models, start_ms, trial.end_ms))
