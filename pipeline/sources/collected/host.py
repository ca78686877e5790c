"""Hosts of a landing folder, and what is read of their parts before a run plans its tasks."""

import io
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.calibration.arrival_rows import are_chunks_whole
from pipeline.errors import InputError
from pipeline.model.log import MAX_PARTITION_NUMBER, LogName, Problem, TopicPartition
from pipeline.model.log_tree import DirectoryKind
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import LATEST_MS, TimeWindow
from pipeline.sources.collected.manifest import Manifest, Part, read_manifest
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.questions import name_some
from pipeline.sources.records.pieces import SCHEMAS, Kind
from pipeline.tables.silver import RECORD_BATCHES

OffsetRanges = Mapping[LogName, Mapping[int, tuple[int, int]]]
_ADVICE = "delete it: the next run leaves its host out"
_MOST_ROWS = 1 << 24  # of a part: half a gigabyte of log, committed at once, has 9 million batches at most
_MOST_TEXT_BYTES = 2 << 30
_MOST_BYTES = 2 << 30
MOST_TEXT = 10_000  # characters of a path or a reason; of a part bytes
MOST_PROBLEMS = 1_000  # that are told of a host's disks, or of one of its parts
_MOST_FOOTER_BYTES = 2 << 20
"""Of a part: a collector's has 10 kB for each million rows, and what is read of it takes twenty times its bytes."""
_MOST_HOST_ROWS = 1 << 27
_MOST_FEW_ROWS = 1 << 16
_MOST_ROWS_PER_BYTE = 4  # beyond: a collector takes four bytes for a batch
_BATCH_ROWS = 1 << 16
_OFFSETS = (0, 1 << 62)
# of a part; a wrapper of the legacy format that is broken does not say how many records it has
_AMOUNTS = (-1, 1 << 36)
_ERRORS = (-(1 << 36), 1 << 36)
_INSTANTS = (0, LATEST_MS)
_BOUNDS = {  # least and largest value of columns that sums, windows and the order of offsets are made of
    "partition": (0, MAX_PARTITION_NUMBER),
    "leader_epoch": (-1, (1 << 31) - 1),
    **dict.fromkeys(("base_offset", "last_offset", "first_offset", "segment_base_offset"), _OFFSETS),
    **dict.fromkeys(("batch_count", "record_count", "size_bytes", "key_count", "position"), _AMOUNTS),
    **{f"{name}_record_count": _AMOUNTS for name in ("unreadable", "aborted", "outlier", "late")},
    **dict.fromkeys(("count_error", "size_error_bytes"), _ERRORS),
    **dict.fromkeys(("window_start_ms", "minute_start_ms", "first_ms"), _INSTANTS),
}
_HEAD = ("row_kind", "topic", "topic_id", "partition")
_OF_WINDOW = (
    *(*_HEAD, "window_start_ms", "first_offset", "last_offset"),
    *("batch_count", "record_count", "max_timestamp_ms"),
)
_OF_SEGMENT = (*_HEAD, "batch_count", "record_count")
_OF_PROBLEM = (*_HEAD, "path", "reason", "severity", "first_bytes_hex")
_UNIT = ("topic", "topic_id", "partition", "window_start_ms")
_LATER = ("key_digest",)  # columns that older collectors lack
_FILLED = {  # columns that a collector always fills
    Kind.BATCHES: tuple(column.name for column in RECORD_BATCHES.columns if not column.nullable),
    Kind.KEYS: (*_UNIT, "key_id", "record_count", "size_bytes", "count_error", "size_error_bytes", "is_empty"),
    Kind.OTHERS: ("kind", *_UNIT),
    Kind.ARRIVALS: tuple(name for name in SCHEMAS[Kind.ARRIVALS].names if name not in _LATER),
}
_SOUND = {  # what else a gate, or the table of problems, asks of a row; NULL is no fault
    Kind.SUMMARIES: (pc.field("first_offset") <= pc.field("last_offset"))
    & (pc.field("position") >= -1)
    & pc.field("severity").isin(pa.array(["refused", "suspect", None]))
    & pc.match_substring_regex(pc.field("first_bytes_hex"), "^([0-9a-f]{2}){0,64}$")
    & (pc.binary_length(pc.field("path")) <= MOST_TEXT)
    & (pc.binary_length(pc.field("reason")) <= MOST_TEXT),
    Kind.BATCHES: (pc.field("base_offset") <= pc.field("last_offset"))
    & (pc.field("record_count") >= 0)
    & (pc.field("record_count") - 1 <= pc.field("last_offset") - pc.field("base_offset"))
    & (pc.field("size_bytes") > 0),
    Kind.ARRIVALS: pc.field("record_count") >= 0,
}


@dataclass(frozen=True, slots=True)
class Host:
    folder: StoredFolder
    manifest: Manifest

    @property
    def name(self) -> str:
        return self.folder.location.rpartition("/")[2]

    @property
    def broker_ids(self) -> set[int | None]:
        return {directory.broker_id for directory in self.manifest.state.directories}

    def list_gaps(self) -> Iterator[tuple[TopicPartition, str, TimeWindow]]:
        """Partition, topic id and time of records that retention took before they were collected."""
        begins = {
            log.log_name: log.segments[0].base_offset or 0
            for directory in self.manifest.state.directories
            for log in directory.partitions
            if log.segments and log.kind is DirectoryKind.LIVE
        }
        for progress in self.manifest.progress:
            lost = [progress.lost] if progress.lost else []
            if begins.get(progress.key, 0) > progress.next_offset:  # nothing was written since
                lost.append((progress.read_until_ms, self.manifest.collected_at_ms))
            if lost and min(lost)[0] < max(until_ms for _, until_ms in lost):
                gap = TimeWindow(min(lost)[0], max(until_ms for _, until_ms in lost))
                yield TopicPartition(progress.topic, progress.partition), progress.topic_id, gap

    def parts_within(self, span: TimeWindow) -> list[Part]:
        begun = (part for part in self.manifest.parts if part.start_ms < span.end_ms)
        return [part for part in begun if part.end_ms >= span.start_ms or part.start_ms < 0]


def read_hosts(landing: StoredFolder, span: TimeWindow, problems: list[Problem]) -> list[Host]:
    """Reads the hosts of a landing folder, by name; a faulty one, or one that lost parts of the span, becomes a problem."""
    hosts = []
    for name in landing.folders():
        try:
            host = _read_host(landing, name, span)
            if host is not None:
                hosts.append(host)
        except InputError as error:
            problems.append(Problem.of_error(escape_hidden(f"{landing.location.rstrip('/')}/{name}"), error))
    return hosts


def _read_host(landing: StoredFolder, name: str, span: TimeWindow) -> Host | None:
    if not name.isprintable():
        raise InputError("a name with characters that are hidden or not UTF-8: the host is left out")
    if landing.leads_out(name):
        raise InputError("a link that leads out of the landing folder: the host is left out")
    folder = StoredFolder(f"{landing.location.rstrip('/')}/{name}", landing.storage)
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    host, sizes = Host(folder, manifest), {path: size for path, _, size in folder.files("parts")}
    if lost := [part.path for part in host.parts_within(span) if sizes.get(part.path) != part.size_bytes]:
        raise InputError(name_some("the host is left out, parts are gone or have another size:", lost))
    counted = [part for part in host.parts_within(span) if part.kind != Kind.ARRIVALS.value]
    row_count, size_bytes = (sum(map(attrgetter(name), counted)) for name in ("row_count", "size_bytes"))
    if row_count > _MOST_HOST_ROWS + _MOST_ROWS_PER_BYTE * size_bytes:
        said = f"{row_count:,} rows in {size_bytes:,} bytes, far more than a collector writes"
        raise InputError(f"its parts have {said}: the host is left out")
    return host


def read_part(folder: StoredFolder, part: Part, window_ms: int, filters: pc.Expression | None = None) -> pa.Table:
    """Reads the rows of a part; `InputError` if it is gone, damaged, or not what the manifest says and a collector writes."""
    content, path = folder.read(part.path), f"{folder.location}/{part.path}"
    if content is None:
        raise InputError("in the manifest, but gone: the next run leaves its host out", path=path)
    try:
        rows = read_rows(content, part, filters)
        _check_starts(rows, window_ms)
        return rows
    except InputError as error:
        raise InputError(f"{error.reason}: {_ADVICE}", path=path) from error
    except (OSError, ValueError, KeyError, MemoryError, pa.ArrowException) as error:
        raise InputError(f"no {part.kind} of a collector ({type(error).__name__}): {_ADVICE}", path=path) from error


def list_names(keys: Collection[tuple[str | int, ...]]) -> pa.Array:
    return pa.array(["\0".join(map(str, key)) for key in keys], pa.string())


def name_partitions(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows["topic"], rows["topic_id"], rows["partition"].cast(pa.string()), "\0")


def window_starts(rows: pa.Table) -> pa.ChunkedArray:
    """When each row's window begins, epoch milliseconds; -1 where it has none."""
    if "window_start_ms" in rows.column_names:
        return pc.fill_null(rows["window_start_ms"], -1)
    return pc.divide(rows["window_start"].cast(pa.int64()), 1000)


def _check_starts(rows: pa.Table, window_ms: int) -> None:
    """Rows of windows that nobody asks for would never be judged, and hold up those that are."""
    starts = window_starts(rows)
    is_sound = pc.or_(pc.less(starts, 0), pc.equal(starts, pc.multiply(pc.divide(starts, window_ms), window_ms)))
    if not pc.all(is_sound, min_count=0).as_py():
        raise InputError(f"some of its windows do not begin as those of {window_ms // 1000} s do")


def read_offset_ranges(host: Host, span: TimeWindow, of: Collection[LogName]) -> OffsetRanges:
    """First and last offset of some partitions by window's start. Damaged parts are left out; `run` names them."""
    names, start = list_names(of), pc.field("window_start_ms")
    is_wanted = (pc.field("row_kind") == "window") & (start >= span.start_ms) & (start < span.end_ms)
    ranges: dict[LogName, dict[int, tuple[int, int]]] = defaultdict(dict)
    for part in host.parts_within(span):
        if part.kind != Kind.SUMMARIES.value:
            continue
        with suppress(InputError):
            found = read_part(host.folder, part, host.manifest.collected_as.window_ms).filter(is_wanted)
            found = found.filter(pc.is_in(name_partitions(found), names)).group_by(_UNIT)
            counted = found.aggregate([("first_offset", "min"), ("last_offset", "max")])
            for *key, start_ms, first, last in zip(*(column.to_pylist() for column in counted.columns), strict=True):
                of_log = ranges[LogName(*key)]
                known = of_log.get(start_ms, (first, last))
                of_log[start_ms] = min(known[0], first), max(known[1], last)
    return ranges


def read_rows(content: bytes, part: Part, filters: pc.Expression | None) -> pa.Table:
    """Reads the rows of a part, those of a filter only, with the columns of its kind; `InputError` if no collector wrote it."""
    kind = Kind(part.kind)
    schema = SCHEMAS[kind]
    if (footer_bytes := int.from_bytes(content[-8:-4], "little")) > _MOST_FOOTER_BYTES:
        raise InputError(f"its footer has {footer_bytes:,} bytes, far more than a collector writes")
    found = pq.read_schema(io.BytesIO(content))
    written = pa.schema([field for field in schema if field.name in found.names or field.name not in _LATER])
    if found.names != written.names or found.types != written.types:
        raise InputError("it has other columns than a collector writes")
    texts = [field.name for field in schema if field.type in {pa.string(), pa.binary()}]
    file = pq.ParquetFile(io.BytesIO(content), read_dictionary=texts)
    row_count, is_exact = file.metadata.num_rows, kind is not Kind.ARRIVALS  # of those the manifest counts the records
    if row_count > min(_MOST_ROWS, part.row_count) or (is_exact and row_count != part.row_count):
        said = f"its manifest says {part.row_count:,}, a collector writes at most {_MOST_ROWS:,}"
        raise InputError(f"it has {row_count:,} rows, {said}")
    if not is_exact and row_count > _MOST_FEW_ROWS + _MOST_ROWS_PER_BYTE * len(content):
        raise InputError(f"it has {row_count:,} rows in {len(content):,} bytes, far more than a collector writes")
    names = [field.name for field in written if not pa.types.is_list(field.type)]  # answers, which no collector has
    rows = pa.Table.from_batches(_iter_batches(file, names, filters), pa.schema(map(file.schema_arrow.field, names)))
    for name in set(schema.names) - {*names}:
        rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    rows = rows.select(schema.names).cast(schema)
    rows.validate(full=True)  # that texts are UTF-8
    _check_values(rows, kind)
    return rows


def _iter_batches(file: pq.ParquetFile, names: list[str], filters: pc.Expression | None) -> Iterator[pa.RecordBatch]:
    text_bytes = held_bytes = 0
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names, use_threads=False):
            text_bytes += sum(_count_text_bytes(column) for column in batch.columns)
            if text_bytes > _MOST_TEXT_BYTES:
                raise InputError(f"its texts take more than {_MOST_TEXT_BYTES >> 20} MiB")
            rows = batch if filters is None else batch.filter(filters)
            held_bytes += rows.nbytes
            if held_bytes > _MOST_BYTES:
                raise InputError(f"its rows take more than {_MOST_BYTES >> 20} MiB")
            yield rows


def _count_text_bytes(column: pa.Array) -> int:
    if not pa.types.is_dictionary(column.type):
        return 0
    lengths = pc.binary_length(column.dictionary.cast(pa.binary())).cast(pa.int64())
    return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0)


def _check_values(rows: pa.Table, kind: Kind) -> None:
    if kind is Kind.SUMMARIES:
        for row_kind, filled in (("window", _OF_WINDOW), ("segment", _OF_SEGMENT), ("problem", _OF_PROBLEM)):
            _check_columns(rows.filter(pc.equal(rows["row_kind"], row_kind)).select(filled))
        if not pc.all(pc.is_in(rows["row_kind"], pa.array(["window", "segment", "problem"]))).as_py():
            raise InputError("it has rows of a kind that no collector writes")
    else:
        _check_columns(rows.select([name for name in _FILLED[kind] if name in rows.column_names]))
    if kind is Kind.ARRIVALS and not are_chunks_whole(rows):
        raise InputError("some arrivals have arrays of another length than their record count")
    if kind in _SOUND and rows.filter(~_SOUND[kind]).num_rows:
        raise InputError("some rows have offsets, counts, sizes or texts that no collector writes")


def _check_columns(rows: pa.Table) -> None:
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count:
            raise InputError(f"some rows lack {name}")
        if name not in _BOUNDS or not rows.num_rows:
            continue
        least, most = _BOUNDS[name]
        found = pc.min_max(column).as_py()
        if found["min"] < least or found["max"] > most:
            raise InputError(f"some rows have {name} outside {least} to {most}")
