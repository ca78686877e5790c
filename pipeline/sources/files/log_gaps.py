"""What disks lack of a window: brokers and partitions that were not found, and records that retention took unread."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.model.cluster import NO_LEADER, ClusterHistory, ClusterState, ReplicaState, Timeline, retention_ms
from pipeline.model.log import Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import KAFKA_TOPICS, DirectoryKind, LogDirectory, LogTree, PartitionDirectory
from pipeline.model.window import LATEST_MS, NS_PER_MS, TimeWindow
from pipeline.sources.files.cluster_rows import TIERED
from pipeline.sources.files.cluster_state import read_log_end_offset, scan_tail
from pipeline.sources.files.log_directories import COPY
from pipeline.sources.files.log_lookup import look_up_offset
from pipeline.sources.files.segment_plan import choose_replicas
from pipeline.sources.questions import SourceAvailability, name_some
from pipeline.sources.records.event_time import NEIGHBOURS
from pipeline.sources.records.segment_scan import read_first_stamps

if TYPE_CHECKING:
    from pipeline.sources.source import ClusterReading

_COPIED_MS = 60_000  # by which metadata logs of brokers that are copied one after another may differ


def find_cut_logs(
    tree: LogTree, history: ClusterHistory, topics: Collection[str], *, start_ms: int, as_of_ms: int
) -> dict[TopicPartition, TimeWindow]:
    """Of logs whose first segments are gone, the time their records may be of: until the first batch left, none later than `as_of_ms`.

    Of a log that retention emptied they are older than the shortest `retention.ms` that the topic had since `start_ms`, if it
    had one all the time, and neither `retention.bytes` nor tiered storage, where a local log is emptied sooner.
    """
    gaps = {}
    for _, partition in choose_replicas(tree, history.state_at(as_of_ms).leaders, topics):
        segment = next((one for one in partition.segments if one.size_bytes), None)
        begin = segment or next(iter(partition.segments), None)
        if begin is None or not begin.base_offset:
            continue
        begun_ms = find_begin_ms(begin.path, as_of_ms)
        if begun_ms <= start_ms:
            continue
        if segment is None:  # retention left nothing
            configs = history.topic_configs.get(partition.topic, Timeline()).list_values(start_ms, as_of_ms)
            timed = [one for one in configs if one and one.get("retention.bytes", "-1") == "-1"]
            by_time = [retention_ms(one) for one in timed if one.get(TIERED) != "true"]  # else younger ones go, too
            kept_ms = min([one or 0 for one in by_time], default=0) if len(by_time) == len(configs) else 0
            if (until_ms := begun_ms - kept_ms) > start_ms:
                gaps[partition.topic_partition] = TimeWindow(0, until_ms)
            continue
        with contextlib.suppress(OSError, ValueError):  # it is read once more, and told then
            until_ms = find_sent_ms(read_first_stamps(segment.path), as_of_ms)
            gaps[partition.topic_partition] = TimeWindow(0, min(begun_ms, until_ms))
    return gaps


def find_old_copies(
    tree: LogTree, replicas: Iterable[ReplicaState], state: ClusterState, topics: Collection[str], *, as_of_ms: int
) -> dict[TopicPartition, TimeWindow]:
    """Of logs that end before what their disk's checkpoint or another replica has, the time that the rest may be of.

    `replicas` were read before. One of an older leader epoch does not count: what only it holds was lost at an election.
    """
    ends = {
        (one.log_directory, one.topic_partition): _Reach(one.log_end_offset or 0, one.high_watermark or 0)
        for one in replicas
        if not one.is_future
    }
    copies: dict[TopicPartition, list[tuple[LogDirectory, PartitionDirectory]]] = defaultdict(list)
    for directory, partition in tree.iter_partitions(kind=DirectoryKind.LIVE):
        copies[partition.topic_partition].append((directory, partition))
    old = {}
    for directory, partition in choose_replicas(tree, state.leaders, topics):
        key, nothing = partition.topic_partition, _Reach(0, 0)
        others = [one for one in copies[key] if one[1] is not partition and _is_as_new(one[1], partition)]
        furthest = max(others, key=lambda one: ends.get((one[0].path, key), nothing), default=None)
        known = max(ends.get((one.path, key), nothing).committed for one in (directory, *(one for one, _ in others)))
        held = nothing if furthest is None else ends.get((furthest[0].path, key), nothing)
        if max(held.end, known) > ends.get((directory.path, key), nothing).end:
            with contextlib.suppress(OSError, InputError, ValueError):  # it is read once more, and told then
                # a leader's log that is written meanwhile is ahead of all others once more
                end = read_log_end_offset(partition.segments[-1]) or 0 if partition.segments else 0
                if furthest is not None and held.end > end:
                    old[key] = TimeWindow(_find_time_of(*furthest, end, as_of_ms), LATEST_MS)
                elif known > end:
                    old[key] = TimeWindow(_find_last_ms(partition, as_of_ms), LATEST_MS)
    return old


class _Reach(NamedTuple):
    end: int
    committed: int  # by the checkpoint of its disk


def _is_as_new(other: PartitionDirectory, partition: PartitionDirectory) -> bool:
    """Whether another replica is of the same topic, and of the same leader epoch or a later one."""
    epochs = [one.leader_epochs[-1].epoch if one.leader_epochs else -1 for one in (other, partition)]
    return epochs[0] >= epochs[1] and (other.topic_id or "") in {"", partition.topic_id or other.topic_id}


def _find_time_of(directory: LogDirectory, partition: PartitionDirectory, offset: int, as_of_ms: int) -> int:
    way = look_up_offset(directory, partition, offset)
    if way.segment is None or way.found is None or way.found.batch is None:
        return 0
    return int(read_first_stamps(way.segment.path, way.found.batch.position).clip(0).min(initial=as_of_ms))


def _find_last_ms(partition: PartitionDirectory, as_of_ms: int) -> int:
    """When the last batches of a log were sent; 0 where it has none."""
    last = next((one for one in reversed(partition.segments) if one.size_bytes), None)
    if last is None:
        return 0
    tail = scan_tail(last)
    return find_sent_ms(tail.max_timestamp_ms[tail.usable][-NEIGHBOURS:], as_of_ms)


def find_begin_ms(segment_path: str, latest_ms: int) -> int:
    """When a segment was begun: producers' snapshot of that moment is as old. `latest_ms` if it is not there, or younger."""
    try:
        begun_ms = Path(segment_path).with_suffix(".snapshot").stat().st_mtime_ns // NS_PER_MS
    except OSError:
        return latest_ms
    return min(begun_ms, latest_ms)


def find_sent_ms(stamps_ms: NDArray[np.int64], latest_ms: int) -> int:
    """When the first of some batches were sent, which most of them say: one may be late. `latest_ms` if none says it."""
    known_ms = np.sort(stamps_ms[(stamps_ms > 0) & (stamps_ms <= latest_ms)][:NEIGHBOURS])
    return int(known_ms[known_ms.size // 2]) if known_ms.size else latest_ms


def list_unfound(paths: Iterable[Path], tree: LogTree) -> tuple[str, ...]:
    """Configured paths with no log in them, unless they are copies of others."""
    copies = [problem.path for problem in tree.problems if COPY in problem.reason]
    held = [Path(one).resolve() for one in (*copies, *(directory.path for directory in tree.directories))]
    real = ((path, path.resolve()) for path in paths)
    return tuple(str(path) for path, at in real if not any(o.is_relative_to(at) or at.is_relative_to(o) for o in held))


def list_live(tree: LogTree) -> frozenset[TopicPartition]:
    """Partitions that have a log on some disk, and are not about to be deleted or moved there."""
    return frozenset(partition.topic_partition for _, partition in tree.iter_partitions(kind=DirectoryKind.LIVE))


def without_deleted(gaps: Mapping[TopicPartition, TimeWindow], tree: LogTree) -> Mapping[TopicPartition, TimeWindow]:
    """Gaps of topics of which some disk has a log still; all where a disk cannot be listed. A replica that moves leaves its disk, too."""
    try:
        held = [path for directory in tree.directories for path in Path(directory.path).iterdir()] if gaps else []
    except OSError:
        return gaps
    topics = {path.name.rpartition("-")[0] for path in held}
    return {key: gap for key, gap in gaps.items() if key.topic in topics}


def name_left_out(
    tree: LogTree, live: Collection[TopicPartition], state: ClusterState, topics: Collection[str]
) -> Iterator[Problem]:
    """Says which topics of clients have no log at all: copies of disks may leave them out, or a disk is missing."""
    found = {key.topic for key in live}
    led = {key.topic for key, one in state.partitions.items() if one.leader_id != NO_LEADER}
    if missing := sorted(one for one in led - found if fits_topics(one, topics) and one not in KAFKA_TOPICS):
        reason = f"{name_some('no disk holds a partition of', missing)}: taken to be left out, as `topics` may say"
        yield Problem(path=tree.directories[0].path if tree.directories else "", reason=reason, severity="suspect")


def list_active(reading: ClusterReading, window: TimeWindow) -> set[int]:
    """Brokers that are registered at a window's end, and not fenced all the time; those found where none is known."""
    history = reading.history
    if not history.brokers:
        return {*reading.directory_counts}
    begin_ms, end_ms = (max(one, history.known_since_ms or 0) for one in (window.start_ms, window.end_ms))
    return {
        broker_id
        for broker_id, timeline in history.brokers.items()
        if timeline.at(end_ms) and any(one and not one.is_fenced for one in timeline.list_values(begin_ms, end_ms))
    }


def list_unmounted(reading: ClusterReading, window: TimeWindow) -> list[str]:
    """Log directories that brokers found had registered at a window's end, and have, but no disk is; none where an id is not known."""
    found: dict[int, set[str | None]] = defaultdict(set)
    for directory in reading.tree.directories:
        found[NO_LEADER if directory.broker_id is None else directory.broker_id].add(directory.directory_id)
    unmounted = []
    for broker_id, timeline in sorted(reading.history.brokers.items()):
        at_end, last = timeline.at(max(window.end_ms, reading.history.known_since_ms or 0)), timeline.at(LATEST_MS)
        if at_end and last and found[broker_id] and None not in found[broker_id]:
            lacking = {*at_end.directory_ids} & {*last.directory_ids} - found[broker_id]
            unmounted += [f"{one} of broker {broker_id}" for one in sorted(lacking)]
    return unmounted


def find_stale(reading: ClusterReading, window: TimeWindow, newest_batch_ms: int | None = None) -> dict[int, int]:
    """Brokers in the cluster at a window's end whose disks were copied before, and until when they reach.

    Each broker keeps the metadata log, which grows all the time: one that ends well before the window's end while
    another broker's goes on is of an older copy. So are all where controllers write without a pause of that length, and a
    disk that its broker wrote to last well before it wrote to another, though it leads partitions there. If no metadata
    log tells, all are old if none was written to since. Times from before the batches are of an archive that keeps none.
    """
    history, newest_ms = reading.history, max(reading.metadata_ends_ms.values(), default=0)
    end_ms = min(window.end_ms, reading.as_of_ms)
    quiet_ms = end_ms if history.quiet_ms is None else history.quiet_ms
    until_ms = max(min(end_ms, newest_ms), end_ms - quiet_ms) - _COPIED_MS
    stale = {}
    for broker_id, at_ms in sorted(reading.metadata_ends_ms.items()):
        timeline = history.brokers.get(broker_id, Timeline())
        broker = timeline.at(max(window.end_ms, history.known_since_ms or 0))
        if broker and not broker.is_fenced and at_ms < until_ms:
            stale[broker_id] = at_ms
    leaders = history.state_at(max(window.end_ms, history.known_since_ms or 0)).leaders
    for directory in reading.tree.directories:
        own = (one.topic_partition for one in directory.partitions if one.kind is DirectoryKind.LIVE)
        ends_ms = reading.disk_ends_ms.get(-1 if directory.broker_id is None else directory.broker_id, {})
        at_ms = ends_ms.get(directory.path, LATEST_MS)
        is_old = at_ms < min(window.end_ms, max(ends_ms.values(), default=0)) - _COPIED_MS
        if directory.broker_id is not None and is_old and directory.broker_id in map(leaders.get, own):
            stale[directory.broker_id] = min(at_ms, stale.get(directory.broker_id, at_ms))
    written_ms = {broker_id: max(ends_ms.values()) for broker_id, ends_ms in reading.disk_ends_ms.items()}
    last_ms = max(written_ms.values(), default=LATEST_MS)
    if history.quiet_ms is None and (newest_batch_ms or 0) - _COPIED_MS <= last_ms < end_ms - _COPIED_MS:
        stale |= written_ms
    return stale


def weigh_disks(reading: ClusterReading, window: TimeWindow, arrived: Collection[int]) -> SourceAvailability:
    """What disks hold of a window, given the brokers whose were read: active brokers, registered log directories; missing by kind.

    Missing is a partition that one of those led at its begin or end, whose log is nowhere, while others of the topic are, or nobody
    leads it any more, as where its only disk failed; or one whose log has a gap.
    """
    history, found = reading.history, reading.directory_counts.keys()
    active = list_active(reading, window)
    topics, absent = {key.topic for key in reading.live_partitions}, []
    moments_ms = [max(at_ms, history.known_since_ms or 0) for at_ms in (window.start_ms, window.end_ms, LATEST_MS)]
    for key in sorted(history.partitions.keys() - reading.live_partitions):
        first, end, last = map(history.partitions[key].at, moments_ms)
        is_expected = key.topic in topics or (last and last.leader_id == NO_LEADER)  # copies may leave topics out
        if is_expected and end and last and last.topic_id == end.topic_id and fits_topics(key.topic, reading.topics):
            led_by = {(first or end).leader_id, end.leader_id} - {NO_LEADER}
            absent += [str(key)] if led_by - (active - found) else []
    short, torn, old = (
        [str(key) for key, gap in sorted(of.items()) if gap.start_ms < window.end_ms and window.start_ms < gap.end_ms]
        for of in (reading.gaps, reading.damaged, reading.old_copies)
    )
    old = [one for one in old if one not in torn]
    gone = "records were gone before they were read, by retention or a purge (`topics` leaves topics out): of"
    disks = name_some("no disk with directory.id", list_unmounted(reading, window))
    kinds = disks, name_some("no log in", reading.unfound), name_some("no log of", absent), name_some(gone, short)
    unread = name_some("files are damaged or cannot be read (`bronze.quarantine`): of", torn)
    ahead = name_some("copies end before what their disk's checkpoint or another replica has: of", old)
    missing = [one for one in (*kinds, unread, ahead) if one]
    away = [name_some("no disk of broker", [str(one) for one in sorted(active - found)])] if active - found else []
    return SourceAvailability(len(active | {*arrived}) + len(missing), len(arrived), "; ".join([*away, *missing]))
