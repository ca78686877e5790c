"""The manifest of a host's landing folder: what was collected, and where to go on. Written last, it is the commit.

`<landing>/<host>/manifest.json.zst` alone is replaced; a file of `parts/` that none names is a dead collector's: a later run deletes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.codec.records.key_ids import make_key_ids
from pipeline.errors import InputError
from pipeline.model.cluster import Broker, ClusterHistory, PartitionState, ReplicaState, Timeline, UnreadState
from pipeline.model.log import MAX_PARTITION_NUMBER, LogName, Problem, TopicPartition
from pipeline.model.log_tree import LogDirectory, LogTree
from pipeline.model.window import LATEST_MS
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.records.scan_settings import ScanSettings

MANIFEST = "manifest.json.zst"
FORMAT = 1
_MOST_MANIFEST_BYTES = 256 << 20  # decompressed: what 100,000 replicas take, ten times
_MOST_PACKED_BYTES = 64 << 20
_MOST_PART_BYTES = 1 << 30
_INT64, _INT32 = range(-(2**63), 2**63), 2**31
_LISTED = ("replicas", "isr", "adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr")
_NUMBERS = {  # what numbers and lists of these names may hold; others 64 bits
    **dict.fromkeys(("log_start_offset", "log_end_offset", "high_watermark"), range(-1, 1 << 62)),
    **dict.fromkeys(("broker_id", *_LISTED), range(_INT32)),
    **dict.fromkeys(("leader_id", "leader_epoch", "partition_epoch"), range(-1, _INT32)),
    "size_bytes": range(1 << 45),  # of a replica; of a part fewer
    "partition": range(-1, MAX_PARTITION_NUMBER + 1),  # -1: of a segment that lies alone
    "position": range(-1, _INT64.stop),
}
_MOST_FIRST_BYTES = 64  # of a problem
_OF_HISTORY = ("brokers", "topic_configs", "default_configs", "state_source", "known_since_ms", "unread")
Count = Annotated[int, Field(ge=0, lt=_INT64.stop)]
Instant = Annotated[int, Field(ge=-1, le=LATEST_MS)]
Partition = Annotated[int, Field(ge=0, le=MAX_PARTITION_NUMBER)]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex")


class CollectedAs(_Stored):
    """Settings that change what is collected; a run takes up only what was collected with its own."""

    window_ms: int
    counts_keys: bool
    secret_check: str  # the id of the empty key under the deployment's secret; empty where there is none
    reads_arrivals: bool

    @classmethod
    def of(cls, settings: ScanSettings) -> CollectedAs:
        """Makes the settings of a scan; the secret appears only as its hash of the empty key."""
        return cls(
            window_ms=settings.window_ms,
            counts_keys=settings.max_distinct_keys > 0,
            secret_check="" if settings.secret is None else make_key_ids(settings.secret, [b""])[0],
            reads_arrivals=settings.reads_arrivals,
        )


class Part(_Stored):
    path: str = Field(pattern=r"^parts/[A-Za-z0-9][A-Za-z0-9._-]*\.parquet$")  # below the host's folder
    kind: Literal["summaries", "batches", "keys", "others", "arrivals"]
    size_bytes: int = Field(ge=0, le=_MOST_PART_BYTES)
    row_count: Count
    start_ms: Instant  # of the first window it has rows of; as the next ones -1 where it has none
    end_ms: Instant  # of the last one
    newest_ms: Instant  # newest event time of a batch
    collected_at_ms: Instant


class SegmentTotals(_Stored):
    """What the batches of the segment under way add up to, as far as it was read."""

    row: dict[str, int | str | None]  # of kind `segment`
    producer_ids: tuple[int, ...]


class LogProgress(_Stored):
    topic: str
    topic_id: str
    partition: Partition
    next_offset: Count
    base_offset: Count  # of the segment under way
    position: Count  # in that file, of the batch that begins at or after `next_offset`
    newest_ms: Instant  # newest event time in that file before the position
    stamps_ms: tuple[int, ...]  # max timestamps of the batches before the position, for those out of line after it
    totals: SegmentTotals
    collected_at_ms: Instant
    # retention took records before they were read: those sent from a time to before another, all such together
    lost: tuple[Instant, Instant] | None = None
    leader_epoch: int = -1  # of the batch read last; older collectors lack it

    @property
    def key(self) -> LogName:
        return LogName(self.topic, self.topic_id, self.partition)

    @property
    def read_until_ms(self) -> int:
        """Until when records were read: a client's clock may be ahead of the host's."""
        return self.newest_ms if self.collected_at_ms < 0 else min(self.newest_ms, self.collected_at_ms)


class HostState(_Stored):
    directories: tuple[LogDirectory, ...]  # without their checkpoints
    cleaned: tuple[str, ...]  # topics of which a cleaner has a checkpoint
    replicas: tuple[ReplicaState, ...]
    problems: tuple[Problem, ...]
    metadata_length: tuple[int, int] | None  # of the metadata log that the history is from
    brokers: dict[int, Timeline[Broker]] = {}
    partitions: tuple[Timeline[PartitionState], ...] = ()
    topic_configs: dict[str, Timeline[Mapping[str, str]]] = {}
    default_configs: Timeline[Mapping[str, str]] = Timeline()
    state_source: Literal["", "cluster_metadata"] = ""
    known_since_ms: int | None = Field(None, ge=0, le=LATEST_MS)
    unread: tuple[UnreadState, ...] = ()
    newest_ms: int | None = Field(None, ge=0, le=LATEST_MS)  # of the metadata log's records; older collectors lack it

    @model_validator(mode="after")
    def _timelines_are_in_order(self) -> Self:
        by_key: list[Iterable[Timeline[Any]]] = [self.brokers.values(), self.topic_configs.values()]
        for timeline in (*(one for timelines in by_key for one in timelines), *self.partitions, self.default_configs):
            moments = timeline.moments_ms
            if len(moments) != len(timeline.values) or list(moments) != sorted(moments):
                raise ValueError("a timeline whose moments are not in order, or not one a value")
            if moments and not 0 <= moments[0] <= moments[-1] <= LATEST_MS:
                raise ValueError("a timeline with a moment that no calendar holds")
        for timeline in self.partitions:
            if len({state.topic_partition for state in timeline.values if state is not None}) != 1:
                raise ValueError("a timeline of no partition, or of several")
        return self

    @model_validator(mode="after")
    def _broker_ids_and_problems_can_be(self) -> Self:
        if not all(broker_id in range(_INT32) for broker_id in self.brokers):
            raise ValueError("a broker that no cluster has")
        for one in self.problems:
            if len(one.first_bytes) > _MOST_FIRST_BYTES or one.severity not in {"refused", "suspect"}:
                raise ValueError("a problem that no collector writes")
        return self

    @classmethod
    def of(
        cls,
        tree: LogTree,
        history: ClusterHistory | None,
        replicas: Sequence[ReplicaState],
        problems: Sequence[Problem],
    ) -> HostState:
        """What is left of them where no file is at hand: names, sizes, leaders; no config that is not a topic's."""
        lengths = [directory.length for _, directory in tree.iter_partitions() if directory.is_cluster_metadata]
        of_history: dict[str, Any] = {}
        if history is not None:
            of_history = {name: getattr(history, name) for name in _OF_HISTORY}
            of_history["partitions"] = tuple(history.partitions.values())
        return cls(
            directories=tuple(
                replace(directory, high_watermarks={}, log_start_offsets={}, recovery_points={}, cleaner_offsets={})
                for directory in tree.directories
            ),
            cleaned=tuple(sorted({key.topic for directory in tree.directories for key in directory.cleaner_offsets})),
            replicas=tuple(replicas),
            problems=tuple(problems),
            metadata_length=None if history is None else max(lengths, default=None),
            # where controllers write nothing while nothing changes, a log's end proves nothing
            newest_ms=None if history is None or history.quiet_ms is None else history.newest_ms,
            **of_history,
        )

    @property
    def history(self) -> ClusterHistory:
        partitions = {
            next(state.topic_partition for state in timeline.values if state is not None): timeline
            for timeline in self.partitions
        }
        return ClusterHistory(partitions=partitions, **{name: getattr(self, name) for name in _OF_HISTORY})

    @property
    def log_directories(self) -> tuple[LogDirectory, ...]:
        cleaned = {TopicPartition(topic, 0): 0 for topic in self.cleaned}
        first, *others = self.directories or (None,)
        return () if first is None else (replace(first, cleaner_offsets=cleaned), *others)


class Manifest(_Stored):
    format: int = FORMAT
    host: str
    collected_as: CollectedAs
    collected_at_ms: Instant  # everything committed by then was read
    state: HostState
    parts: tuple[Part, ...] = ()
    progress: tuple[LogProgress, ...] = ()
    dropped_until_ms: Instant = -1  # end of the newest window of which parts were deleted, as their time was over
    unread: tuple[tuple[str, str, Partition], ...] = ()  # logs that its `topics` leave out, or that could not be read

    @model_validator(mode="after")
    def _nothing_is_named_twice(self) -> Self:
        if len({one.key for one in self.progress}) != len(self.progress):
            raise ValueError("progress of a log twice")
        if len({one.path for one in self.parts}) != len(self.parts):
            raise ValueError("a part twice")
        return self


def read_manifest(folder: StoredFolder) -> Manifest | None:
    """A host's manifest; None before its first commit; `InputError` if damaged or of a newer format, `StorageError` if not read."""
    path = f"{folder.location}/{MANIFEST}"
    packed = folder.read(MANIFEST, _MOST_PACKED_BYTES)
    if packed is None:
        return None
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            text = stream.read(_MOST_MANIFEST_BYTES + 1)
        if len(text) > _MOST_MANIFEST_BYTES:
            raise InputError(f"more than {_MOST_MANIFEST_BYTES >> 20} MiB, far more than it ever has", path=path)
        manifest = Manifest.model_validate_json(text, strict=True)  # no number as a text
        json.loads(text, object_pairs_hook=_check_numbers)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"not a manifest of format {FORMAT}", path=path) from error
    return manifest


def _check_numbers(pairs: list[tuple[str, object]]) -> None:
    """Refuses numbers that no cluster has, in whatever part of a manifest they are."""
    for name, value in pairs:
        allowed, held = _NUMBERS.get(name, _INT64), [value]
        for one in held:
            if isinstance(one, list):
                held += one
            elif isinstance(one, int) and one not in allowed:
                raise ValueError(f"a number of {name} that no cluster has")


def write_manifest(folder: StoredFolder, manifest: Manifest) -> int:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(manifest.model_dump_json(exclude_defaults=True).encode())
    content = sink.getvalue().to_pybytes()
    folder.write(MANIFEST, content)
    return len(content)
