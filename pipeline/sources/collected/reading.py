"""Reads collected parts: of every partition the copy that counts, from the hosts that may speak for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ConfigError, InputError
from pipeline.model.window import instant_of
from pipeline.sources.collected.copies import Windows
from pipeline.sources.collected.host import PartitionId, name_partitions, read_part, window_starts
from pipeline.sources.collected.landing import Landing
from pipeline.sources.collected.manifest import CollectedAs, Part
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import Kind, Piece, ReadTask
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import LogName
from pipeline.sources.records.summary_rows import SUMMARY_SCHEMA

NEEDS_KEYS = "collected keys are pseudonyms: keys.strategies and keys.mode counts_only need the keys themselves"
TASK_BYTES = 16 << 20  # of parts, which hold some hundred times as much log
HELD = "held"
"""Row of the summaries that a task counts from the batches it reads: what a part says of itself is compared with it."""


@dataclass(frozen=True, slots=True)
class CollectedTask:
    """Parts of one host that one task reads."""

    folder: StoredFolder
    parts: tuple[Part, ...]
    copies: Mapping[PartitionId, Windows | None]  # starts of the windows wanted; None for all
    settings: ScanSettings
    leaders: LeaderEpochs

    def run(self) -> Iterator[Piece]:
        """Reads the rows of the partitions wanted in the windows wanted; a part that is damaged becomes a problem."""
        for part in self.parts:
            kind = Kind(part.kind)
            try:
                rows = read_part(self.folder, part, self.settings.window_ms, self._filter(kind))
                rows = rows.filter(self._is_wanted(rows))
                yield Piece(kind, self._with_leaders(rows) if kind is Kind.BATCHES else rows)
            except InputError as error:
                yield Piece(Kind.SUMMARIES, _lost_rows(error))
                continue
            if kind is Kind.BATCHES:
                yield Piece(Kind.SUMMARIES, _count_held(rows))

    def _filter(self, kind: Kind) -> pc.Expression | None:
        start_ms, end_ms = self.settings.span.start_ms, self.settings.span.end_ms
        if kind is Kind.BATCHES:
            start = pc.field("window_start")
            return (start >= instant_of(start_ms)) & (start < instant_of(end_ms))
        if kind in {Kind.KEYS, Kind.ARRIVALS}:
            start = pc.field("window_start_ms")
            return (start >= start_ms) & (start < end_ms)
        return None

    def _is_wanted(self, rows: pa.Table) -> pa.ChunkedArray:
        names = name_partitions(rows)
        whole = pa.array([_name(key) for key, windows in self.copies.items() if windows is None], pa.string())
        wanted = pc.is_in(names, whole)
        starts = window_starts(rows)
        for key, windows in self.copies.items():
            if windows is not None:
                is_within = pc.is_in(starts, pa.array(sorted(windows), pa.int64()))
                wanted = pc.or_(wanted, pc.and_(pc.equal(names, _name(key)), is_within))
        return wanted

    def _with_leaders(self, rows: pa.Table) -> pa.Table:
        index = rows.column_names.index("leader_id")
        tables = [rows.slice(0, 0)]
        names = name_partitions(rows)
        for key in sorted(self.copies):
            own = rows.filter(pc.equal(names, _name(key)))
            if own.num_rows:
                epochs = own["leader_epoch"].to_numpy().astype("int32")
                led = self.leaders.lead(LogName(*key), epochs, window_starts(own).to_numpy())
                tables.append(own.set_column(index, rows.schema.field(index), pa.array(led, pa.int64())))
        return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """A host that was collected with other settings than the run's: windows lack what it brought."""

    location: str

    def run(self) -> Iterator[Piece]:
        reason = "collected with other settings (window, keys or arrivals) than the run's: the host is left out"
        yield Piece(Kind.SUMMARIES, _lost_rows(InputError(reason, path=self.location)))


def _name(key: PartitionId) -> str:
    return "\0".join(map(str, key))


def _lost_rows(error: InputError) -> pa.Table:
    """Rows of a part that could not be read: one for the quarantine, one for the windows that lack it."""
    text = {"path": str(error.path), "topic": "", "topic_id": "", "partition": -1, "reason": error.reason}
    problem = {**text, "row_kind": "problem", "severity": "refused", "first_bytes_hex": ""}
    lack = {**text, "row_kind": "shortfall", "reason": str(error)}
    return pa.Table.from_pylist([problem, lack], schema=SUMMARY_SCHEMA)


def _count_held(rows: pa.Table) -> pa.Table:
    """Rows of kind `HELD`: batches and last offset of each partition and window."""
    held = pa.table(
        {
            **{name: rows[name] for name in ("topic", "topic_id", "partition", "last_offset")},
            "window_start_ms": window_starts(rows),
        }
    )
    names = ("topic", "topic_id", "partition", "window_start_ms")
    counted = held.group_by(names).aggregate([("last_offset", "max"), ("last_offset", "count")])
    rows_of: dict[str, Any] = {name: counted[name] for name in names}
    rows_of |= {"last_offset": counted["last_offset_max"], "batch_count": counted["last_offset_count"]}
    rows_of["row_kind"] = pa.repeat(HELD, counted.num_rows)
    nothing = {field.name: pa.nulls(counted.num_rows, field.type) for field in SUMMARY_SCHEMA}
    return pa.table({**nothing, **rows_of}).cast(SUMMARY_SCHEMA)


def plan_collected_tasks(
    landing: Landing, settings: ScanSettings, collected_as: CollectedAs, leaders: LeaderEpochs
) -> list[ReadTask]:
    """Plans tasks over the parts with rows of the run's windows.

    Raises:
        ConfigError: Hosts were collected with other settings than the run's, or the run asks about keys themselves.
    """
    if settings.questions:
        raise ConfigError(NEEDS_KEYS)
    foreign = [host for host in landing.hosts if host.manifest.collected_as != collected_as]
    if foreign and len(foreign) == len(landing.hosts):
        first = foreign[0]
        raise ConfigError(
            f"{first.folder.location} was collected as {first.manifest.collected_as!r}, the run wants {collected_as!r}: "
            "collect and run with one configuration"
        )
    landing = landing.without(foreign) if foreign else landing
    tasks: list[ReadTask] = [RefusedHost(host.folder.location) for host in foreign]
    for host, copies in zip(landing.hosts, landing.copies.of, strict=True):
        if copies:
            own = leaders.only([LogName(*key) for key in copies])
            folder = StoredFolder(host.folder.location, host.folder.storage)  # without an open connection
            parts = host.parts_within(settings.span)
            tasks += [CollectedTask(folder, group, copies, settings, own) for group in _group(parts)]
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
