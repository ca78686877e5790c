"""Which hosts' rows count: of each partition the leader's, by the metadata, and of others what its log did not have.

First the host whose broker leads by the latest epoch and was collected since it began, then those that led before, then others.
A host gives windows whose offsets are all below what those before it begin with: above that it has the same, or records that no
replica took over before an unclean election.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, pairwise
from typing import Any, Self

from pipeline.model.cluster import CLUSTER_METADATA, NO_LEADER, ONLY_REPLICA, ClusterHistory, LeaderTerm
from pipeline.model.log import LogName, Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import CLUSTER_METADATA_TOPIC, DirectoryKind, LogDirectory, LogTree, PartitionDirectory
from pipeline.model.number_text import format_name
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.collected.agreement import Agreement
from pipeline.sources.collected.host import MOST_PROBLEMS, MOST_TEXT, Host, read_offset_ranges
from pipeline.sources.questions import name_some

_NO_LIMIT = 2**63 - 1
WindowStarts = frozenset[int]


@dataclass(frozen=True, slots=True)
class Copies:
    # by host, the partitions, and of each its windows; None for all
    of: tuple[Mapping[LogName, WindowStarts | None], ...]
    lacks: tuple[tuple[LogName, str], ...]  # partition, and what of it is counted from nowhere


NO_COPIES = Copies((), ())


def choose_copies(hosts: Sequence[Host], history: ClusterHistory, span: TimeWindow, topics: Collection[str]) -> Copies:
    holders: dict[LogName, list[int]] = defaultdict(list)
    for index, host in enumerate(hosts):
        for progress in host.manifest.progress:
            if fits_topics(progress.topic, topics):
                holders[progress.key].append(index)
    shared: dict[int, list[LogName]] = defaultdict(list)
    for key, places in holders.items():
        for index in places if len(places) > 1 else ():
            shared[index].append(key)
    ranges = {index: read_offset_ranges(hosts[index], span, keys) for index, keys in shared.items()}
    disks = [_Disks.of(host) for host in hosts]
    chosen: list[dict[LogName, WindowStarts | None]] = [{} for _ in hosts]
    lacks: list[tuple[LogName, str]] = []
    for key, places in holders.items():
        terms = _list_terms(key, history, span, [disks[index] for index in places])
        ordered = sorted(places, key=lambda index: _rank(hosts[index], disks[index], key, terms), reverse=True)
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
    broker_ids: frozenset[int | None]
    held: frozenset[LogName]
    starts: Mapping[LogName, int]  # first offsets

    @classmethod
    def of(cls, host: Host) -> Self:
        state = host.manifest.state
        starts: dict[LogName, int] = {}
        for one in state.replicas:
            if one.log_start_offset is not None and not one.is_future:
                key = LogName(one.topic, one.topic_id or "", one.partition)
                starts[key] = min(starts.get(key, _NO_LIMIT), one.log_start_offset)
        live = LogTree(directories=state.directories).iter_partitions(kind=DirectoryKind.LIVE)
        brokers = frozenset(found.broker_id for found in state.directories)
        return cls(brokers, frozenset(log.log_name for _, log in live), starts)


def _list_terms(
    key: LogName, history: ClusterHistory, span: TimeWindow, holders: Collection[_Disks]
) -> Sequence[LeaderTerm]:
    """Terms by which copies are ranked: those begun in the span; all where the last one's leader has the log no more."""
    terms_of_name = history.leader_terms(TopicPartition(key.topic, key.partition))
    all_terms = [term for term in terms_of_name if key.topic_id in {"", term.topic_id or key.topic_id}]
    # the first leader is a better guess than none
    terms = [one for one in all_terms if one.since_ms is None or one.since_ms < span.end_ms] or all_terms[:1]
    last = next((one.leader_id for one in reversed(terms) if one.leader_id != NO_LEADER), None)
    return terms if any(key in one.held and last in one.broker_ids for one in holders) else all_terms


def _rank(host: Host, disks: _Disks, key: LogName, terms: Sequence[LeaderTerm]) -> tuple[bool, int, bool, int]:
    led = max((index for index, term in enumerate(terms) if term.leader_id in disks.broker_ids), default=-1)
    # who led first may have led before that was known
    has_been_read = led == 0 or (led > 0 and host.manifest.collected_at_ms >= (terms[led].since_ms or 0))
    return has_been_read, led, key in disks.held, host.manifest.collected_at_ms


_OTHERS_DIRECTORIES = "left out, log directories that are not this broker's by the metadata:"
_CONTRADICTING = "left out, parts that contradict each other:"
_OTHERS_PARTITIONS = "left out, partitions that the metadata does not place on this host:"


class _Placement:
    def __init__(self, history: ClusterHistory, since_ms: int, cluster_id: str | None) -> None:
        self._is_whole = history.known_since_ms is not None and history.known_since_ms <= since_ms
        self._cluster_id = cluster_id
        self._registered = {
            broker_id: {one for broker in timeline.values if broker for one in broker.directory_ids}
            for broker_id, timeline in history.brokers.items()
        }
        self._brokers = {None, *history.brokers} if history.state_source == CLUSTER_METADATA else None
        # brokers that ever were replicas, by partition and topic id: None where that is not known, "" for all together
        self._replicas: dict[TopicPartition, dict[str | None, set[int]]] = {}
        for key, timeline in history.partitions.items():
            by_id = self._replicas[key] = defaultdict(set)
            for state in filter(None, timeline.values):
                for topic_id in (state.topic_id or None, ""):
                    by_id[topic_id].update(state.replicas, state.adding_replicas)

    def is_of_broker(self, directory: LogDirectory) -> bool:
        """False where cluster or broker is another than the metadata's, or registered log directories and this is none."""
        if self._cluster_id is not None and directory.cluster_id not in {None, self._cluster_id}:
            return False
        if self._brokers is not None and directory.broker_id not in self._brokers:
            # a controller's own holds the metadata log, and nothing else
            return bool(directory.partitions) and all(one.is_cluster_metadata for one in directory.partitions)
        registered = self._registered.get(-1 if directory.broker_id is None else directory.broker_id)
        return not registered or directory.directory_id in registered

    def allows(self, key: TopicPartition, topic_id: str | None, brokers: Collection[int | None]) -> bool:
        if key.topic == CLUSTER_METADATA_TOPIC:
            return key.partition == 0
        if key not in self._replicas:
            return not self._is_whole
        known = self._replicas[key]
        return any(not known.get(one, set()).isdisjoint(brokers) for one in ((topic_id, None) if topic_id else ("",)))


def _keep(host: Host, placement: _Placement, problems: list[Problem]) -> Host:
    """A host without what the metadata never placed on its brokers; `problems` takes it, unless it may have been deleted before."""
    state, manifest = host.manifest.state, host.manifest
    is_own = [placement.is_of_broker(log) for log in state.directories]
    own = list(compress(state.directories, is_own))
    brokers = {directory.broker_id for directory in own}
    foreign: set[TopicPartition] = set()

    def is_placed(key: TopicPartition, topic_id: str | None, on: Collection[int | None]) -> bool:
        if placement.allows(key, topic_id, on):
            return True
        foreign.add(key)
        return False

    def keep(directory: LogDirectory) -> tuple[PartitionDirectory, ...]:
        on = {directory.broker_id}
        return tuple(one for one in directory.partitions if is_placed(one.topic_partition, one.topic_id, on))

    directories = tuple(replace(log, partitions=keep(log)) for log in own)
    held = (one for one in state.replicas if one.broker_id in brokers)
    replicas = tuple(one for one in held if is_placed(one.topic_partition, one.topic_id, {one.broker_id}))
    progress = tuple(
        one for one in manifest.progress if is_placed(TopicPartition(one.topic, one.partition), one.topic_id, brokers)
    )
    others = [log.path for log, is_his in zip(state.directories, is_own, strict=True) if not is_his]
    for what, names in ((_OTHERS_DIRECTORIES, others), (_OTHERS_PARTITIONS, [str(key) for key in sorted(foreign)])):
        if names:
            problems.append(Problem(path=host.folder.location, reason=name_some(what, names)))
    state = state.model_copy(update={"directories": directories, "replicas": replicas})
    return replace(host, manifest=manifest.model_copy(update={"state": state, "progress": progress}))


def list_faults(host: Host) -> Iterator[Problem]:
    problems = host.manifest.state.problems
    for one in problems[:MOST_PROBLEMS]:
        yield replace(one, path=one.path[:MOST_TEXT], reason=one.reason[:MOST_TEXT])
    if (more := len(problems) - MOST_PROBLEMS) > 0:
        yield Problem(path=host.folder.location, reason=f"{more:,} problems of this host are left out")


def list_disputes(hosts: Sequence[Host]) -> list[str]:
    claims: dict[int, set[str]] = defaultdict(set)
    for host in hosts:
        for directory in host.manifest.state.directories:
            if directory.broker_id is not None:
                claims[directory.broker_id].add(host.name)
    return [
        f"{', '.join(sorted(names))} say they are broker {broker}: delete the folder that no collector writes"
        for broker, names in sorted(claims.items())
        if len(names) > 1
    ]


def _name_clusters(hosts: Sequence[Host]) -> list[str]:
    """Hosts by their cluster, where there are several: most hosts may be another one's."""
    held = {(one.cluster_id, host.name) for host in hosts for one in host.manifest.state.directories if one.cluster_id}
    if len({cluster_id for cluster_id, _ in held}) < 2:
        return []
    named = [f"{name} (cluster.id {format_name(cluster_id, 40)})" for cluster_id, name in sorted(held)]
    return [name_some("hosts of several Kafka clusters, of which each needs a landing folder of its own:", named)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    hosts: tuple[Host, ...] = ()  # those that count, without what the metadata does not place on them
    copies: Copies = NO_COPIES  # what is read of each
    doubts: tuple[str, ...] = ()  # what the windows lack, or may lack
    choose: Callable[[Sequence[Host]], Copies] = lambda _: NO_COPIES  # chooses the copies among some of the hosts

    def without(self, hosts: Collection[Host]) -> Landing:
        kept = tuple(host for host in self.hosts if host not in hosts)
        return replace(self, hosts=kept, copies=self.choose(kept))

    def doubting(self, lost: Iterable[str], disputed: Iterable[Mapping[str, Any]]) -> Landing:
        """The same, with why tasks could not read parts, and parts with other batches than counted."""
        told = sorted(map(_describe_dispute, disputed))
        return replace(self, doubts=(*self.doubts, *dict.fromkeys(lost), *told))

    def name_disputing(self, disputed: Set[tuple[str, str, int]]) -> Iterator[Problem]:
        """Says which hosts' parts contradict themselves: of such partitions nothing counts."""
        for host, copies in zip(self.hosts, self.copies.of, strict=True):
            if names := sorted(f"{topic}-{partition}" for topic, _, partition in disputed & copies.keys()):
                yield Problem(path=host.folder.location, reason=name_some(_CONTRADICTING, names))


def _describe_dispute(row: Mapping[str, Any]) -> str:
    name = "{topic}-{partition}".format(**row)
    if row["window_start_ms"] is None:
        return f"{name}: two of its batches in the parts share an offset"
    said = "{window_count} batches up to offset {window_last} were collected, its parts hold {held_count} up to {held_last}"
    unlike = "{window_records} records were collected, and its parts hold batches, keys or arrivals of more or fewer"
    is_other = (row["window_count"], row["window_last"]) != (row["held_count"], row["held_last"])
    return f"{name}: {(said if is_other else unlike).format(**row)}"


def settle(
    hosts: Sequence[Host],
    agreement: Agreement,
    history: ClusterHistory,
    *,
    span: TimeWindow,
    topics: Collection[str],
    problems: list[Problem],
) -> Landing:
    """Leaves out what hosts may not speak for, and chooses the copies; `problems` takes what is left out."""
    for place, reason in agreement.refused.items():
        problems.append(Problem(path=hosts[place].folder.location, reason=reason))
    kept = [host for place, host in enumerate(hosts) if place not in agreement.refused]
    if history.state_source != ONLY_REPLICA:
        # the cluster that most hosts' log directories are of; None where as many say another
        ids = [{found.cluster_id for found in host.manifest.state.directories} - {None} for host in kept]
        (first, count), *others = (*Counter(one for said in ids for one in said).most_common(2), (None, 0))
        placement = _Placement(history, span.start_ms, None if others and others[0][1] == count else first)
        kept = [_keep(host, placement, problems) for host in kept]
    choose = partial(choose_copies, history=history, span=span, topics=topics)
    copies = choose(kept)
    lacks = [f"{topic}-{partition}: {reason}" for (topic, _, partition), reason in copies.lacks]
    doubts = (*agreement.doubts, *_name_clusters(hosts), *list_disputes(kept), *_list_overstated(kept, copies), *lacks)
    return Landing(hosts=tuple(kept), copies=copies, doubts=doubts, choose=choose)


def _list_overstated(hosts: Sequence[Host], copies: Copies) -> list[str]:
    """Partitions of which a host says that it read further than it did; the cleaner may have taken a complete segment's end."""
    overstated = []
    for host, of_host in zip(hosts, copies.of, strict=True):
        # first offsets of the segments that are on the host's disks, by partition
        logs = LogTree(directories=host.manifest.state.directories).iter_partitions()
        begins = {log.log_name: {segment.base_offset or 0 for segment in log.segments} for _, log in logs}
        for progress in host.manifest.progress:
            last = progress.totals.row.get("last_offset")
            ends = {progress.base_offset, *([last + 1] if isinstance(last, int) else []), *begins.get(progress.key, ())}
            is_settled = progress.collected_at_ms <= host.manifest.collected_at_ms
            if progress.key in of_host and progress.key in begins and is_settled and progress.next_offset not in ends:
                read = f"{progress.topic}-{progress.partition} up to offset {progress.next_offset}"
                overstated.append(f"{host.name} says it read {read}, and its batches end at {last}")
    return overstated
