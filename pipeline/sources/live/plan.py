"""Which offsets a run fetches: per partition the batches of its windows, in ranges that tasks share.

A range begins at the first record not before the span. It ends at the high watermark, or at the first record later than span and
lateness, if the topic takes none further ahead and did not for runs before. It has the batches whose base offset it holds, a
partition's first range also the batch its start is within. Where a part of the records is read, reruns read the same.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, Self

import mmh3

from pipeline.model.cluster import TIME_AHEAD, EarlierState
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow, Windows
from pipeline.sources.live import admin
from pipeline.sources.live.admin import OffsetAt
from pipeline.sources.live.connection import ClusterConnection
from pipeline.sources.live.settings import FetchRead
from pipeline.sources.live.state import LiveState
from pipeline.sources.records.event_time import TOLERANCE_MS

RANGE_BYTES = 128 << 20
"""About how much one range holds: enough to hide its start, little enough to share, and to hold while keys are counted."""
MOST_RANGES = 2_000  # of a leader, in equal parts for its partitions: a broker may claim any size


class Shortfall(NamedTuple):
    """Records that could not be had, of windows that begin before `until_ms` (None: of all)."""

    key: TopicPartition
    reason: str
    until_ms: int | None = None

    @classmethod
    def of_silence(cls, key: TopicPartition, state: LiveState) -> Self:
        """Of a partition whose leader did not answer; where nobody leads it, of what was before that."""
        return cls(key, state.failures.partitions.get(key, "no answer"), state.leaderless_since_ms.get(key))


def plan_fetches(
    connection: ClusterConnection,
    state: LiveState,
    partitions: Iterable[TopicPartition],
    span: TimeWindow,
    *,
    lateness_ms: int,
    as_of_ms: int,
    settled: Mapping[TopicPartition, int] | None = None,
    earlier: Mapping[TopicPartition, EarlierState] | None = None,
    is_sample: bool = False,
) -> tuple[tuple[FetchRead, ...], tuple[Shortfall, ...]]:
    """Ranges that hold a span (a run's windows, or a slice of one) and its late records, in order, and what cannot be read completely.

    `settled`: where logs ended long before it, so that a record there with a far later time is no start. `earlier`: what the newest run
    before said. `is_sample`: times decide where a range ends, whatever a topic takes.
    """
    wanted, settled, earlier = tuple(partitions), settled or {}, earlier or {}
    leaders = {key: state.partitions[key].leader_id for key in wanted if key in state.high_watermarks}
    starts = admin.ask_offsets(connection, leaders, span.start_ms, state.failures)
    late_ms = span.end_ms + lateness_ms
    ended = leaders if late_ms < as_of_ms else {}
    if ended and not is_sample:
        config = state.history.state_at(as_of_ms).topic_config
        ahead = {key: past.time_ahead_ms for key, past in earlier.items() if key in settled}
        ended = {key: of for key, of in ended.items() if _ends_by_time(config(key.topic), ahead.get(key), lateness_ms)}
    ends = admin.ask_offsets(connection, ended, late_ms, state.failures) if ended else {}
    led, asked_ms = Counter(leaders.values()), find_asked_ms(earlier.values())
    reads: list[FetchRead] = []
    shortfalls: list[Shortfall] = []
    for key in wanted:
        if key not in starts or key not in state.log_starts:
            shortfalls.append(Shortfall.of_silence(key, state))
            continue
        log_start, high = state.log_starts[key].offset, state.high_watermarks[key].offset
        past, old_end, end_at = earlier.get(key), settled.get(key, -1), ends.get(key)
        if end_at is not None and end_at.offset < old_end and not is_sample:
            end_at = None  # it came long before the span, while the topic took any time
        start, end = _range(starts[key], end_at, log_start, high, late_ms)
        is_old = log_start <= old_end <= high  # nothing was deleted but what is known to have come long before the span
        if is_old and starts[key].timestamp_ms > late_ms:
            start = max(start, old_end)
        elif not is_old:
            shortfalls += find_retention(key, starts[key], log_start, span.start_ms, find_end(past, state, asked_ms))
        if end > start:
            log = state.partitions[key].log_name
            size_bytes = state.leader_sizes.get(key, 0) * (end - start) // max(1, high - log_start)
            whole = FetchRead(*log, leaders[key], start, end, is_first=True, is_last=True, size_bytes=size_bytes)
            reads += split(whole, most=max(1, MOST_RANGES // led[leaders[key]]))
    return tuple(reads), tuple(shortfalls)


def join_reads(earlier: Sequence[FetchRead], later: Sequence[FetchRead]) -> list[FetchRead]:
    """Reads of earlier slices of the time, and those of the next one less what earlier ones read."""
    ends: dict[str, int] = {}
    for read in earlier:
        ends[read.path] = max(ends.get(read.path, 0), read.end_offset)
    joined = list(earlier)
    for read in later:
        end = ends.get(read.path)
        if end is None:
            joined.append(read)
        elif read.end_offset > end:
            joined.append(replace(read, start_offset=max(read.start_offset, end), taken_until=end))
    return joined


def _ends_by_time(config: Mapping[str, str], earlier_ms: int | None, lateness_ms: int) -> bool:
    """Whether a topic takes no record that is further ahead than the lateness, nor did for runs before: else one ends no range.

    `LogAppendTime` does not say so: a record that came before that was set bears any time.
    """
    ahead = config.get(TIME_AHEAD, "")
    return ahead.isdecimal() and earlier_ms is not None and max(int(ahead), earlier_ms) <= lateness_ms


def _range(start: OffsetAt, end: OffsetAt | None, log_start: int, high: int, late_ms: int) -> tuple[int, int]:
    first = high if start.offset < 0 else max(start.offset, log_start)
    if end is None or end.offset < first:
        return first, high
    # A record far in the future (a client's own timestamp) is no end: what follows it may belong to the span.
    is_outlier = end.timestamp_ms > late_ms + TOLERANCE_MS
    return first, high if is_outlier else min(end.offset, high)


def find_asked_ms(earlier: Iterable[EarlierState]) -> int | None:
    return max((past.told_at_ms for past in earlier if past.told_at_ms is not None), default=None)


def find_end(earlier: EarlierState | None, state: LiveState, asked_ms: int | None) -> tuple[int | None, int | None]:
    """Where a partition's log ended for an earlier run, and when; None where that is not known. One made since `asked_ms` began empty."""
    partition = earlier and state.partitions.get(TopicPartition(earlier.topic, earlier.partition))
    if earlier and partition and earlier.topic_id == (partition.topic_id or ""):
        return earlier.log_end_offset, earlier.told_at_ms
    return None if asked_ms is None else 0, asked_ms


def find_retention(
    key: TopicPartition,
    start: OffsetAt,
    log_start: int,
    start_ms: int,
    told: tuple[int | None, int | None] = (None, None),
) -> tuple[Shortfall, ...]:
    """Finds what retention deleted, where a span begins before the oldest record left (`start`: the first not before the time).

    What came after an earlier run within the span found the log's end (`told`: offset, when) and is gone was of the span, too.
    """
    end_before, told_ms = told
    is_cut, until_ms = end_before is not None and end_before < log_start, None
    if start.offset >= 0:
        has_lost = is_cut and told_ms is not None and told_ms >= start_ms
        is_cut = has_lost or (start.timestamp_ms > start_ms and start.offset == log_start > 0)
        until_ms = start.timestamp_ms
    if not is_cut:
        return ()
    reason = (
        f"retention has taken the offsets before {log_start}: they may have been of this window, or a client sends records "
        "older than retention.ms: message.timestamp.before.max.ms, set on the topic, refuses them; a topic that its readers purge, "
        "as Kafka Streams does, is left out by `topics: ['!*-repartition']`"
    )
    return (Shortfall(key, reason, until_ms),)


def split(read: FetchRead, range_bytes: int = RANGE_BYTES, most: int = MOST_RANGES) -> list[FetchRead]:
    count = max(1, min(read.offset_count, -(-read.size_bytes // range_bytes), most))
    edges = [read.start_offset + read.offset_count * part // count for part in range(count + 1)]
    parts = [replace(read, start_offset=first, end_offset=last) for first, last in pairwise(edges)]
    size_bytes, ends = read.size_bytes // count, (read.start_offset, read.end_offset)
    return [
        replace(one, is_first=one.start_offset == ends[0], is_last=one.end_offset == ends[1], size_bytes=size_bytes)
        for one in parts
    ]


def sample_partitions(partitions: Iterable[TopicPartition], rate: float) -> frozenset[TopicPartition]:
    """The part of each topic's partitions to read, at least one: those with the smallest hashes, the same in every rerun."""
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for key in partitions:
        by_topic[key.topic].append(key)
    chosen: set[TopicPartition] = set()
    for keys in by_topic.values():
        drawn = sorted(keys, key=lambda key: (mmh3.hash64(str(key), signed=False)[0], key))
        chosen.update(drawn[: math.ceil(rate * len(keys))])
    return frozenset(chosen)


def choose_slices(windows: Windows, rate: float, *, cluster: str) -> tuple[TimeWindow, ...]:
    """One slice of each window, as long as the rate says, at a place drawn from the cluster's name and the window."""
    slices = []
    for window in windows:
        length_ms = max(1, round(rate * window.duration_ms))
        free_ms = window.duration_ms - length_ms
        drawn = mmh3.hash64(f"{cluster} {window.start_ms}", signed=False)[0]
        start_ms = window.start_ms + drawn * (free_ms + 1) // 2**64
        slices.append(TimeWindow(start_ms, start_ms + length_ms))
    return tuple(slices)
