"""Partition traffic by window without reading a record: offsets looked up by time, bytes by how logs grew.

Records are an upper bound: markers, and what compaction took, have offsets, too. What cannot be known is a shortfall.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.model.cluster import NO_LEADER, EarlierState
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import KAFKA_TOPICS
from pipeline.model.window import MINUTE_MS, Windows, instant_of
from pipeline.sources.files.cluster_rows import TIERED
from pipeline.sources.live import admin
from pipeline.sources.live.connection import ClusterConnection
from pipeline.sources.live.plan import Shortfall, find_asked_ms, find_end, find_retention
from pipeline.sources.live.state import LiveState

_UNKNOWN_COUNTS = (
    *("control_record_count", "missing_offset_count", "compacted_record_count", "crc_error_count", "producer_count"),
    *("max_lateness_ms", "time_outlier_count"),
)


@dataclass(frozen=True, slots=True)
class OffsetTraffic:
    """Traffic of a partition in a window: offsets `[first_offset, end_offset)`, and an estimate of their bytes."""

    window_start_ms: int
    topic: str
    topic_id: str
    partition: int
    leader_id: int  # of all its records, as is the epoch; -1 where there were several or they are not known
    leader_epoch: int
    first_offset: int
    end_offset: int
    size_bytes: int

    @property
    def offset_count(self) -> int:  # at least its records
        return self.end_offset - self.first_offset


def read_offset_traffic(
    connection: ClusterConnection,
    state: LiveState,
    windows: Windows,
    partitions: Collection[TopicPartition],
    earlier: Sequence[EarlierState],
) -> tuple[tuple[OffsetTraffic, ...], tuple[Shortfall, ...]]:
    """Looks up where windows begin and end: a row per partition and window with traffic, and what is unknown."""
    leaders = {key: state.partitions[key].leader_id for key in partitions if key in state.high_watermarks}
    instants = sorted({instant for window in windows for instant in (window.start_ms, window.end_ms)})
    by_instant = {instant: admin.ask_offsets(connection, leaders, instant, state.failures) for instant in instants}
    newest, asked_ms = {TopicPartition(one.topic, one.partition): one for one in earlier}, find_asked_ms(earlier)
    rows: list[OffsetTraffic] = []
    shortfalls: list[Shortfall] = []
    for key in partitions:
        if key not in leaders or any(key not in told for told in (state.log_starts, *by_instant.values())):
            shortfalls.append(Shortfall.of_silence(key, state))
            continue
        epoch = state.partitions[key].leader_epoch
        high = state.high_watermarks[key]._replace(leader_epoch=-1 if epoch is None else epoch)
        at = {i: high if by_instant[i][key].offset < 0 else by_instant[i][key] for i in instants}
        start_ms, past = windows[0].start_ms, newest.get(key)
        shortfalls += find_retention(
            key, by_instant[start_ms][key], state.log_starts[key].offset, start_ms, find_end(past, state, asked_ms)
        )
        ahead_ms = max(by_instant[i][key].timestamp_ms for i in instants)
        shortfalls += [Shortfall(key, reason) for reason in _unknowable(key, state, past, ahead_ms)]
        log = state.partitions[key].log_name
        for window in windows:
            first, end = at[window.start_ms], at[window.end_ms]
            if end.offset > first.offset:
                led = _led_all(key, state, first.leader_epoch, end.leader_epoch)
                size_bytes = round((end.offset - first.offset) * _bytes_per_offset(key, state, past))
                rows.append(OffsetTraffic(window.start_ms, *log, *led, first.offset, end.offset, size_bytes))
    return tuple(rows), tuple(shortfalls)


def _led_all(key: TopicPartition, state: LiveState, first_epoch: int, next_epoch: int) -> tuple[int, int]:
    """Leader and epoch of a window's records, by the epochs of its first and of the next window's; -1: not known."""
    partition = state.partitions[key]
    if partition.leader_epoch is None:  # a cluster without epochs has the present leader only
        return partition.leader_id, -1
    terms = {term.leader_epoch: term for term in state.history.leader_terms(key) if term.topic_id == partition.topic_id}
    if first_epoch < 0 or first_epoch != next_epoch or first_epoch not in terms:
        return NO_LEADER, -1
    return terms[first_epoch].leader_id, first_epoch


def _bytes_per_offset(key: TopicPartition, state: LiveState, earlier: EarlierState | None) -> float:
    """From the log's growth since an earlier run of the same leader, where nothing was deleted; else from all it holds."""
    now = state.leader_sizes.get(key)
    start, end = state.log_starts[key].offset, state.high_watermarks[key].offset
    if now is None or end <= start:
        return 0.0
    if earlier is not None and _is_same_log(earlier, key, state):
        grown, offsets = now - (earlier.size_bytes or 0), end - (earlier.log_end_offset or 0)
        if grown > 0 and offsets > 0:
            return grown / offsets
    return now / (end - start)


def _is_same_log(earlier: EarlierState, key: TopicPartition, state: LiveState) -> bool:
    """Whether an earlier run saw the same leader's log, of which nothing before the start has gone since."""
    of_log = state.partitions[key].topic_id or "", state.partitions[key].leader_id, state.log_starts[key].offset
    is_known = None not in {earlier.size_bytes, earlier.log_end_offset}
    return is_known and (earlier.topic_id, earlier.leader_id, earlier.log_start_offset) == of_log


def _unknowable(key: TopicPartition, state: LiveState, earlier: EarlierState | None, ahead_ms: int) -> Iterator[str]:
    if ahead_ms > (state.history.known_since_ms or math.inf) + MINUTE_MS:  # clocks differ
        yield "a record is stamped later than now: brokers find by time none of those that came after it"
    if key not in state.leader_sizes:
        yield "the size of its log is unknown, and so are the bytes it got"
    configs = state.history.topic_configs.get(key.topic)
    if configs is not None and (configs.values[-1] or {}).get(TIERED) == "true":
        yield "brokers tell the size of its local log only (remote.storage.enable): its bytes follow from no offsets"
    if earlier is None:
        return
    partition, size_bytes = state.partitions[key], state.leader_sizes.get(key, math.inf)
    has_shrunk = _is_same_log(earlier, key, state) and size_bytes < (earlier.size_bytes or 0)
    if earlier.topic_id and earlier.topic_id != (partition.topic_id or ""):
        yield "the topic was deleted and recreated since the run before: what the old one got is unknown"
    elif earlier.log_end_offset is not None and state.high_watermarks[key].offset < earlier.log_end_offset:
        yield "its log was cut since the run before"
    elif earlier.leader_epoch is not None and partition.leader_epoch not in {None, earlier.leader_epoch}:
        leaders = f"(broker {earlier.leader_id}, now {partition.leader_id})"
        yield f"its leader changed since the run before {leaders}: which one carried which part is unknown"
    elif has_shrunk and key.topic not in KAFKA_TOPICS:
        # Kafka's own topics are compacted all the time, and are little load: they are estimated by what they hold.
        yield "its log has shrunk since the run before: compaction took an unknown part of the bytes"


def offset_summary_rows(traffic: Iterable[OffsetTraffic], window_ms: int) -> list[dict[str, Any]]:
    """Rows of `SUMMARY_SCHEMA` for each window, from offsets; with the other fields of `OffsetTraffic`."""
    return [
        {
            **asdict(row),
            "row_kind": "window",
            "path": f"{row.topic}-{row.partition}",
            "last_offset": row.end_offset - 1,
            "batch_count": 1,
            "record_count": row.offset_count,
            "max_timestamp_ms": row.window_start_ms + window_ms - 1,
        }
        for row in traffic
    ]


def iter_offset_traffic_rows(
    traffic: Iterable[OffsetTraffic], *, cluster: str, compacted: Collection[str], batch_size_bytes: int
) -> Iterator[dict[str, Any]]:
    """Rows of `silver.partition_traffic` from offsets and sizes; batches are taken as full, the fewest there can be."""
    for row in traffic:
        yield {
            **asdict(row),
            "cluster": cluster,
            "window_start": instant_of(row.window_start_ms),
            "record_count": row.offset_count,
            "batch_count": -(-row.size_bytes // batch_size_bytes),
            "last_offset": row.end_offset - 1,
            "covered_offset_count": row.offset_count,
            "is_compacted": row.topic in compacted,
            "batch_bytes_squared": float(row.size_bytes * batch_size_bytes),
            "count_kind": "upper_bound",
            "sampling_rate": 0.0,
            **dict.fromkeys(_UNKNOWN_COUNTS, 0),
        }
