"""The record batches of a log as rows of `silver.record_batches`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.model.cluster import NO_LEADER
from pipeline.model.log import Codec
from pipeline.model.window import LATEST_MS
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.silver import RECORD_BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from pipeline.model.cluster import ClusterHistory
    from pipeline.sources.records.key_rows import RecordLog
    from pipeline.sources.records.scan_settings import ScanSettings
    from pipeline.sources.records.segment_scan import ScannedSegment

CODECS = np.array([codec.name.lower() for codec in Codec] + ["unknown"] * (8 - len(Codec)))
TIMESTAMP_TYPES = np.array(["CreateTime", "LogAppendTime"])

_FILLED_LATER = ("cluster", "window_date", "run_id")
BATCH_SCHEMA = pa.schema(
    [(column.name, ARROW_TYPES[column.type]) for column in RECORD_BATCHES.columns if column.name not in _FILLED_LATER]
)
_INSTANTS = ("base_timestamp", "max_timestamp", "window_start")


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """Who led each partition in which leader epoch.

    Attributes:
        by_epoch: Leader by topic, topic id and partition, then by epoch; a recreated topic has an id
            and epochs of its own.
        current: The newest leader by topic and partition.
    """

    by_epoch: Mapping[tuple[str, str, int], Mapping[int, int]]
    current: Mapping[tuple[str, int], int]

    @classmethod
    def of_history(cls, history: ClusterHistory) -> LeaderEpochs:
        """Leaders of a cluster; a source without epochs names current ones alone."""
        by_epoch: dict[tuple[str, str, int], dict[int, int]] = {}
        current: dict[tuple[str, int], int] = {}
        for key, term in history.iter_leader_terms():
            if term.leader_epoch is not None:
                place = (key.topic, term.topic_id or "", key.partition)
                by_epoch.setdefault(place, {})[term.leader_epoch] = term.leader_id
            if term.leader_id != NO_LEADER:
                current[key] = term.leader_id
        return cls(by_epoch, current)

    def only(self, logs: Iterable[RecordLog]) -> LeaderEpochs:
        """The part about some logs: what a task needs."""
        places = {(log.topic, log.topic_id, log.partition) for log in logs}
        return LeaderEpochs(
            {place: self.by_epoch[place] for place in places if place in self.by_epoch},
            {key: self.current[key] for topic, _, partition in places if (key := (topic, partition)) in self.current},
        )

    def lead(self, log: RecordLog, epochs: NDArray[np.int32]) -> NDArray[np.int64]:
        """Who led at each epoch of a log, else who leads now, else -1."""
        known = self.by_epoch.get((log.topic, log.topic_id, log.partition), {})
        otherwise = self.current.get((log.topic, log.partition), NO_LEADER)
        distinct, place = np.unique(epochs, return_inverse=True)
        return np.array([known.get(epoch, otherwise) for epoch in distinct.tolist()], np.int64)[place]


def make_batch_rows(
    log: RecordLog, scanned: ScannedSegment, settings: ScanSettings, leaders: LeaderEpochs, *, base_offset: int
) -> pa.Table:
    """Rows of `BATCH_SCHEMA`: batches that count as load in the windows wanted, committed and with sensible headers.

    `base_offset` is the file's, or the first offset of the range read.
    """
    event_time_ms = scanned.times.event_time_ms
    kept = scanned.is_countable & scanned.is_committed & (event_time_ms >= 0) & settings.is_wanted(event_time_ms)
    headers, event_time_ms = scanned.headers, event_time_ms[kept]
    rows = headers.rows[kept]
    direct = ("base_offset", "last_offset", "magic", "producer_id", "producer_epoch", "base_sequence", "record_count")
    shared = {
        "topic": log.topic,
        "topic_id": log.topic_id,
        "partition": log.partition,
        "segment_base_offset": base_offset,
    }
    columns: dict[str, NDArray[Any]] = {
        **{name: rows[name] for name in (*direct, "size_bytes", "position")},
        "window_start": event_time_ms - event_time_ms % settings.window_ms,
        "leader_id": leaders.lead(log, rows["partition_leader_epoch"]),
        "leader_epoch": rows["partition_leader_epoch"],
        "codec": CODECS[headers.codec[kept]],
        "timestamp_type": TIMESTAMP_TYPES[headers.timestamp_type[kept]],
        "is_transactional": headers.is_transactional[kept],
        "is_control": headers.is_control[kept],
        "base_timestamp": np.where(headers.has_delete_horizon[kept], -1, rows["base_timestamp_ms"]),
        "max_timestamp": rows["max_timestamp_ms"],
        "is_time_outlier": scanned.times.is_outlier[kept],
        "missing_offset_count": scanned.missing_offset_count[kept],
        "lateness_ms": scanned.times.lateness_ms[kept],
        "is_crc_ok": headers.crc_ok[kept],
    }
    return pa.table(
        [
            pa.repeat(pa.scalar(shared[field.name], field.type), len(rows))
            if field.name in shared
            else _array(columns[field.name], field)
            for field in BATCH_SCHEMA
        ],
        schema=BATCH_SCHEMA,
    )


def _array(values: NDArray[Any], field: pa.Field) -> pa.Array:
    if field.name not in _INSTANTS:
        return pa.array(values).cast(field.type)
    is_none = (values < 0) | (values > LATEST_MS)  # Kafka's "none", and what no calendar holds
    return pa.array(np.where(is_none, 0, values) * 1000, mask=is_none).cast(field.type)
