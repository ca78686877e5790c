"""Reads collected parts: of every partition the copy that counts, from the hosts that may speak for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ConfigError, InputError
from pipeline.model.cluster import NO_LEADER
from pipeline.model.window import instant_of
from pipeline.sources.collected.host import (
    MOST_PROBLEMS,
    PartitionId,
    list_names,
    name_partitions,
    read_part,
    window_starts,
)
from pipeline.sources.collected.landing import Landing, Windows
from pipeline.sources.collected.manifest import CollectedAs, Part
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind, Piece, ReadTask
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import LogName

NEEDS_KEYS = "collected keys are pseudonyms: keys.strategies and keys.mode counts_only need the keys themselves"
TASK_BYTES = 16 << 20  # of parts, which hold some hundred times as much log
HELD = "held"
"""Row of the summaries that a task counts from the batches it reads: what a part says of itself is compared with it."""


@dataclass(frozen=True, slots=True)
class CollectedTask:
    folder: StoredFolder
    parts: tuple[Part, ...]
    copies: Mapping[PartitionId, Windows | None]  # starts of the windows wanted; None for all
    settings: ScanSettings
    leaders: LeaderEpochs

    def run(self) -> Iterator[Piece]:
        for part in self.parts:
            kind = Kind(part.kind)
            try:
                rows = read_part(self.folder, part, self.settings.window_ms, self._filter(kind))
                rows = rows.filter(self._is_wanted(rows))
                rows = _cut_problems(rows, f"{self.folder.location}/{part.path}") if kind is Kind.SUMMARIES else rows
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
        whole = list_names([key for key, windows in self.copies.items() if windows is None])
        parts = list_names([(*key, start) for key, windows in self.copies.items() for start in windows or ()])
        windows = pc.binary_join_element_wise(names, window_starts(rows).cast(pa.string()), "\0")
        return pc.or_(pc.is_in(names, whole), pc.is_in(windows, parts))

    def _with_leaders(self, rows: pa.Table) -> pa.Table:
        index = rows.column_names.index("leader_id")
        keys, names = list(self.copies), name_partitions(rows)
        numbers = pc.index_in(names, list_names(keys)).to_numpy()
        epochs, starts = rows["leader_epoch"].to_numpy().astype("int32"), window_starts(rows).to_numpy()
        led, order = np.full(rows.num_rows, NO_LEADER), np.argsort(numbers, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if rows.num_rows else ():
            led[own] = self.leaders.lead(LogName(*keys[numbers[own[0]]]), epochs[own], starts[own])
        return rows.set_column(index, rows.schema.field(index), pa.array(led, pa.int64()))


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """A host that was collected with other settings than the run's: windows lack what it brought."""

    location: str

    def run(self) -> Iterator[Piece]:
        reason = "collected with other settings (window, keys or arrivals) than the run's: the host is left out"
        yield Piece(Kind.SUMMARIES, _lost_rows(InputError(reason, path=self.location)))


def _cut_problems(rows: pa.Table, path: str) -> pa.Table:
    is_problem = pc.equal(rows["row_kind"], "problem")
    problems = rows.filter(is_problem)
    if (more := problems.num_rows - MOST_PROBLEMS) <= 0:
        return rows
    left_out = _lost_rows(InputError(f"{more:,} problems of this part are left out", path=path)).slice(0, 1)
    return pa.concat_tables([rows.filter(pc.invert(is_problem)), problems.slice(0, MOST_PROBLEMS), left_out])


def _lost_rows(error: InputError) -> pa.Table:
    """Rows of a part that could not be read: one for the quarantine, one for the windows that lack it."""
    text = {"path": str(error.path), "topic": "", "topic_id": "", "partition": -1, "reason": error.reason}
    problem = {**text, "row_kind": "problem", "severity": "refused", "first_bytes_hex": ""}
    lack = {**text, "row_kind": "shortfall", "reason": str(error)}
    return pa.Table.from_pylist([problem, lack], schema=SUMMARY_SCHEMA)


def _count_held(rows: pa.Table) -> pa.Table:
    names = ["topic", "topic_id", "partition", "window_start_ms"]
    held = rows.select([*names[:3], "last_offset"]).append_column(names[3], window_starts(rows))
    counted = held.group_by(names).aggregate([("last_offset", "max"), ("last_offset", "count")])
    counted = counted.rename_columns([*names, "last_offset", "batch_count"])
    counted = counted.append_column("row_kind", pa.repeat(HELD, counted.num_rows))
    return pa.concat_tables([SUMMARY_SCHEMA.empty_table(), counted], promote_options="default")


def plan_collected_tasks(
    landing: Landing, settings: ScanSettings, collected_as: CollectedAs, leaders: LeaderEpochs
) -> list[ReadTask]:
    """Tasks over parts with rows of the run's windows; `ConfigError` if all hosts have other settings, or keys are asked about."""
    if settings.questions:
        raise ConfigError(NEEDS_KEYS)
    foreign = [host for host in landing.hosts if host.manifest.collected_as != collected_as]
    if foreign and len(foreign) == len(landing.hosts):
        theirs = f"{foreign[0].folder.location} was collected as {foreign[0].manifest.collected_as!r}"
        raise ConfigError(f"{theirs}, the run wants {collected_as!r}: collect and run with one configuration")
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
    ends = accumulate(part.size_bytes for part in parts)
    for _, group in groupby(zip(ends, parts, strict=True), lambda pair: pair[0] // TASK_BYTES):
        yield tuple(part for _, part in group)
