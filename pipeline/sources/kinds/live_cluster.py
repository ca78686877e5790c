"""A running cluster, read through its brokers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal, Self

from pipeline.errors import ConfigError, SourceUnreachableError
from pipeline.model.window import TimeWindow
from pipeline.sources.live.settings import LiveSettings
from pipeline.sources.questions import ClusterQuestion, Finding, SourceAvailability
from pipeline.sources.source import ClusterReading, Described, How, Number, RecordSource, rated

_PROBE_TIMEOUT = timedelta(seconds=5)
_BY_OFFSETS = "live_cluster, read: offsets"
_AT_THE_RUN = rated(
    "at the run",
    *(Number.LEADER_COUNTS, Number.TOPIC_REPLICAS, Number.REPLICAS, Number.VOLUMES),
    *(Number.REASSIGNMENTS, Number.GROUPS),
)
_WITH_DISKS = "live_cluster, with log_directories"
_ADDED = rated("at the run", Number.REPLICA_SIZES, Number.VOLUMES, Number.GROUPS)


class LiveCluster(RecordSource, LiveSettings):
    """A running cluster, read through its brokers; with `log_directories` it provides state, and disks the records."""

    is_only_one = True
    completes = "log_directories"
    rank = 20
    column = "live_cluster"
    provides = (
        rated(
            "exact",
            *(Number.SHARES, Number.RECORD_COUNTS, Number.BATCH_COUNTS, Number.PARTITION_SIZES, Number.KEYS),
            *(Number.KEYED_REPLAY, Number.TOPIC_SIZES, Number.RULES, Number.FORECAST, Number.RECOMMENDATIONS),
            *(Number.BATCH_HEADERS, Number.REPLICA_SIZES, Number.AVAILABILITY),
        )
        | rated("estimated", Number.SIMULATED_REPLAY)
        | _AT_THE_RUN
    )
    kind: Literal["live_cluster"]

    @classmethod
    def columns(cls) -> dict[str, Mapping[Number, How]]:
        by_offsets = (
            rated("exact", Number.REPLICA_SIZES, Number.AVAILABILITY)
            | rated("estimated", Number.SHARES, Number.PARTITION_SIZES, Number.TOPIC_SIZES)
            | rated("estimated", Number.RULES, Number.FORECAST, Number.RECOMMENDATIONS)
            | rated("upper bound", Number.RECORD_COUNTS)
            | rated("assumed", Number.BATCH_COUNTS)
            | _AT_THE_RUN
        )
        return {cls.column: cls.provides, _BY_OFFSETS: by_offsets, _WITH_DISKS: _ADDED}

    def column_with(self, kinds: Collection[str]) -> str:
        if self.completes in kinds:
            return _WITH_DISKS
        return _BY_OFFSETS if self.read == "offsets" else self.column

    @classmethod
    def read_cluster(cls, sources: Sequence[Self], question: ClusterQuestion, described: Described) -> ClusterReading:
        from pipeline.sources.live.reading import read_live_cluster

        (source,) = sources
        live = read_live_cluster(source, question)
        names = ("replicas", "directory_counts", "spaces", "broker_configs") if live.state is not None else ()
        return ClusterReading(
            record_source=cls.column,
            history=live.history,
            problems={cls.column: live.problems},
            has_records=source.read == "record_batches",
            groups_now=live.groups,
            live=live,
            **{name: getattr(live.state, name) for name in names},
        )

    def complete(self, reading: ClusterReading, question: ClusterQuestion) -> ClusterReading:
        """Adds to disks what only brokers know; who cannot be reached is a problem, but takes nothing from what disks hold."""
        from pipeline.sources.live.reading import read_live_cluster

        live = read_live_cluster(self, question, with_records=False)
        combined = replace(reading, groups_now=live.groups, problems={**reading.problems, self.column: live.problems})
        if live.state is None:
            return combined
        known = {(replica.topic_partition, replica.broker_id, replica.is_future) for replica in reading.replicas}
        others = (r for r in live.state.replicas if (r.topic_partition, r.broker_id, r.is_future) not in known)
        replicas, configs = (*reading.replicas, *others), live.state.broker_configs
        return replace(combined, replicas=replicas, spaces=live.state.spaces, broker_configs=configs)

    def availability(
        self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None
    ) -> SourceAvailability | None:
        return None if reading.live is None else reading.live.availability(window)

    def probe(self) -> Iterator[Finding]:
        from pipeline.sources.live.checkup import examine_live_cluster  # the client takes 0.2 s

        quick = self.model_copy(update={"connect_timeout": _PROBE_TIMEOUT, "request_timeout": _PROBE_TIMEOUT})
        try:
            yield from examine_live_cluster(quick)
        except (ConfigError, SourceUnreachableError) as error:
            advice = "export the variable that holds the secret, or correct the client settings"
            if isinstance(error, SourceUnreachableError):
                advice = "correct the source's addresses or client settings, or find out why the brokers do not answer"
            yield Finding(name="", is_ok=False, found=str(error), advice=advice)
