"""The manifest of one host's landing folder: what was collected, and where to go on. Written last, it is the commit.

    <landing>/<host>/manifest.json.zst         the only file that is replaced
    <landing>/<host>/parts/<number>-<kind>.parquet

A part that no manifest names was left by a collector that died: nothing reads it, a later run deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.codec.records.key_ids import make_key_ids
from pipeline.errors import InputError
from pipeline.model.cluster import Broker, ClusterHistory, PartitionState, ReplicaState, Timeline
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import LogDirectory, LogTree
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.records.scan_settings import ScanSettings

MANIFEST = "manifest.json.zst"
FORMAT = 1
_MOST_MANIFEST_BYTES = 1 << 30


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
    """A Parquet file of one kind of rows."""

    path: str  # below the host's folder
    kind: str
    size_bytes: int
    row_count: int
    start_ms: int  # of the first window it has rows of; as the next ones -1 where it has none
    end_ms: int  # of the last one
    newest_ms: int  # newest event time of a batch
    collected_at_ms: int


class SegmentTotals(_Stored):
    """What the batches of the segment under way add up to, as far as it was read."""

    row: dict[str, int | str | None]  # of kind `segment`
    producer_ids: tuple[int, ...]


class LogProgress(_Stored):
    """Where to go on in a partition's log."""

    topic: str
    topic_id: str
    partition: int
    next_offset: int
    base_offset: int  # of the segment under way
    position: int  # in that file, of the batch that begins at or after `next_offset`
    newest_ms: int  # newest event time in that file before the position
    stamps_ms: tuple[int, ...]  # max timestamps of the batches before the position, for those out of line after it
    totals: SegmentTotals
    collected_at_ms: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Topic-partition."""
        return self.topic, self.topic_id, self.partition


class HostState(_Stored):
    """What a host's disks show but the batches."""

    directories: tuple[LogDirectory, ...]  # without their checkpoints
    cleaned: tuple[str, ...]  # topics of which a cleaner has a checkpoint
    replicas: tuple[ReplicaState, ...]
    problems: tuple[Problem, ...]
    metadata_length: tuple[int, int] | None  # of the metadata log that the history is from
    brokers: dict[int, Timeline[Broker]] = {}
    partitions: tuple[Timeline[PartitionState], ...] = ()
    topic_configs: dict[str, Timeline[Mapping[str, str]]] = {}
    default_configs: Timeline[Mapping[str, str]] = Timeline()
    state_source: str = ""
    known_since_ms: int | None = None

    @classmethod
    def of(
        cls,
        tree: LogTree,
        history: ClusterHistory | None,
        *,
        replicas: tuple[ReplicaState, ...],
        problems: tuple[Problem, ...],
    ) -> HostState:
        """What is left of them where no file is at hand: names, sizes, leaders; no config that is not a topic's."""
        lengths = [found.length for _, found in tree.iter_partitions() if found.is_cluster_metadata]
        of_history: dict[str, Any] = {}
        if history is not None:
            of_history = {
                "brokers": history.brokers,
                "partitions": tuple(history.partitions.values()),
                "topic_configs": history.topic_configs,
                "default_configs": history.default_configs,
                "state_source": history.state_source,
                "known_since_ms": history.known_since_ms,
            }
        return cls(
            directories=tuple(
                replace(found, high_watermarks={}, log_start_offsets={}, recovery_points={}, cleaner_offsets={})
                for found in tree.directories
            ),
            cleaned=tuple(sorted({key.topic for found in tree.directories for key in found.cleaner_offsets})),
            replicas=replicas,
            problems=problems,
            metadata_length=None if history is None else max(lengths, default=None),
            **of_history,
        )

    @property
    def history(self) -> ClusterHistory:
        """History of the cluster, from the host's metadata log."""
        return ClusterHistory(
            state_source=self.state_source,
            known_since_ms=self.known_since_ms,
            brokers=self.brokers,
            partitions={
                next(state.topic_partition for state in timeline.values if state is not None): timeline
                for timeline in self.partitions
            },
            topic_configs=self.topic_configs,
            default_configs=self.default_configs,
        )

    @property
    def log_directories(self) -> tuple[LogDirectory, ...]:
        """The directories; the first one has the topics that are cleaned."""
        cleaned = {TopicPartition(topic, 0): 0 for topic in self.cleaned}
        first, *others = self.directories or (None,)
        return () if first is None else (replace(first, cleaner_offsets=cleaned), *others)


class Manifest(_Stored):
    """All that a host's collector has committed."""

    format: int = FORMAT
    host: str
    collected_as: CollectedAs
    collected_at_ms: int  # everything committed by then was read
    state: HostState
    parts: tuple[Part, ...] = ()
    progress: tuple[LogProgress, ...] = ()


def read_manifest(folder: StoredFolder) -> Manifest | None:
    """Reads the manifest of a host's folder; None before its first commit.

    Raises:
        InputError: It is damaged, or of a newer format.
        StorageError: It cannot be read.
    """
    packed = folder.read(MANIFEST)
    if packed is None:
        return None
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            text = stream.read(_MOST_MANIFEST_BYTES)
        return Manifest.model_validate_json(text)
    except (OSError, ValidationError) as error:
        reason = f"no manifest of format {FORMAT} ({type(error).__name__})"
        raise InputError(reason, path=f"{folder.location}/{MANIFEST}") from error


def write_manifest(folder: StoredFolder, manifest: Manifest) -> int:
    """Commits; returns the bytes written."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(manifest.model_dump_json(exclude_defaults=True).encode())
    content = sink.getvalue().to_pybytes()
    folder.write(MANIFEST, content)
    return len(content)
