"""The record batches of a log as rows of `silver.record_batches`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.model.cluster import NO_LEADER, ONLY_REPLICA, ClusterHistory, ReplicaState
from pipeline.model.log import Codec, LogName
from pipeline.model.log_tree import DirectoryKind, LogTree
from pipeline.model.window import LATEST_MS
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import RecordLog, ScannedSegment
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.silver import RECORD_BATCHES

CODECS = np.array([codec.name.lower() for codec in Codec] + ["unknown"] * (8 - len(Codec)))
TIMESTAMP_TYPES = np.array(["CreateTime", "LogAppendTime"])
_FILLED_LATER = ("cluster", "window_date", "run_id")
BATCH_SCHEMA = pa.schema(
    [(column.name, ARROW_TYPES[column.type]) for column in RECORD_BATCHES.columns if column.name not in _FILLED_LATER]
)
_INSTANTS = ("base_timestamp", "max_timestamp", "window_start")


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """Leader of each partition by leader epoch; the present leader says nothing of other epochs."""

    # by topic, topic id ("" for logs without one, where the name had one topic only) and partition, then by epoch
    by_epoch: Mapping[tuple[str, str, int], Mapping[int, int]]
    current: Mapping[tuple[str, int], int]  # by topic and partition, of the newest epoch, where no epochs are known
    # The newest epoch with batches by topic and partition, from `leader-epoch-checkpoint` or its last batch; else the
    # newest of what is read. None where replicas alone name the leader, which is then the only broker that can have led.
    newest: Mapping[tuple[str, int], int] | None = field(default_factory=dict)
    # moments at which epochs began, as far as they are known, and the epochs, in order; keys as of `by_epoch`
    begun: Mapping[tuple[str, str, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: ClusterHistory, tree: LogTree, replicas: Iterable[ReplicaState]) -> Self:
        """By what a source knows of leaders, checkpoints and logs' ends: an epoch that begins there has no batch."""
        by_epoch: dict[tuple[str, str, int], dict[int, int]] = {}
        begun: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        current: dict[tuple[str, int], int] = {}
        newest: dict[tuple[str, int], int] = {}
        terms = ((key, term) for key in sorted(history.partitions) for term in history.leader_terms(key))
        for key, term in terms:
            if term.leader_id == NO_LEADER:
                continue
            if term.leader_epoch is None:
                current[key] = term.leader_id
            else:
                log = key.topic, term.topic_id or "", key.partition
                by_epoch.setdefault(log, {})[term.leader_epoch] = term.leader_id
                if term.since_ms is not None:
                    begun.setdefault(log, []).append((term.since_ms, term.leader_epoch))
        ids = Counter((topic, partition) for topic, _, partition in by_epoch)
        by_epoch |= {(t, "", p): terms for (t, _, p), terms in by_epoch.items() if ids[t, p] == 1}
        begun |= {(t, "", p): terms for (t, _, p), terms in begun.items() if ids[t, p] == 1}
        ends: dict[tuple[str, int], int] = {}
        for replica in replicas:
            ends[replica.topic_partition] = max(ends.get(replica.topic_partition, 0), replica.log_end_offset or 0)
            if replica.leader_epoch >= 0:
                newest[replica.topic_partition] = max(newest.get(replica.topic_partition, 0), replica.leader_epoch)
        for _, directory in tree.iter_partitions(kind=DirectoryKind.LIVE):
            place = directory.topic_partition
            for noted in directory.leader_epochs:
                if noted.start_offset < ends.get(place, 0):
                    newest[place] = max(newest.get(place, 0), noted.epoch)
        moments = {log: tuple(sorted(terms)) for log, terms in begun.items()}
        return cls(by_epoch, current, None if history.state_source == ONLY_REPLICA else newest, moments)

    def only(self, logs: Iterable[RecordLog | LogName]) -> Self:
        places = {(log.topic, log.topic_id, log.partition) for log in logs}
        keys = {(topic, partition) for topic, _, partition in places}
        return type(self)(
            {place: self.by_epoch[place] for place in places if place in self.by_epoch},
            {key: self.current[key] for key in keys if key in self.current},
            None if self.newest is None else {key: self.newest[key] for key in keys if key in self.newest},
            {place: self.begun[place] for place in places if place in self.begun},
        )

    def lead(
        self, log: RecordLog | LogName, epochs: NDArray[np.int32], starts_ms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The leader of each batch, by its epoch and its window's start: who led by then, where the epoch had ended; -1 where unknown."""
        moments, begun = np.array([(-(2**63), -1), *self.begun.get((log.topic, log.topic_id, log.partition), ())]).T
        by_then = begun[np.searchsorted(moments, starts_ms, side="right") - 1]
        epochs = np.where(epochs < 0, epochs, np.maximum(epochs, by_then)).astype(np.int32)
        known = self.by_epoch.get((log.topic, log.topic_id, log.partition), {})
        distinct, place = np.unique(epochs, return_inverse=True)
        if known:
            only = set(known.values())
            legacy = only.pop() if len(only) == 1 else NO_LEADER
            led = {epoch: known.get(epoch, NO_LEADER) for epoch in distinct.tolist()} | {-1: legacy}
        else:
            key = (log.topic, log.partition)
            newest = distinct.tolist() if self.newest is None else [self.newest.get(key, distinct.max(initial=-1))]
            led = dict.fromkeys((-1, *newest), self.current.get(key, NO_LEADER))
        return np.array([led.get(epoch, NO_LEADER) for epoch in distinct.tolist()], np.int64)[place]


def make_batch_rows(
    log: RecordLog,
    scanned: ScannedSegment,
    settings: ScanSettings,
    leaders: LeaderEpochs,
    *,
    base_offset: int,
    part: slice = slice(None),
) -> pa.Table:
    """Rows of `BATCH_SCHEMA`: batches (a `part` of them) that count as load in windows wanted, and are committed."""
    event_time_ms = scanned.times.event_time_ms
    kept = scanned.is_countable & scanned.is_committed & (event_time_ms >= 0) & settings.is_wanted(event_time_ms)
    headers, is_mine = scanned.headers, np.zeros(len(kept), np.bool_)
    is_mine[part] = True
    starts_ms = event_time_ms - event_time_ms % settings.window_ms
    epochs = headers.rows["partition_leader_epoch"][kept]
    leader_id = leaders.lead(log, epochs, starts_ms[kept])[is_mine[kept]]  # by the newest of all
    kept &= is_mine
    rows = headers.rows[kept]
    direct = ("base_offset", "last_offset", "magic", "producer_id", "producer_epoch", "base_sequence", "record_count")
    shared = {name: getattr(log, name) for name in ("topic", "topic_id", "partition")}
    shared["segment_base_offset"] = base_offset
    columns: dict[str, NDArray[Any]] = {
        **{name: rows[name] for name in (*direct, "size_bytes", "position")},
        "window_start": starts_ms[kept],
        "leader_id": leader_id,
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
    arrays = [
        pa.repeat(pa.scalar(shared[f.name], f.type), len(rows)) if f.name in shared else _array(columns[f.name], f)
        for f in BATCH_SCHEMA
    ]
    return pa.table(arrays, schema=BATCH_SCHEMA)


def _array(values: NDArray[Any], field: pa.Field) -> pa.Array:
    if field.name not in _INSTANTS:
        return pa.array(values).cast(field.type)
    is_none = (values < 0) | (values > LATEST_MS)  # Kafka's "none", and what no calendar holds
    return pa.array(np.where(is_none, 0, values) * 1000, mask=is_none).cast(field.type)
