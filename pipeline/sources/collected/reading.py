"""Reads collected parts: of every partition the copy that counts, from the hosts that may speak for it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ConfigError, InputError
from pipeline.model.cluster import NO_LEADER
from pipeline.model.log import LogName
from pipeline.model.window import instant_of
from pipeline.sources.collected.host import MOST_PROBLEMS, list_names, name_partitions, read_part, window_starts
from pipeline.sources.collected.landing import Landing, WindowStarts
from pipeline.sources.collected.manifest import CollectedAs, Part
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.questions import name_some
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind, Piece, ReadTask
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import MISSING

NEEDS_KEYS = "collected keys are pseudonyms: keys.strategies and keys.mode counts_only need the keys themselves"
TASK_BYTES = 16 << 20  # of parts, which hold some hundred times as much log
# rows of the summaries that a task counts from what it reads: what parts say of themselves is compared with them
HELD, HELD_KEYS, HELD_ARRIVALS, SPAN = "held", "held_keys", "held_arrivals", "span"
_LOG, _WINDOW = ["topic", "topic_id", "partition"], "window_start_ms"
_KEYLESS = pa.array(["no_key", "other_keys", "unreadable"])
_UNFILLED = "its records do not fill its offsets, though the topic is not compacted"


@dataclass(frozen=True, slots=True)
class CollectedTask:
    folder: StoredFolder
    parts: tuple[Part, ...]
    copies: Mapping[LogName, WindowStarts | None]  # starts of the windows wanted; None for all
    settings: ScanSettings
    leaders: LeaderEpochs

    def run(self) -> Iterator[Piece]:
        for part in self.parts:
            kind = Kind(part.kind)
            try:
                rows = read_part(self.folder, part, self.settings.window_ms, self._filter(kind))
                rows = rows.filter(self._is_wanted(rows))
                path = f"{self.folder.location}/{part.path}"
                rows = _cut_problems(rows, path) if kind is Kind.SUMMARIES else rows
                yield Piece(kind, self._with_leaders(rows) if kind is Kind.BATCHES else rows)
            except InputError as error:
                yield Piece(Kind.SUMMARIES, _lost_rows(error))
                continue
            yield from (Piece(Kind.SUMMARIES, found) for found in self._compare(kind, rows, path))

    def _compare(self, kind: Kind, rows: pa.Table, path: str) -> Iterator[pa.Table]:
        """Rows that say what a part holds, beside which others' are compared, and what it lacks by its own offsets."""
        if kind is Kind.BATCHES:
            yield _count_held(rows)
            yield _list_spans(rows)
            is_short = pc.and_(pc.greater(rows["missing_offset_count"], 0), pc.invert(self._is_compacted(rows)))
            short = rows.filter(is_short).select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([])
            if names := sorted("{topic}-{partition}".format(**row) for row in short.to_pylist()):
                yield _lost_rows(InputError(name_some(f"{MISSING}: of", names), path=path))
        elif kind is Kind.SUMMARIES:
            yield self._find_unfilled(rows)
        elif kind is Kind.ARRIVALS:
            counts = pc.add(rows["record_count"], rows["unreadable_record_count"])
            counted = rows.select([*_LOG, _WINDOW]).append_column("record_count", counts)
            yield _sum_records(counted, HELD_ARRIVALS)
        else:
            yield _sum_records(rows if kind is Kind.KEYS else rows.filter(pc.is_in(rows["kind"], _KEYLESS)), HELD_KEYS)

    def _find_unfilled(self, rows: pa.Table) -> pa.Table:
        spanned = pc.add(pc.subtract(rows["last_offset"], rows["first_offset"]), 1)
        most = pc.add(rows["record_count"], pc.fill_null(rows["missing_offset_count"], 0))
        is_filled = pc.and_(pc.less_equal(rows["record_count"], spanned), pc.greater_equal(most, spanned))
        is_file = pc.and_(pc.equal(rows["row_kind"], "segment"), pc.equal(rows["magic"], "2"))
        is_wrong = pc.and_(pc.and_(is_file, pc.invert(is_filled)), pc.invert(self._is_compacted(rows)))
        wrong = rows.filter(pc.fill_null(is_wrong, fill_value=False)).select(["path", "topic", "topic_id", "partition"])
        return _as_summaries(wrong, row_kind="problem", reason=_UNFILLED, severity="suspect", first_bytes_hex="")

    def _is_compacted(self, rows: pa.Table) -> pa.ChunkedArray:
        return pc.is_in(rows["topic"], pa.array(sorted(self.settings.compacted_topics), pa.string()))

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
        """Batches with their leaders, and as if no topic but those that are compacted lacked any."""
        keys, names = list(self.copies), name_partitions(rows)
        numbers = pc.index_in(names, list_names(keys)).to_numpy()
        epochs, starts = rows["leader_epoch"].to_numpy().astype("int32"), window_starts(rows).to_numpy()
        led, order = np.full(rows.num_rows, NO_LEADER), np.argsort(numbers, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if rows.num_rows else ():
            led[own] = self.leaders.lead(keys[numbers[own[0]]], epochs[own], starts[own])
        missing = pc.if_else(self._is_compacted(rows), rows["missing_offset_count"], 0)
        for name, values in (("leader_id", pa.array(led, pa.int64())), ("missing_offset_count", missing)):
            index = rows.column_names.index(name)
            rows = rows.set_column(index, rows.schema.field(index), values)
        return rows


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
    """Rows of kind `HELD`: batches, data records and last offset of each partition and window."""
    records = pc.if_else(rows["is_control"], 0, rows["record_count"])
    held = rows.select([*_LOG, "last_offset"]).append_column(_WINDOW, window_starts(rows))
    held = held.append_column("record_count", records).group_by([*_LOG, _WINDOW])
    counted = held.aggregate([("last_offset", "max"), ("last_offset", "count"), ("record_count", "sum")])
    names = [*_LOG, _WINDOW, "last_offset", "batch_count", "record_count"]
    return _as_summaries(counted.rename_columns(names), row_kind=HELD)


def _list_spans(rows: pa.Table) -> pa.Table:
    """Rows of kind `SPAN`: first and last offset of each partition, and how many batches repeat offsets of others."""
    batches = rows.select([*_LOG, "base_offset", "last_offset"])
    batches = batches.sort_by([(name, "ascending") for name in batches.column_names])
    first, last = batches["base_offset"].to_numpy(), batches["last_offset"].to_numpy()
    logs = pc.dictionary_encode(name_partitions(batches)).combine_chunks().indices.to_numpy()
    repeats = np.zeros(len(first), np.int64)
    repeats[1:] = (first[1:] <= last[:-1]) & (logs[1:] == logs[:-1])
    spans = batches.append_column("repeats", pa.array(repeats)).group_by(_LOG)
    counted = spans.aggregate([("base_offset", "min"), ("last_offset", "max"), ("repeats", "sum")])
    return _as_summaries(counted.rename_columns([*_LOG, "first_offset", "last_offset", "batch_count"]), row_kind=SPAN)


def _sum_records(rows: pa.Table, row_kind: str) -> pa.Table:
    counted = rows.group_by([*_LOG, _WINDOW]).aggregate([("record_count", "sum")])
    return _as_summaries(counted.rename_columns([*_LOG, _WINDOW, "record_count"]), row_kind=row_kind)


def _as_summaries(rows: pa.Table, **texts: str) -> pa.Table:
    """Rows of `SUMMARY_SCHEMA` of some columns, and of texts that are the same in each."""
    for name, text in texts.items():
        rows = rows.append_column(name, pa.repeat(text, rows.num_rows))
    return pa.concat_tables([SUMMARY_SCHEMA.empty_table(), rows], promote_options="default")


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
            own = leaders.only(copies)
            folder = StoredFolder(host.folder.location, host.folder.storage)  # without an open connection
            parts = host.parts_within(settings.span)
            numbered = zip(accumulate(part.size_bytes for part in parts), parts, strict=True)
            for _, group in groupby(numbered, lambda pair: pair[0] // TASK_BYTES):
                tasks.append(CollectedTask(folder, tuple(part for _, part in group), copies, settings, own))
    return tasks
