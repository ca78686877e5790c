"""What every producer session uses, found over Spark: tasks read a session's arrivals and batches and look at them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.calibration.partitioner.baseline import Baseline, identify_baseline
from pipeline.calibration.partitioner.settings import measure_compression
from pipeline.calibration.rows import baseline_columns, traffic_columns
from pipeline.calibration.session_traffic import iter_sessions, select_batches
from pipeline.model.window import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pipeline.calibration.partitioner.baseline import ConfiguredProducer
    from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic
    from pipeline.simulator.clients.client import Compression

    Session = tuple[int, int, int]
    """Start of the window, producer id, producer epoch."""
    SessionKey = tuple[int, int, int, str, str]
    """The same with topic and topic id where producers are pooled, else ""."""
    ReadRows = Callable[[int, Iterable[tuple[int, int]]], pa.Table]
    """Start of the window and sessions to their rows."""

ARRIVAL_COLUMNS = (
    *("window_start", "topic", "topic_id", "producer_id", "producer_epoch", "minute_start", "timestamp_type", "part"),
    *("record_count", "unreadable_record_count", "aborted_record_count", "outlier_record_count", "late_record_count"),
    *("gap_ms", "body_bytes", "partition", "key_index", "keys", "sampling_rate"),
)
BATCH_COLUMNS = (
    *("window_start", "topic", "topic_id", "partition", "leader_id", "producer_id", "producer_epoch", "record_count"),
    *("size_bytes", "codec", "is_control", "is_transactional", "base_timestamp", "max_timestamp", "base_sequence"),
)
_POOLED_EPOCH = -1


@dataclass(frozen=True, eq=False)
class SessionFinding:
    """What was found about a producer session in a topic and window.

    Attributes:
        start_ms: Of the window.
        topic: Topic.
        topic_id: Its id, or "".
        producer_id: Kafka's; -1 where pooled.
        producer_epoch: Kafka's, or -1.
        record_count: Records whose arrival is known.
        keyless_count: Of them, those without a key.
        bytes_by_broker: Bytes of its batches in the log, by the broker that led.
        judged_bytes_by_broker: The same of odd minutes, on which nothing is fitted.
        batch_count: Its batches.
        baseline: What it uses.
        compression: What its codec does, or None.
        timestamp_type: `CreateTime`, or `LogAppendTime` where any is.
        counts: Records that are special, by what they are; see `SessionTraffic`.
        sampling_rate: Part of the window's time that was read.
        row: Of `silver.producer_sessions`.
    """

    start_ms: int
    topic: str
    topic_id: str
    producer_id: int
    producer_epoch: int
    record_count: int
    keyless_count: int
    bytes_by_broker: Mapping[int, int]
    judged_bytes_by_broker: Mapping[int, int]
    batch_count: int
    baseline: Baseline
    compression: Compression | None
    timestamp_type: str
    counts: Mapping[str, int]
    sampling_rate: float
    row: Mapping[str, Any]

    @property
    def session(self) -> SessionKey:
        """What stands for one producer: pooled ones are told apart by topic at least."""
        topic = (self.topic, self.topic_id) if self.producer_id < 0 else ("", "")
        return self.start_ms, self.producer_id, self.producer_epoch, *topic


@dataclass(frozen=True)
class CalibrationPlan:
    """Everything a task has to know about topics.

    Attributes:
        partition_counts: With a leader, by start of the window, topic and topic id; other topics are left out.
        key_families: Which hash placed the topic's keys, likewise; absent where none is known.
        configured: What the configuration says, by topic.
    """

    partition_counts: Mapping[tuple[int, str, str], int]
    key_families: Mapping[tuple[int, str, str], str]
    configured: Mapping[str, ConfiguredProducer]


def find_sessions(
    sessions: Sequence[Session], plan: CalibrationPlan, *, read_arrivals: ReadRows, read_batches: ReadRows
) -> Iterator[SessionFinding]:
    """Looks at the sessions of one task.

    Args:
        sessions: Which.
        plan: What is known of topics.
        read_arrivals: Gives rows of `silver.arrivals`, `ARRIVAL_COLUMNS`.
        read_batches: Gives rows of `silver.record_batches`, `BATCH_COLUMNS`.

    Yields:
        A finding for each session and topic.
    """
    by_window: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for start_ms, *session in sessions:
        by_window[start_ms].append((session[0], session[1]))
    for start_ms, found in sorted(by_window.items()):
        stored = read_batches(start_ms, found)
        for traffic in iter_sessions(read_arrivals(start_ms, found)):
            if (start_ms, traffic.topic, traffic.topic_id) in plan.partition_counts:
                yield _look_at(start_ms, traffic, stored, plan)


def in_order(findings: Iterable[SessionFinding]) -> list[SessionFinding]:
    """Findings by window, session and topic."""
    return sorted(findings, key=lambda f: (f.start_ms, f.producer_id, f.producer_epoch, f.topic, f.topic_id))


def _look_at(start_ms: int, traffic: SessionTraffic, stored: pa.Table, plan: CalibrationPlan) -> SessionFinding:
    place = start_ms, traffic.topic, traffic.topic_id
    batches = select_batches(stored, traffic)
    baseline = identify_baseline(
        traffic,
        batches,
        plan.partition_counts.get(place, 1),
        key_family=plan.key_families.get(place),
        configured=plan.configured.get(traffic.topic),
    )
    is_odd = batches.max_ms // MINUTE_MS % 2 == 1
    return SessionFinding(
        start_ms=start_ms,
        topic=traffic.topic,
        topic_id=traffic.topic_id,
        producer_id=traffic.producer_id,
        producer_epoch=traffic.producer_epoch,
        record_count=len(traffic),
        keyless_count=int((~traffic.is_keyed).sum()),
        bytes_by_broker=_sum_by_broker(batches),
        judged_bytes_by_broker=_sum_by_broker(batches.select(is_odd)),
        batch_count=len(batches),
        baseline=baseline,
        compression=measure_compression(traffic, batches),
        timestamp_type=traffic.timestamp_type,
        counts={
            "unreadable": traffic.unreadable_record_count,
            "aborted": traffic.aborted_record_count,
            "outlier": traffic.outlier_record_count,
            "late": traffic.late_record_count,
        },
        sampling_rate=traffic.sampling_rate,
        row=traffic_columns(traffic, batches) | baseline_columns(baseline),
    )


def _sum_by_broker(batches: SessionBatches) -> dict[int, int]:
    brokers, places = np.unique(batches.leader, return_inverse=True)
    sums = np.bincount(places, weights=batches.size_bytes, minlength=len(brokers))
    return {int(broker): int(size) for broker, size in zip(brokers, sums, strict=True)}
