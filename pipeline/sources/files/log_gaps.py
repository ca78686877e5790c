"""What disks lack of a window: brokers and partitions that were not found, and records that retention took unread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.segment import scan_headers
from pipeline.model.cluster import NO_LEADER, ClusterState, Timeline
from pipeline.model.log import Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import KAFKA_TOPICS, DirectoryKind, LogTree
from pipeline.model.window import LATEST_MS, NS_PER_MS, TimeWindow
from pipeline.sources.files.log_directories import COPY
from pipeline.sources.files.segment_plan import choose_replicas
from pipeline.sources.questions import SourceAvailability, name_some
from pipeline.sources.records.event_time import NEIGHBOURS

if TYPE_CHECKING:
    from pipeline.sources.source import ClusterReading

_FIRST_BYTES = 1 << 16  # of a log, whose batches say when what is left of it begins
_COPIED_MS = 60_000  # by which metadata logs of brokers that are copied one after another may differ


def find_cut_logs(
    tree: LogTree, leaders: Mapping[TopicPartition, int], topics: Collection[str], *, start_ms: int, as_of_ms: int
) -> dict[TopicPartition, TimeWindow]:
    """Of logs whose first segments are gone, the time that their records may be of: all until the first batch that is left.

    What was deleted was written before the first segment that is left was begun. Gaps that end before `start_ms` are not
    looked for; of the batches that say when a log begins none is later than `as_of_ms`.
    """
    gaps = {}
    for _, partition in choose_replicas(tree, leaders, topics):
        segment = next((one for one in partition.segments if one.size_bytes), None)
        if segment is None or segment.dumped_in is not None or not partition.segments[0].base_offset:
            continue
        begun_ms = find_begin_ms(partition.segments[0].path, as_of_ms)
        if begun_ms <= start_ms:
            continue
        try:
            end = min(_FIRST_BYTES, Path(segment.path).stat().st_size)
            first = scan_headers(segment.path, end=end, check_crc=False, chunk_bytes=_FIRST_BYTES)
        except (OSError, ValueError):  # it is read once more, and told then
            continue
        until_ms = find_sent_ms(first.max_timestamp_ms[first.usable], as_of_ms)
        gaps[partition.topic_partition] = TimeWindow(0, min(begun_ms, until_ms))
    return gaps


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

    def is_held(path: Path) -> bool:
        return any(one.is_relative_to(path) or path.is_relative_to(one) for one in held)

    return tuple(str(path) for path in paths if not is_held(path.resolve()))


def list_live(tree: LogTree) -> frozenset[TopicPartition]:
    """Partitions that have a log on some disk, and are not about to be deleted or moved there."""
    return frozenset(partition.topic_partition for _, partition in tree.iter_partitions(kind=DirectoryKind.LIVE))


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
    """Brokers that are registered at a window's end, and not fenced then or at its begin; those found where none is known."""
    history = reading.history
    if not history.brokers:
        return {*reading.directory_counts}
    at_ms = [max(one, history.known_since_ms or 0) for one in (window.start_ms, window.end_ms)]
    active = set()
    for broker_id, timeline in history.brokers.items():
        at_begin, at_end = map(timeline.at, at_ms)
        if at_end and not (at_end.is_fenced and (at_begin is None or at_begin.is_fenced)):
            active.add(broker_id)
    return active


def list_unmounted(reading: ClusterReading, window: TimeWindow) -> list[str]:
    """Log directories that brokers had registered at a window's end, and still have, but no disk is (Kafka 3.7 and later).

    Brokers none of whose disks was found are left out, and those with a directory whose id is not known.
    """
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


def find_stale(reading: ClusterReading, window: TimeWindow) -> dict[int, int]:
    """Brokers in the cluster at a window's end whose disks were copied before it, and until when they reach.

    Each broker keeps the metadata log, which grows all the time: one that ends well before the window's end while
    another broker's goes on is of an older copy. So are all where controllers write without a pause of that length.
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
    return stale


def weigh_disks(reading: ClusterReading, window: TimeWindow, arrived: Collection[int]) -> SourceAvailability:
    """What disks hold of a window, given the brokers whose disks were read; counted are brokers, and what is missing by kind.

    Expected are the active brokers, and the log directories that those found have registered. A partition is missing that
    one of those found led at the window's begin or end, that was not deleted since, and has a log nowhere while others of
    its topic have one, or one with a gap.
    """
    history, found = reading.history, reading.directory_counts.keys()
    active = list_active(reading, window)
    topics, absent = {key.topic for key in reading.live_partitions}, []
    moments_ms = [max(at_ms, history.known_since_ms or 0) for at_ms in (window.start_ms, window.end_ms, LATEST_MS)]
    for key in sorted(one for one in history.partitions.keys() - reading.live_partitions if one.topic in topics):
        first, end, last = map(history.partitions[key].at, moments_ms)
        if end and last and last.topic_id == end.topic_id and fits_topics(key.topic, reading.topics):
            led_by = {(first or end).leader_id, end.leader_id} - {NO_LEADER}
            absent += [str(key)] if led_by - (active - found) else []
    short, torn = (
        [str(key) for key, gap in sorted(of.items()) if gap.start_ms < window.end_ms and window.start_ms < gap.end_ms]
        for of in (reading.gaps, reading.damaged)
    )
    gone = "records were gone before they were read, by retention or a purge (`topics` leaves topics out): of"
    disks = name_some("no disk with directory.id", list_unmounted(reading, window))
    kinds = disks, name_some("no log in", reading.unfound), name_some("no log of", absent), name_some(gone, short)
    unread = name_some("files are damaged or cannot be read (`bronze.quarantine`): of", torn)
    missing = [one for one in (*kinds, unread) if one]
    away = [name_some("no disk of broker", [str(one) for one in sorted(active - found)])] if active - found else []
    return SourceAvailability(len(active | {*arrived}) + len(missing), len(arrived), "; ".join([*away, *missing]))
