"""What disks lack of a window: brokers and partitions that were not found, and records that retention took unread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.codec.log.segment import scan_headers
from pipeline.model.cluster import NO_LEADER, ClusterState
from pipeline.model.log import Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import LogTree
from pipeline.model.window import LATEST_MS, TimeWindow
from pipeline.sources.files.segment_plan import choose_replicas
from pipeline.sources.questions import SourceAvailability, name_some

if TYPE_CHECKING:
    from pipeline.sources.source import ClusterReading

_FIRST_BYTES = 1 << 16  # of a log, whose batches say when what is left of it begins


def find_cut_logs(
    tree: LogTree, leaders: Mapping[TopicPartition, int], topics: Collection[str]
) -> dict[TopicPartition, TimeWindow]:
    """Of logs whose first segments are gone, all the time before the first batches that are left."""
    gaps = {}
    for _, partition in choose_replicas(tree, leaders, topics):
        segment = next((one for one in partition.segments if one.size_bytes), None)
        if segment is None or segment.dumped_in is not None or not partition.segments[0].base_offset:
            continue
        try:
            first = scan_headers(
                segment.path, end=min(_FIRST_BYTES, Path(segment.path).stat().st_size), check_crc=False
            )
        except OSError:  # it is read once more, and told then
            continue
        begins_ms = int(first.max_timestamp_ms[first.usable].min(initial=LATEST_MS))
        if 0 < begins_ms < LATEST_MS:
            gaps[partition.topic_partition] = TimeWindow(0, begins_ms)
    return gaps


def name_left_out(tree: LogTree, state: ClusterState, topics: Collection[str]) -> Iterator[Problem]:
    """Says which topics have no log at all: copies of disks may leave them out, or a disk is missing."""
    found = {partition.topic for _, partition in tree.iter_partitions()}
    led = {key.topic for key, one in state.partitions.items() if one.leader_id != NO_LEADER}
    if missing := sorted(topic for topic in led - found if fits_topics(topic, topics)):
        reason = f"{name_some('no disk holds a partition of', missing)}: taken to be left out, as `topics` may say"
        yield Problem(path=tree.directories[0].path if tree.directories else "", reason=reason, severity="suspect")


def weigh_disks(reading: ClusterReading, window: TimeWindow) -> SourceAvailability:
    """What disks hold of a window.

    A broker is expected that is registered at the window's end and not fenced then or at its begin. A partition is missing
    that one of those found led at one of both, that was not deleted since, and has a log nowhere while others of its topic
    have one, or one with a gap.
    """
    history, brokers = reading.history, reading.directory_counts.keys()
    partitions = {partition.topic_partition for _, partition in reading.tree.iter_partitions()}
    least_ms = window.start_ms if history.known_since_ms is None else history.known_since_ms
    moments_ms = [max(at_ms, least_ms) for at_ms in (window.start_ms, window.end_ms, LATEST_MS)]
    active = set()
    for broker_id, timeline in history.brokers.items():
        at_begin, at_end = (timeline.at(at_ms) for at_ms in moments_ms[:2])
        if at_end and not (at_end.is_fenced and (at_begin is None or at_begin.is_fenced)):
            active.add(broker_id)
    silent, absent, topics = active - {*brokers}, [], {key.topic for key in partitions}
    for key in sorted(one for one in history.partitions.keys() - partitions if one.topic in topics):
        first, end, last = (history.partitions[key].at(at_ms) for at_ms in moments_ms)
        if end and last and last.topic_id == end.topic_id and fits_topics(key.topic, reading.topics):
            led_by = {(first or end).leader_id, end.leader_id} - {NO_LEADER}
            absent += [str(key)] if led_by - silent else []
    short = [
        str(key)
        for key, gap in sorted(reading.gaps.items())
        if gap.start_ms < window.end_ms and window.start_ms < gap.end_ms
    ]
    named = (
        name_some("no log in", reading.unfound),
        name_some("no disk of broker", [str(one) for one in sorted(silent)]),
        name_some("no log of", absent),
        name_some("retention took records before they were read, of", short),
    )
    expected = len({*active, *brokers}) + len(absent) + len(short) + len(reading.unfound)
    return SourceAvailability(expected, len(brokers), "; ".join(filter(None, named)))
