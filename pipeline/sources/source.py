"""Protocol of a source, and the numbers that sources may give: the rows of `partition-health tables --sources`.

A new one is a class in `pipeline/sources/kinds/`, in a file of its own or with its like, and its test:

1. A class with the keys it has in the configuration: first ``kind: Literal["…"]``, then others; paths are `ConfigPath`.
2. Its role is its base class: a `RecordSource` gives records and the cluster's state (`read_cluster`), a `TextSource` adds
   what Kafka's tools print (`describe`), a `MetricSource` gives samples of metrics (`read_samples`).
3. `availability`: what is expected of it in a window and what arrived, where the base class does not know.
4. `probe`: how `doctor` tries it, where more is to be tried than whether its paths can be read.
5. `column` and `provides`: which numbers it gives, and how well.
6. `rank`: its place among the kinds.

Nothing else names it: the configuration, `doctor`, `tables --sources` and the ingest find it in that folder. What only its
methods need is imported in them: commands that read no source stay quick.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar

from pipeline.config.section import SourceSettings
from pipeline.errors import InputError
from pipeline.files import MOST_TEXT_BYTES, read_small
from pipeline.model.cluster import ClusterHistory, ConsumerGroupMember, DirectorySpace, PartitionState, ReplicaState
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import LogTree
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import LATEST_MS, TimeWindow
from pipeline.sources.questions import ClusterQuestion, Finding, SourceAvailability

if TYPE_CHECKING:
    from pipeline.codec.tools.tool_text import DescribedReplica
    from pipeline.config.pipeline_config import Cluster
    from pipeline.sources.collected.landing import Landing
    from pipeline.sources.files.cluster_rows import Moving
    from pipeline.sources.live.reading import LiveReading


How = Literal["exact", "estimated", "upper bound", "assumed", "at the run", "-"]


class Number(Enum):
    """A number, or several that have the same source: columns in words, and behind a bar what to know about them."""

    columns: str
    note: str

    def __new__(cls, text: str) -> Self:
        number = object.__new__(cls)
        number.columns, _, number.note = text.partition(" | ")
        number._value_ = number.columns
        return number

    SHARES = "gold.broker_share: size_bytes, share, share_ratio, the three causes, gold.zone_traffic | by offsets: mean bytes per offset; sampled: divided by the rate"
    RECORD_COUNTS = "gold.broker_share: record_count | markers take offsets"
    BATCH_COUNTS = "gold.broker_share: batch_count, chance_ratio, effective_unit_count | by offsets: batches are taken as full, the fewest there can be"
    LEADER_COUNTS = "gold.broker_share: leader_count"
    PARTITION_SIZES = "gold.partition_health: size_bytes, topic shares"
    KEYS = "heavy_keys, hash_luck and remainder of shares, gold.hash_verdicts, gold.hot_keys, silver.key_traffic | need every record: not with sampling"
    KEYED_REPLAY = "gold.replay_results, gold.replay_brokers, gold.scenario_comparison: records with keys | need every record: not with sampling"
    SIMULATED_REPLAY = "gold.back_tests, and of the replay: records without keys, batches, latency | simulated: ranges over seeds; metrics make the brokers' delays known"
    LATENCY = "gold.latency | as the clients measured it; brokers do not know"
    TOPIC_SIZES = "gold.topic_health: sizes, peaks, what chance gives"
    TOPIC_REPLICAS = "gold.topic_health: replicas that lag, move or lack a leader"
    RULES = "gold.rule_measures, gold.verdicts, gold.incidents, gold.alert_outbox | each rule where the numbers it is about are known, and as they are"
    FORECAST = "gold.forecast | as the shares, topic sizes and volumes it is made from"
    RECOMMENDATIONS = "gold.recommendations: moves and their effects, gold.promises: what became of them | of changes of clients: by the replay"
    BATCH_HEADERS = (
        "silver.record_batches: producer ids, codecs, checksums | consumers throw them away; these sources keep them"
    )
    REPLICAS = "bronze.cluster_state: leader, replicas, in-sync replicas | log_directories: from the metadata log, as of each window's end"
    REPLICA_SIZES = "bronze.cluster_state: size_bytes, lag_count | when read; lag from `log_dirs_describe` with `get_offsets` beside it"
    VOLUMES = "bronze.brokers: log_dir_total_bytes, log_dir_usable_bytes, and hours to full disks by them | brokers from 3.3 on; without them `disk_bytes` in the configuration says what disks hold"
    REASSIGNMENTS = "bronze.cluster_state: reassignment | reassign_verify: that one runs"
    GROUPS = "bronze.consumer_groups: offsets, lag, members, gold.group_balance: what assignors give"
    AVAILABILITY = "gold.verdicts: source_arrival | what did not arrive"


def rated(how: How, *numbers: Number) -> dict[Number, How]:
    return dict.fromkeys(numbers, how)


_T = TypeVar("_T")
_Role = TypeVar("_Role", bound="Source")


class Source(SourceSettings):
    # its place among the kinds; of two sources of metrics about the same client the first in rank counts
    rank: ClassVar[int]
    column: ClassVar[str] = ""  # its heading in the table of what sources give; empty for one that only adds to others
    provides: ClassVar[Mapping[Number, How]] = {}  # the numbers it gives; others it does not

    @classmethod
    def columns(cls) -> dict[str, Mapping[Number, How]]:
        """Columns it fills, by heading; several headings where a key of the configuration makes the difference."""
        return {cls.column: cls.provides} if cls.column else {}

    def column_with(self, kinds: Collection[str]) -> str:
        """Heading of its columns as configured, in a cluster with sources of these kinds."""
        return self.column

    @property
    def locations(self) -> tuple[Path, ...]:
        return getattr(self, "paths", None) or tuple(filter(None, [getattr(self, "path", None)]))

    def probe(self) -> Iterator[Finding]:
        """Tries the source within seconds; the finding about it as a whole has no name."""
        return map(_probe_path, self.locations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    record_source: str  # kind of source that the records come from
    history: ClusterHistory
    tree: LogTree = field(default_factory=LogTree)  # log directories, or what texts show of them
    replicas: tuple[ReplicaState, ...] = ()
    directory_counts: Mapping[int, int] = field(default_factory=dict)
    # of logs that lost records before they were read, when these were sent
    gaps: Mapping[TopicPartition, TimeWindow] = field(default_factory=dict)
    # of logs with files that cannot be read whole, when the records were sent that these do not give
    damaged: Mapping[TopicPartition, TimeWindow] = field(default_factory=dict)
    deleted: Set[str] = frozenset()  # topics that were deleted while their logs were read
    # of logs that end before what is known of them elsewhere, when the records were sent that they lack
    old_copies: Mapping[TopicPartition, TimeWindow] = field(default_factory=dict)
    live_partitions: Set[TopicPartition] = frozenset()  # that have a log on some disk
    metadata_ends_ms: Mapping[int, int] = field(default_factory=dict)  # newest time in each broker's metadata log
    disk_ends_ms: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # when brokers' disks were written last
    unfound: tuple[str, ...] = ()  # log directories of the configuration that hold no log, or cannot be read
    # volumes of log directories by broker and path, where the brokers report them
    spaces: Mapping[int, Mapping[str, DirectorySpace]] = field(default_factory=dict)
    # configs that matter by broker, likewise
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    # instant, and what a consumer group consumes of a partition; from sources of kind `group_source`
    groups: tuple[tuple[int, ConsumerGroupMember], ...] = ()
    group_source: str = "consumer_groups"
    # the same as the brokers answer now, which is in no window: they belong to the newest one
    groups_now: tuple[tuple[int, ConsumerGroupMember], ...] = ()
    # partitions that a text says are being moved; with a broker, between its disks
    moving: frozenset[Moving] = frozenset()
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    roots: tuple[Path, ...] = ()  # source roots, for shortening paths
    topics: tuple[str, ...] = ()
    has_records: bool = True  # records can be read, not only batches or offsets
    as_of_ms: int = LATEST_MS  # the run's now, or the end of a recording
    live: LiveReading | None = None
    collected: Landing | None = None  # what collectors on the brokers' hosts read
    # the window whose state is what was observed; None where all of the run's are of before
    newest: TimeWindow | None = None

    def relative(self, path: str) -> str:
        """A path as tables show it: under its source root, with the root's own name; hidden characters as escapes."""
        for root in self.roots:
            if Path(path).is_relative_to(root):
                return escape_hidden(str(Path(root.name, Path(path).relative_to(root))))
        return escape_hidden(path)


class StateSource(Source):
    def availability(
        self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None
    ) -> SourceAvailability | None:
        """Availability of sources of the kind; None where nothing asks. `newest_ms`: newest event time of any batch."""
        return None


class RecordSource(StateSource):
    """Source of records and of leaders; a cluster has sources of one such kind."""

    bears_records = True

    @classmethod
    @abstractmethod
    def read_cluster(cls, sources: Sequence[Self], question: ClusterQuestion, described: Described) -> ClusterReading:
        """Reads all but the records from all sources of the kind; what is wrong becomes a problem in the reading."""

    def complete(self, reading: ClusterReading, question: ClusterQuestion) -> ClusterReading:
        return reading


@dataclass(slots=True, kw_only=True)
class Described:
    history: ClusterHistory | None = None
    # by partition, broker, and whether it is a copy on its way between disks
    replicas: dict[tuple[TopicPartition, int | None, bool], DescribedReplica] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    groups: list[tuple[int, ConsumerGroupMember]] = field(default_factory=list)
    # partitions that are being moved; with a broker, between its disks
    moving: set[Moving] = field(default_factory=set)
    problems: dict[str, list[Problem]] = field(default_factory=lambda: defaultdict(list))

    def list_replicas(
        self, partitions: Mapping[TopicPartition, PartitionState], *, besides: Sequence[ReplicaState]
    ) -> tuple[ReplicaState, ...]:
        """Replicas described and not found on disks (`besides`); a follower's log ends below the high watermark by its lag."""
        known = {(state.topic_partition, state.broker_id, state.is_future) for state in besides}
        others = [replica for key, replica in sorted(self.replicas.items()) if key not in known]
        return tuple(self._as_state(replica, partitions.get(replica.topic_partition)) for replica in others)

    def _as_state(self, replica: DescribedReplica, partition: PartitionState | None) -> ReplicaState:
        high_watermark = self.high_watermarks.get(replica.topic_partition)
        is_leader = partition is not None and partition.leader_id == replica.broker_id
        return ReplicaState(
            topic=replica.topic_partition.topic,
            topic_id=None if partition is None else partition.topic_id,
            partition=replica.topic_partition.partition,
            broker_id=replica.broker_id,
            log_directory=replica.log_directory,
            log_end_offset=None if high_watermark is None or replica.is_future else high_watermark - replica.offset_lag,
            high_watermark=high_watermark if is_leader else None,
            size_bytes=replica.size_bytes,
            is_future=replica.is_future,
        )


class TextSource(StateSource):
    @abstractmethod
    def describe(self, described: Described) -> None:
        """Adds what the text says, and what is wrong with it."""

    def parse(self, path: Path, parse: Callable[[str], _T], described: Described) -> _T | None:
        try:
            text = read_small(path, MOST_TEXT_BYTES).decode()
            return parse(text.replace("\r\n", "\n").replace("\r", "\n"))
        except (OSError, UnicodeDecodeError, InputError) as error:
            described.problems[self.kind].append(Problem.of_error(path, error))
            return None


def sources_of(cluster: Cluster, role: type[_Role]) -> tuple[_Role, ...]:
    return tuple(source for source in cluster.sources if isinstance(source, role))


def _probe_path(path: Path) -> Finding:
    found, advice = str(path), ""
    try:
        if path.exists():
            is_open = os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))
        elif is_open := (count := sum(1 for _ in path.parent.glob(path.name))) > 0:
            found = f"{path}: {count:,} files"
        else:
            found, advice = f"{path} is not there", "correct the path, or mount it"
    except OSError:  # a folder above it is closed, or no file may have such a name
        is_open = False
    if not is_open and not advice:
        found, advice = f"{path} cannot be read", f"let user {os.getuid()} read it"
    return Finding(name="", is_ok=is_open, found=found, advice=advice)
