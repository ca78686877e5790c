"""Which host's rows count of each partition: the leader's, and of others what the leader's log did not have.

What decides is the metadata, not how far a host says it read. Of the hosts that hold a partition, that one comes first
whose broker leads it by the latest leader epoch and was collected since that began; then those that led before; then those
that never did. A host gives the windows whose offsets are all below what the hosts before it begin with: what a new leader's
log no longer had. Above that, a former leader has what the leader has too, or records that no replica took over before an
unclean election.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from pipeline.model.cluster import ClusterHistory
from pipeline.model.log import TopicPartition, fits_topics
from pipeline.model.log_tree import DirectoryKind, LogTree
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.collected.host import Host, PartitionId, iter_window_rows

_NO_LIMIT = 2**63 - 1
Windows = frozenset[int]
_Ranges = Mapping[PartitionId, Mapping[int, tuple[int, int]]]  # first and last offset by window's start


@dataclass(frozen=True, slots=True)
class Copies:
    """What is read of each host."""

    # by host, the partitions, and of each its windows; None for all
    of: tuple[Mapping[PartitionId, Windows | None], ...]
    lacks: tuple[tuple[PartitionId, str], ...]  # partition, and what of it is counted from nowhere


NO_COPIES = Copies((), ())


def choose_copies(
    hosts: Sequence[Host], history: ClusterHistory, span: TimeWindow, topics: Collection[str] = ()
) -> Copies:
    """Chooses by host the partitions to read, and their windows."""
    holders: dict[PartitionId, list[int]] = defaultdict(list)
    for index, host in enumerate(hosts):
        for progress in host.manifest.progress:
            if fits_topics(progress.topic, topics):
                holders[progress.key].append(index)
    shared: dict[int, list[PartitionId]] = defaultdict(list)
    for key, places in holders.items():
        for index in places if len(places) > 1 else ():
            shared[index].append(key)
    ranges = {index: _read_ranges(hosts[index], span, keys) for index, keys in shared.items()}
    disks = [_Disks.of(host) for host in hosts]
    chosen: list[dict[PartitionId, Windows | None]] = [{} for _ in hosts]
    lacks: list[tuple[PartitionId, str]] = []
    for key, places in holders.items():
        ordered = sorted(places, key=lambda index: _rank(hosts[index], disks[index], key, history, span), reverse=True)
        chosen[ordered[0]][key] = None
        limit = _NO_LIMIT
        for before, index in pairwise(ordered):
            # the first offset that a host has: in the rows, or in the log as it was when it was read last
            firsts = (first for first, _ in ranges[before].get(key, {}).values())
            limit = min([limit, disks[before].starts.get(key, _NO_LIMIT), *firsts])
            own = ranges[index].get(key, {})
            if windows := frozenset(start_ms for start_ms, (_, last) in own.items() if last < limit):
                chosen[index][key] = windows
            lacks += [
                (key, f"offsets {first} to {limit - 1} of {format_instant(start_ms)} are on {hosts[index].name} alone")
                for start_ms, (first, last) in sorted(own.items())
                if first < limit <= last
            ]
    return Copies(tuple(chosen), tuple(lacks))


@dataclass(frozen=True, slots=True)
class _Disks:
    """What a host's disks hold, by partition: looked up once for each log of the cluster."""

    broker_ids: frozenset[int | None]
    held: frozenset[PartitionId]
    starts: Mapping[PartitionId, int]  # first offsets

    @classmethod
    def of(cls, host: Host) -> Self:
        state = host.manifest.state
        starts: dict[PartitionId, int] = {}
        for one in state.replicas:
            if one.log_start_offset is not None and not one.is_future:
                key = one.topic, one.topic_id or "", one.partition
                starts[key] = min(starts.get(key, _NO_LIMIT), one.log_start_offset)
        live = [log for _, log in LogTree(directories=state.directories).iter_partitions(kind=DirectoryKind.LIVE)]
        held = frozenset((log.topic, log.topic_id or "", log.partition) for log in live)
        return cls(frozenset(found.broker_id for found in state.directories), held, starts)


def _rank(
    host: Host, disks: _Disks, key: PartitionId, history: ClusterHistory, span: TimeWindow
) -> tuple[bool, int, bool, int]:
    topic, topic_id, partition = key
    all_terms = [
        term
        for term in history.leader_terms(TopicPartition(topic, partition))
        if topic_id in {"", term.topic_id or topic_id}
    ]
    # the first leader is a better guess than none
    terms = [one for one in all_terms if one.since_ms is None or one.since_ms < span.end_ms] or all_terms[:1]
    led = max((index for index, term in enumerate(terms) if term.leader_id in disks.broker_ids), default=-1)
    has_been_read = led >= 0 and host.manifest.collected_at_ms >= min(terms[led].since_ms or 0, span.end_ms)
    return has_been_read, led, key in disks.held, host.manifest.collected_at_ms


def _read_ranges(host: Host, span: TimeWindow, partitions: Collection[PartitionId]) -> _Ranges:
    ranges: dict[PartitionId, dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in iter_window_rows(host, span, partitions):
        of_key = ranges[str(row["topic"]), str(row["topic_id"]), int(row["partition"])]
        start_ms, first, last = (int(row[name]) for name in ("window_start_ms", "first_offset", "last_offset"))
        known = of_key.get(start_ms, (first, last))
        of_key[start_ms] = min(known[0], first), max(known[1], last)
    return ranges
