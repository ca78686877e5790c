"""Log directories of brokers, read from their disks or from copies of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field

from pipeline.config.section import ConfigPath
from pipeline.model.window import TimeWindow, format_instant, spanning
from pipeline.sources.questions import ClusterQuestion, Finding, SourceAvailability, name_some
from pipeline.sources.source import ClusterReading, Described, Number, RecordSource, rated


class LogDirectories(RecordSource):
    """Brokers' log directories on a file system: each path is a log directory or a tree that holds several."""

    rank = 10
    column = "log_directories"
    provides = rated(
        "exact",
        *(Number.SHARES, Number.RECORD_COUNTS, Number.BATCH_COUNTS, Number.LEADER_COUNTS, Number.PARTITION_SIZES),
        *(Number.KEYS, Number.KEYED_REPLAY, Number.TOPIC_SIZES, Number.TOPIC_REPLICAS, Number.RULES),
        *(Number.FORECAST, Number.RECOMMENDATIONS, Number.BATCH_HEADERS, Number.REPLICAS, Number.REPLICA_SIZES),
        *(Number.REASSIGNMENTS, Number.AVAILABILITY),
    ) | rated("estimated", Number.SIMULATED_REPLAY)
    kind: Literal["log_directories"]
    paths: tuple[ConfigPath, ...] = Field(min_length=1)

    @classmethod
    def read_cluster(cls, sources: Sequence[Self], question: ClusterQuestion, described: Described) -> ClusterReading:
        from pipeline.sources.files import cluster_state, log_gaps
        from pipeline.sources.files.cluster_rows import count_directories
        from pipeline.sources.files.log_directories import discover_logs

        paths = [path for source in sources for path in source.paths]
        tree = discover_logs(paths)
        history, history_problems = cluster_state.read_cluster_history(tree, described.history)
        state = history.state_at(question.as_of_ms)
        tree, unnamed = cluster_state.with_ids_by_name(tree, state.partitions)
        live = log_gaps.list_live(tree)
        left_out = log_gaps.name_left_out(tree, live, state, question.topics)
        start_ms, as_of_ms = spanning(question.windows).start_ms, question.as_of_ms
        replicas, replica_problems = cluster_state.read_replica_states(tree)
        return ClusterReading(
            record_source=cls.column,
            tree=tree,
            history=history,
            replicas=(*replicas, *described.list_replicas(state.partitions, besides=replicas)),
            directory_counts=count_directories(tree, history.brokers),
            gaps=log_gaps.find_cut_logs(tree, history, question.topics, start_ms=start_ms, as_of_ms=as_of_ms),
            old_copies=log_gaps.find_old_copies(tree, replicas, state, question.topics, as_of_ms=as_of_ms),
            live_partitions=live,
            unfound=log_gaps.list_unfound(paths, tree),
            metadata_ends_ms=cluster_state.read_metadata_ends(tree),
            disk_ends_ms=cluster_state.read_disk_ends(tree),
            as_of_ms=as_of_ms,
            problems={cls.column: (*tree.problems, *history_problems, *unnamed, *replica_problems, *left_out)},
        )

    def probe(self) -> Iterator[Finding]:
        """Tries the paths, then reads the longest metadata log: what rests on it is worth as much as can be read of it."""
        from pipeline.sources.files.metadata_log import find_unread

        tried = [*super().probe()]
        yield from tried
        if unread := find_unread(path for path, finding in zip(self.paths, tried, strict=True) if finding.is_ok):
            found = unread[0] + (f"; {len(unread) - 1} more" if len(unread) > 1 else "")
            advice = "read it with a version of partition-health that knows it; until then plans move no replica"
            yield Finding(name="metadata log", is_ok=False, found=found, advice=advice)

    def availability(self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None) -> SourceAvailability:
        """What the disks hold of it, see `weigh_disks`; a cluster that nobody writes to may be idle."""
        from pipeline.sources.files.log_gaps import find_stale, weigh_disks

        stale = find_stale(reading, window, newest_ms)
        weighed = weigh_disks(reading, window, reading.directory_counts.keys() - stale.keys())
        if stale:
            told = [f"{one} (until {format_instant(at_ms)})" for one, at_ms in stale.items()]
            copied = name_some("copied before the window's end: the disks of broker", told)
            weighed = replace(weighed, missing="; ".join(filter(None, (weighed.missing, copied))))
        known = (at_ms for at_ms in (newest_ms, reading.history.newest_ms) if at_ms is not None)
        return replace(weighed, newest_ms=max(known, default=None))
