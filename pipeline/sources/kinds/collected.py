"""Source of data that `partition-health collect` wrote on brokers' hosts."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pipeline.config.storage import Location, is_remote
from pipeline.model.cluster import NO_LEADER, ClusterHistory, PartitionState
from pipeline.model.log import LogName, Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import DirectoryKind, LogTree
from pipeline.model.window import LATEST_MS, TimeWindow, format_instant, spanning
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.questions import ClusterQuestion, Finding, SourceAvailability, name_some
from pipeline.sources.source import ClusterReading, Described, RecordSource
from pipeline.tables.bronze import NOT_AS_HOSTS_SAY

if TYPE_CHECKING:
    from pipeline.sources.collected.manifest import Manifest


class Collected(RecordSource):
    """A landing folder that collectors on the brokers' hosts write to; it provides what their disks would."""

    rank = 15
    column = "collected"
    provides = LogDirectories.provides
    kind: Literal["collected"]
    path: Location
    """The folder, or `s3a://bucket/path`."""

    @property
    def locations(self) -> tuple[Path, ...]:
        return () if is_remote(self.path) else (Path(self.path),)

    def probe(self) -> Iterator[Finding]:
        if is_remote(self.path):
            yield Finding(name="", is_ok=True, found=self.path)
        yield from super().probe()

    @classmethod
    def read_cluster(cls, sources: Sequence[Self], question: ClusterQuestion, described: Described) -> ClusterReading:
        from pipeline.sources.collected.agreement import agree_on_history
        from pipeline.sources.collected.host import read_hosts
        from pipeline.sources.collected.landing import list_faults, settle
        from pipeline.sources.collected.stored_folder import StoredFolder
        from pipeline.sources.files.cluster_rows import count_directories
        from pipeline.sources.files.cluster_state import infer_from_replicas
        from pipeline.sources.files.log_directories import refuse_doubles
        from pipeline.sources.files.log_gaps import list_live, name_left_out

        problems: list[Problem] = []
        span, folders = spanning(question.windows), [StoredFolder(one.path, question.storage) for one in sources]
        read = [host for folder in folders for host in read_hosts(folder, span, problems)]
        agreement = agree_on_history(read, span)
        found_directories, _ = refuse_doubles(found for host in read for found in host.manifest.state.log_directories)
        history = agreement.history or described.history or infer_from_replicas(LogTree(directories=found_directories))
        landing = settle(read, agreement, history, span=span, topics=question.topics, problems=problems)
        states = [host.manifest.state for host in landing.hosts]
        directories, doubles = refuse_doubles(found for state in states for found in state.log_directories)
        tree = LogTree(directories=directories)
        replicas = sorted((replica for state in states for replica in state.replicas), key=attrgetter("order"))
        state, live = history.state_at(question.as_of_ms), list_live(tree)
        partitions = state.partitions
        left_out = name_left_out(tree, live, state, question.topics)
        gaps = {
            key: gap
            for host in landing.hosts
            for key, topic_id, gap in host.list_gaps()
            if (led := partitions.get(key))
            and fits_topics(key.topic, question.topics)
            and (led.topic_id or "") == topic_id
            and _find_last_leader(history, key, led, question.as_of_ms) in host.broker_ids
        }
        found = (problem for host in landing.hosts for problem in list_faults(host))
        return ClusterReading(
            record_source=cls.column,
            tree=tree,
            history=history,
            replicas=(*replicas, *described.list_replicas(partitions, besides=replicas)),
            directory_counts=count_directories(tree, history.brokers),
            gaps=gaps,
            live_partitions=live,
            problems={cls.column: (*problems, *found, *doubles, *left_out)},
            collected=landing,
        )

    def availability(self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None) -> SourceAvailability:
        """What hosts' disks hold of the window, see `weigh_disks`; brokers read since its end have arrived."""
        from pipeline.sources.files.log_gaps import list_active, weigh_disks

        hosts, doubts = ((), ()) if reading.collected is None else (reading.collected.hosts, reading.collected.doubts)
        manifests = [host.manifest for host in hosts]
        active = list_active(reading, window)
        own = [host for host in hosts if host.broker_ids & active]
        gone = sorted(host.name for host in own if host.manifest.dropped_until_ms > window.start_ms)
        read = (one.manifest for one in hosts if one.manifest.collected_at_ms >= window.end_ms and one.name not in gone)
        arrived = {directory.broker_id for one in read for directory in one.state.directories}
        counted = [one for one in reading.directory_counts if one in arrived]
        weighed = weigh_disks(reading, window, counted)
        ends_ms = [(host.name, host.manifest.collected_at_ms) for host in own]
        late = [f"{name} (until {format_instant(max(0, at))})" for name, at in ends_ms if at < window.end_ms]
        named = name_some("not collected since the window's end:", late), name_some(NOT_AS_HOSTS_SAY, doubts)
        gone_parts = name_some("parts were deleted (`collect --keep`) by", gone)
        lost = name_some("logs that collectors could not read, or leave out (`topics`):", _list_unread(reading, window))
        missing = [weighed.missing, *named, gone_parts, lost]
        # what collectors read is as recent as they are: nobody may write to the cluster
        known = (at_ms for one in manifests for at_ms in (one.collected_at_ms, *(part.newest_ms for part in one.parts)))
        newest = max(known, default=-1)
        return SourceAvailability(
            (weighed.expected_count or 0) + len(doubts) + bool(lost),
            weighed.arrived_count,
            "; ".join(filter(None, missing)),
            newest_ms if newest < 0 else newest,
        )


def _find_last_leader(history: ClusterHistory, key: TopicPartition, now: PartitionState, at_ms: int) -> int:
    """The leader of a partition at a moment; where it has none, the last one that it had: nobody else has its records."""
    terms = (term for term in history.leader_terms(key) if term.topic_id == now.topic_id)
    leaders = [term.leader_id for term in terms if (term.since_ms or 0) <= at_ms and term.leader_id != NO_LEADER]
    return leaders[-1] if leaders and now.leader_id == NO_LEADER else now.leader_id


def _list_unread(reading: ClusterReading, window: TimeWindow) -> list[str]:
    """Partitions led at a window's begin or end by a broker whose host was read since, that no leader's host read until then."""
    history, since, unread = reading.history, set[int | None](), []
    read_by: dict[LogName, set[int | None]] = defaultdict(set)  # brokers whose hosts read a log until then
    held_by: dict[LogName, list[Manifest]] = defaultdict(list)  # of hosts on which it was since then
    moments_ms = [max(at_ms, history.known_since_ms or 0) for at_ms in (window.start_ms, window.end_ms, LATEST_MS)]
    for host in reading.collected.hosts if reading.collected else ():
        for progress in host.manifest.progress:
            if progress.read_until_ms >= window.end_ms:
                read_by[progress.key] |= host.broker_ids
        if host.manifest.collected_at_ms >= window.end_ms:
            since |= host.broker_ids
            logs = (one for directory in host.manifest.state.directories for one in directory.partitions)
            for name in {one.log_name for one in logs if one.kind is DirectoryKind.LIVE} - {*host.manifest.unread}:
                held_by[name].append(host.manifest)
    topics = {key.topic for key in reading.live_partitions}  # others are on no disk: copies may leave them out
    for key in (one for one in history.partitions if one.topic in topics):
        first, end, last = map(history.partitions[key].at, moments_ms)
        if not (end and last and last.topic_id == end.topic_id and fits_topics(key.topic, reading.topics)):
            continue
        led_by, names = {(first or end).leader_id, end.leader_id}, (end.log_name, end.log_name._replace(topic_id=""))
        by = set[int | None]().union(*(read_by[name] for name in names))
        for manifest in (one for name in names for one in held_by[name]):
            # of a follower's log collectors read nothing
            states = history.partitions[key].list_values(window.end_ms, manifest.collected_at_ms)
            led = {state.leader_id for state in states if state} - {NO_LEADER}
            brokers = {directory.broker_id for directory in manifest.state.directories}
            by |= brokers if not led or led & brokers else set()
        unread += [str(key)] if led_by & since and by.isdisjoint({*led_by, last.leader_id}) else []
    return sorted(unread)
