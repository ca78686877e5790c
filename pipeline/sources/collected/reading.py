"""Reads collected parts: one copy of every partition, from the host that read it furthest."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import ConfigError, InputError
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.window import TimeWindow, instant_of
from pipeline.sources.collected.manifest import CollectedAs, Manifest, Part, read_manifest
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.questions import name_some
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SCHEMAS, Kind, Piece
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import LogName

PartitionId = tuple[str, str, int]
NEEDS_KEYS = "collected keys are pseudonyms: keys.strategies and keys.mode counts_only need the keys themselves"
TASK_BYTES = 16 << 20  # of parts, which hold some hundred times as much log


@dataclass(frozen=True, slots=True)
class Host:
    """A host's folder and its committed parts."""

    folder: StoredFolder
    manifest: Manifest


def read_hosts(landing: StoredFolder, span: TimeWindow, problems: list[Problem]) -> list[Host]:
    """Reads the hosts of a landing folder, by name; a faulty one, or one that lost parts of the span, becomes a problem."""
    hosts = []
    for name in landing.folders():
        folder = StoredFolder(f"{landing.location.rstrip('/')}/{name}", landing.storage)
        try:
            manifest = read_manifest(folder)
            if manifest is not None:
                _check_parts(folder, manifest, span)
                hosts.append(Host(folder, manifest))
        except InputError as error:
            problems.append(Problem.of_error(folder.location, error))
    return hosts


def _check_parts(folder: StoredFolder, manifest: Manifest, span: TimeWindow) -> None:
    sizes = {path: size for path, _, size in folder.files("parts")}
    lost = [part.path for part in _parts_within(manifest, span) if sizes.get(part.path) != part.size_bytes]
    if lost:
        raise InputError(name_some("the host is left out: gone, or not as long as the manifest says:", lost))


def _parts_within(manifest: Manifest, span: TimeWindow) -> list[Part]:
    return [
        part
        for part in manifest.parts
        if part.start_ms < span.end_ms and (part.end_ms >= span.start_ms or part.start_ms < 0)
    ]


def choose_copies(
    hosts: Sequence[Host], leaders: Mapping[TopicPartition, int], topics: Collection[str] = ()
) -> list[tuple[Host, frozenset[PartitionId]]]:
    """Chooses by host the partitions to read: those it read furthest, the leader first among equals.

    A broker that became leader lately may not have been read yet: what the leader before it brought counts until then.
    """
    best: dict[PartitionId, tuple[tuple[int, bool], int]] = {}
    for place, host in enumerate(hosts):
        brokers = {directory.broker_id for directory in host.manifest.state.directories}
        for progress in host.manifest.progress:
            if not topics or progress.topic in topics:
                leads = leaders.get(TopicPartition(progress.topic, progress.partition)) in brokers
                rank = (progress.next_offset, leads)
                if progress.key not in best or rank > best[progress.key][0]:
                    best[progress.key] = (rank, place)
    chosen: list[set[PartitionId]] = [set() for _ in hosts]
    for key, (_, place) in best.items():
        chosen[place].add(key)
    return [(host, frozenset(keys)) for host, keys in zip(hosts, chosen, strict=True) if keys]


@dataclass(frozen=True, slots=True)
class CollectedTask:
    """Parts of one host that one task reads."""

    folder: StoredFolder
    parts: tuple[Part, ...]
    copies: frozenset[PartitionId]
    settings: ScanSettings
    leaders: LeaderEpochs

    def run(self) -> Iterator[Piece]:
        """Reads the rows of the partitions wanted in the windows wanted."""
        for part in self.parts:
            content, path, kind = self.folder.read(part.path), f"{self.folder.location}/{part.path}", Kind(part.kind)
            if content is None:
                raise InputError("named by the manifest, but gone: run again, without its host", path=path)
            try:
                rows = pq.read_table(io.BytesIO(content), filters=self._filter(kind)).cast(SCHEMAS[kind])
            except (OSError, ValueError, pa.ArrowException) as error:
                advice = "delete it, and the next run does without its host"
                raise InputError(
                    f"no {kind.value} of a collector ({type(error).__name__}): {advice}", path=path
                ) from error
            names = pa.array(["\0".join(map(str, key)) for key in self.copies])
            rows = rows.filter(pc.is_in(_name_partitions(rows), names))
            yield Piece(kind, self._with_leaders(rows) if kind is Kind.BATCHES else rows)

    def _filter(self, kind: Kind) -> pc.Expression | None:
        start_ms, end_ms = self.settings.span.start_ms, self.settings.span.end_ms
        if kind is Kind.BATCHES:
            start = pc.field("window_start")
            return (start >= instant_of(start_ms)) & (start < instant_of(end_ms))
        if kind in {Kind.KEYS, Kind.ARRIVALS}:
            start = pc.field("window_start_ms")
            return (start >= start_ms) & (start < end_ms)
        return None

    def _with_leaders(self, rows: pa.Table) -> pa.Table:
        place = rows.column_names.index("leader_id")
        tables = [rows.slice(0, 0)]
        names = _name_partitions(rows)
        for topic, topic_id, partition in sorted(self.copies):
            own = rows.filter(pc.equal(names, "\0".join((topic, topic_id, str(partition)))))
            if own.num_rows:
                epochs = own["leader_epoch"].to_numpy().astype("int32")
                led = self.leaders.lead(LogName(topic, topic_id, partition), epochs)
                tables.append(own.set_column(place, rows.schema.field(place), pa.array(led, pa.int64())))
        return pa.concat_tables(tables)


def _name_partitions(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows["topic"], rows["topic_id"], rows["partition"].cast(pa.string()), "\0")


def plan_collected_tasks(
    copies: Sequence[tuple[Host, frozenset[PartitionId]]],
    settings: ScanSettings,
    collected_as: CollectedAs,
    leaders: LeaderEpochs,
) -> list[CollectedTask]:
    """Plans tasks over the parts with rows of the run's windows.

    Raises:
        ConfigError: A host was collected with other settings than the run's, or the run asks about keys themselves.
    """
    if settings.questions:
        raise ConfigError(NEEDS_KEYS)
    tasks = []
    for host, keys in copies:
        if host.manifest.collected_as != collected_as:
            raise ConfigError(
                f"{host.folder.location} was collected as {host.manifest.collected_as!r}, the run wants {collected_as!r}: "
                "collect and run with one configuration"
            )
        parts = _parts_within(host.manifest, settings.span)
        own = leaders.only([LogName(*key) for key in keys])
        folder = StoredFolder(host.folder.location, host.folder.storage)  # without an open connection
        tasks += [CollectedTask(folder, group, keys, settings, own) for group in _group(parts)]
    return tasks


def _group(parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    group: list[Part] = []
    for part in parts:
        group.append(part)
        if sum(one.size_bytes for one in group) >= TASK_BYTES:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)
