"""Reads a broker's own disks, from where it last stopped, into the host's landing folder. No Spark, no JVM.

Parts come first, the manifest that names them last: who dies has committed a stretch or nothing. Of two the last to commit counts.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.sections import COUNTS_ONLY
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.cluster import CLUSTER_METADATA, ClusterHistory
from pipeline.model.log import LogName, Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree, PartitionDirectory
from pipeline.model.window import DAY_MS, LATEST_MS, TimeWindow, milliseconds_of
from pipeline.sources.collected.host import window_starts
from pipeline.sources.collected.manifest import CollectedAs, HostState, Manifest, Part, read_manifest, write_manifest
from pipeline.sources.collected.partition_scan import UNIT_BYTES, ReadUnit, go_back, is_stuck, read_partition
from pipeline.sources.collected.reading import NEEDS_KEYS
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.files.cluster_state import read_cluster_history, read_replica_states
from pipeline.sources.files.directory_walk import SEGMENT_NAME
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.segment_plan import SegmentRead, plan_reads
from pipeline.sources.records.pieces import Kind, Piece
from pipeline.sources.records.scan_settings import ScanSettings, take_secret

COMMIT_BYTES = 512 << 20  # of log, between two commits: what a collector that dies has to read again


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    bytes_per_s: int
    clock: Callable[[], float]  # seconds
    pause: Callable[[float], None]

    def keep(self, read_bytes: int, since_s: float) -> None:
        ahead_s = read_bytes / self.bytes_per_s - (self.clock() - since_s)
        if ahead_s > 0:
            self.pause(ahead_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    paths: Sequence[Path]
    config: PipelineConfig
    cluster: str
    host: str  # name of its folder; empty: the brokers found
    keep_ms: int  # how long parts are kept after their last window
    as_of_ms: int  # now
    run_id: str  # makes names of parts that no other run uses
    unit_bytes: int = UNIT_BYTES
    commit_bytes: int = COMMIT_BYTES


@dataclass(slots=True)
class CollectorReport:
    host: str
    partition_count: int = 0
    read_bytes: int = 0
    written_bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by kind of part, and `manifest`
    problem_count: int = 0


def collect(request: CollectRequest, landing: StoredFolder, rate_limit: RateLimit) -> CollectorReport:
    """Collects what is new on this host; `ConfigError`: no name, or other settings before; `NothingUsableError`: no log."""
    tree = discover_logs(request.paths)
    if not tree.directories:
        raise NothingUsableError("; ".join(f"{p.path}: {p.reason}" for p in tree.problems) or "no log to collect")
    host = request.host or "-".join(f"broker-{broker_id}" for broker_id in tree.broker_ids)
    if not host or "/" in host or host.startswith("."):
        raise ConfigError(f"host {host!r} cannot name a folder: pass --host NAME")
    folder = replace(landing, location=f"{landing.location.rstrip('/')}/{host}")
    return _Collector(request, tree, host, folder, rate_limit).run()


def _has_led(history: ClusterHistory, name: TopicPartition, broker_id: int | None, since_ms: int) -> bool:
    terms = history.leader_terms(name)
    ends_ms = (*(term.since_ms for term in terms[1:]), None)
    pairs = zip(terms, ends_ms, strict=True)
    return any(term.leader_id == broker_id and (end_ms is None or end_ms >= since_ms) for term, end_ms in pairs)


def collector_settings(config: PipelineConfig, cluster: str, as_of_ms: int) -> ScanSettings:
    """Settings of a scan over all time; `ConfigError` where strategies or sums alone need keys, which do not leave the host."""
    keys = config.keys
    if keys.strategies or keys.mode == COUNTS_ONLY:
        raise ConfigError(NEEDS_KEYS)
    return ScanSettings(
        as_of_ms=as_of_ms,
        span=TimeWindow(0, LATEST_MS),
        window_ms=milliseconds_of(config.window),
        secret=take_secret(keys),
        clear_topics=frozenset(keys.clear_topics.get(cluster, ())),
        max_distinct_keys=keys.max_distinct_keys if keys.mode != "off" else 0,
        reads_arrivals=config.replay.arrivals,
    )


class _Collector:
    def __init__(
        self, request: CollectRequest, tree: LogTree, host: str, folder: StoredFolder, rate_limit: RateLimit
    ) -> None:
        self._request, self._tree, self._folder, self._rate_limit = request, tree, folder, rate_limit
        self._root = Path(os.path.commonpath([Path(path).absolute() for path in request.paths]))
        self._settings = collector_settings(request.config, request.cluster, request.as_of_ms)
        self._collected_as = CollectedAs.of(self._settings)
        self._before = read_manifest(folder)
        if self._before is not None and self._before.collected_as != self._collected_as:
            others = "collected with other settings (window, keys or arrivals)"
            raise ConfigError(f"{folder.location} was {others}: empty it, or pass another --host")
        before, now = (
            {one.cluster_id for one in directories} - {None}
            for directories in (self._before.state.directories if self._before else (), tree.directories)
        )
        if before and now and before.isdisjoint(now):
            raise ConfigError(f"{folder.location} holds another Kafka cluster: pass another --to, one for each cluster")
        self._parts = list(self._before.parts if self._before else ())
        self._progress = {one.key: one for one in (self._before.progress if self._before else ())}
        self._held: dict[Kind, list[pa.Table]] = defaultdict(list)
        self._held_bytes = self._number = 0
        self._dropped_until_ms = self._before.dropped_until_ms if self._before else -1
        self._unread: list[LogName] = []
        self._closed: dict[str, list[int]] = defaultdict(list)  # base offsets of segments that cannot be opened, by log
        for path in sorted(Path(one.path) for one in tree.problems if one.severity == "refused"):
            if SEGMENT_NAME.fullmatch(path.name):
                self._closed[str(path.parent)].append(int(path.stem))
        self.done = CollectorReport(host)

    def run(self) -> CollectorReport:
        request = self._request
        # deletes parts that no manifest names, once they are so old that no collector can be about to name them
        named = {part.path for part in self._parts}
        for path, written_at_ms, _ in self._folder.files("parts"):
            if path not in named and written_at_ms < request.as_of_ms - DAY_MS:
                self._folder.delete(path)
        history, problems = read_cluster_history(self._tree)
        # where this host's clock is days behind the controllers', no record is of the future
        self._settings = replace(self._settings, as_of_ms=max(request.as_of_ms, history.newest_ms or 0))
        replicas, replica_problems = read_replica_states(self._tree)
        all_problems = [*self._tree.problems, *problems, *replica_problems]
        began_s = self._rate_limit.clock()
        for directory, partition in self._choose(history):
            progress = go_back(self._progress.get(partition.log_name), partition.leader_epochs)
            reads, unit_bytes = self._plan(directory, partition), request.unit_bytes
            try:
                for unit in read_partition(reads, progress, self._settings, name=self._name, unit_bytes=unit_bytes):
                    self._take(unit)
                    self._rate_limit.keep(self.done.read_bytes, began_s)
                    if self._held_bytes >= request.commit_bytes:
                        self._commit(self._before.collected_at_ms if self._before else -1)
                if reads and is_stuck(reads[-1], self._progress.get(partition.log_name)):
                    self._unread.append(partition.log_name)
            except OSError as error:
                all_problems.append(Problem.of_error(partition.path, error))
                self._unread.append(partition.log_name)
        self.done.problem_count = len(all_problems)
        tree = LogTree(directories=tuple(map(self._renamed, self._tree.directories)))
        renamed = tuple(replace(one, log_directory=self._name(one.log_directory)) for one in replicas)
        faults = tuple(replace(one, path=self._name(one.path)) for one in all_problems)
        known = history if history.state_source == CLUSTER_METADATA else None
        self._commit(request.as_of_ms, HostState.of(tree, known, replicas=renamed, problems=faults))
        return self.done

    def _choose(self, history: ClusterHistory) -> list[tuple[LogDirectory, PartitionDirectory]]:
        """Chooses the live partitions that this broker leads, may lead or has led since the last reading; the longer log of two disks.

        Where the leader moved between the readings of two hosts, each found the other to be the leader.
        """
        as_of_ms, before = self._request.as_of_ms, self._before
        state, since_ms = history.state_at(as_of_ms), as_of_ms
        if before is not None:  # a host's clock may be ahead of the controllers'
            told_ms = before.state.newest_ms
            since_ms = before.collected_at_ms if told_ms is None else min(before.collected_at_ms, told_ms)
        topics, leaders = self._request.config.clusters[self._request.cluster].topics, state.leaders
        chosen: dict[LogName, tuple[LogDirectory, PartitionDirectory]] = {}
        for directory, partition in self._tree.iter_partitions(kind=DirectoryKind.LIVE):
            name, broker_id = partition.topic_partition, directory.broker_id
            is_led = leaders.get(name, broker_id) == broker_id or _has_led(history, name, broker_id, since_ms)
            if partition.is_cluster_metadata or not is_led:
                continue
            key, begins = partition.log_name, [one.base_offset or 0 for one in partition.segments]
            if not fits_topics(partition.topic, topics) or self._closed[partition.path][-1:] > begins[-1:]:
                self._unread.append(key)
            elif key not in chosen or partition.length > chosen[key][1].length:
                chosen[key] = (directory, partition)
        self.done.partition_count = len(chosen)
        return [chosen[key] for key in sorted(chosen)]

    def _plan(self, directory: LogDirectory, partition: PartitionDirectory) -> list[SegmentRead]:
        """The log's segments; one that cannot be opened is a hole, and no part of the one before."""
        reads, closed = plan_reads([(directory, partition)]), self._closed[partition.path]
        nexts = ([one for one in (*closed, read.next_base_offset) if one > read.base_offset] for read in reads)
        return [replace(read, next_base_offset=min(of, default=-1)) for read, of in zip(reads, nexts, strict=True)]

    def _take(self, unit: ReadUnit) -> None:
        for piece in unit.pieces:
            if piece.rows.num_rows:
                self._held[piece.kind].append(piece.rows)
        self._held_bytes += unit.read_bytes
        self.done.read_bytes += unit.read_bytes
        progress = unit.progress.model_copy(update={"collected_at_ms": self._request.as_of_ms})
        self._progress[progress.key] = progress

    def _commit(self, collected_at_ms: int, state: HostState | None = None) -> None:
        oldest_ms = self._request.as_of_ms - self._request.keep_ms
        newest_ms = max((_newest(rows) for rows in self._held[Kind.BATCHES]), default=-1)
        for kind, tables in self._held.items():
            if tables:
                self._parts.append(self._write(kind, pa.concat_tables(tables), newest_ms))
        self._held.clear()
        self._held_bytes = 0
        old = [part for part in self._parts if max(part.end_ms, part.collected_at_ms) < oldest_ms]
        self._parts = [part for part in self._parts if part not in old]
        ends_ms = (part.end_ms + self._settings.window_ms for part in old if part.end_ms >= 0)
        self._dropped_until_ms = max(self._dropped_until_ms, *ends_ms, -1)
        here = {partition.log_name for _, partition in self._tree.iter_partitions()}
        unread: set[tuple[str, str, int]] = {*self._unread}
        if state is None:  # it speaks of the last whole reading
            nothing = HostState.of(LogTree(), None, replicas=(), problems=())
            state = nothing if self._before is None else self._before.state
            unread |= {*(self._before.unread if self._before else ())}
        manifest = Manifest(
            host=self.done.host,
            collected_as=self._collected_as,
            collected_at_ms=collected_at_ms,
            state=state,
            parts=tuple(self._parts),
            progress=tuple(p for k, p in sorted(self._progress.items()) if k in here or p.collected_at_ms >= oldest_ms),
            dropped_until_ms=self._dropped_until_ms,
            unread=tuple(sorted(unread)),
        )
        self.done.written_bytes["manifest"] += write_manifest(self._folder, manifest)
        for part in old:
            self._folder.delete(part.path)

    def _write(self, kind: Kind, rows: pa.Table, newest_ms: int) -> Part:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd", compression_level=9, **_encode(kind, rows.schema))
        content = sink.getvalue().to_pybytes()
        path = f"parts/{self._request.run_id}-{self._number:05d}-{kind.value}.parquet"
        self._number += 1
        self._folder.write(path, content)
        self.done.written_bytes[kind.value] += len(content)
        starts = window_starts(rows)
        bounds = pc.min_max(starts.filter(pc.greater_equal(starts, 0))).as_py()  # of the first and the last window
        return Part(
            path=path,
            kind=kind.value,
            size_bytes=len(content),
            row_count=Piece(kind, rows).row_count,
            start_ms=-1 if bounds["min"] is None else bounds["min"],
            end_ms=-1 if bounds["max"] is None else bounds["max"],
            newest_ms=newest_ms,
            collected_at_ms=self._request.as_of_ms,
        )

    def _name(self, path: str) -> str:
        absolute = Path(path).absolute()
        is_below = absolute.is_relative_to(self._root)
        return str(Path(self.done.host, absolute.relative_to(self._root))) if is_below else path

    def _renamed(self, directory: LogDirectory) -> LogDirectory:
        partitions = []
        for log in directory.partitions:
            segments = (
                replace(one, path=self._name(one.path), index_path=None, time_index_path=None, txn_index_path=None)
                for one in log.segments
            )
            bare = replace(log, segments=tuple(segments), snapshot_paths=(), metadata_snapshot_paths=())
            partitions.append(replace(bare, path=self._name(log.path)))
        return replace(directory, path=self._name(directory.path), partitions=tuple(partitions))


def _encode(kind: Kind, schema: pa.Schema) -> dict[str, Any]:
    """Chooses Parquet encodings: deltas of rising numbers take a fifth (3.7 bytes per batch instead of 18)."""
    if kind is not Kind.BATCHES:
        return {}
    rising = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type)]
    return {
        "use_dictionary": [name for name in schema.names if name not in rising],
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
    }


def _newest(rows: pa.Table) -> int:
    stamps = rows.filter(pc.invert(rows["is_time_outlier"]))["max_timestamp"]
    newest = pc.max(stamps.cast(pa.int64())).as_py()
    return -1 if newest is None else newest // 1000
