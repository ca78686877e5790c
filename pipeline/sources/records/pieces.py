"""Pieces of tables that scans yield, and rows that sum a log up: of kind `segment`, `window`, `problem`, and `shortfall` (not read whole).

Imports no Spark: the collector runs without it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.codec.log.batch_headers import sum_headers
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow
from pipeline.sources.metrics.sample_rows import SAMPLE_SCHEMA
from pipeline.sources.records.batch_rows import BATCH_SCHEMA
from pipeline.sources.records.key_rows import KEY_SCHEMA, OTHER_SCHEMA
from pipeline.sources.records.segment_scan import RecordLog, ScannedSegment, split_by_window
from pipeline.tables.arrow_types import integers, strings

LATE_PART = 10  # late batches are named where they are one part of so many of a log's bytes
OF_PAST_WINDOWS = (
    "a tenth or more of the bytes bear times a window before those of earlier batches: they count in past windows; where "
    "clients' clocks are not trusted, set message.timestamp.type=LogAppendTime"
)
_NUMBERS = (
    *("partition", "first_offset", "last_offset", "min_timestamp_ms", "max_timestamp_ms", "batch_count"),
    *("record_count", "control_batch_count", "missing_offset_count", "producer_id_count", "crc_error_count"),
)
SUMMARY_SCHEMA = pa.schema(
    [
        *(*strings("row_kind", "path", "topic", "topic_id"), *integers(*_NUMBERS), *strings("magic", "codecs")),
        *integers("window_start_ms", "leader_epoch", "position"),
        *strings("reason", "severity", "first_bytes_hex"),
    ]
)


def summarise_scan(log: RecordLog, scanned: ScannedSegment, window_ms: int, *, is_file: bool) -> pa.Table:
    rows = [problem_row(log, problem) for problem in (*scanned.problems, *_find_late(log, scanned, window_ms))]
    rows += [segment_row(log, scanned)] if is_file else []
    rows += _window_rows(log, scanned, window_ms)
    return pa.Table.from_pylist(rows, schema=SUMMARY_SCHEMA)


def _find_late(log: RecordLog, scanned: ScannedSegment, window_ms: int) -> list[Problem]:
    size_bytes = scanned.headers.rows["size_bytes"]
    is_late = scanned.is_committed & scanned.is_countable & (scanned.times.lateness_ms > window_ms)
    late_bytes, all_bytes = int(size_bytes[is_late].sum(dtype=np.int64)), int(size_bytes.sum(dtype=np.int64))
    if not late_bytes or late_bytes * LATE_PART < all_bytes:
        return []
    return [Problem(path=log.path, position=None, reason=OF_PAST_WINDOWS, severity="suspect")]


def _head(log: RecordLog, row_kind: str) -> dict[str, Any]:
    return {"row_kind": row_kind, **{name: getattr(log, name) for name in ("path", "topic", "topic_id", "partition")}}


def problem_row(log: RecordLog, problem: Problem) -> dict[str, Any]:
    fields = {name: getattr(problem, name) for name in ("position", "reason", "severity")}
    return {**_head(log, "problem"), **fields, "first_bytes_hex": problem.first_bytes.hex()}


def segment_row(log: RecordLog, scanned: ScannedSegment) -> dict[str, Any]:
    sums, rows = sum_headers(scanned.headers), scanned.headers.rows
    names = ("min_timestamp_ms", "max_timestamp_ms", "record_count", "control_batch_count", "crc_error_count")
    return {
        **_head(log, "segment"),
        **{name: getattr(sums, name) for name in names},
        "first_offset": min(rows["base_offset"].tolist(), default=None),
        "last_offset": max(rows["last_offset"].tolist(), default=None),
        "batch_count": len(rows),
        "missing_offset_count": int(scanned.missing_offset_count.sum()),
        "producer_id_count": len(sums.producer_ids),
        "magic": ",".join(str(magic) for magic in sums.magics),
        "codecs": ",".join(sums.codecs),
    }


def _window_rows(log: RecordLog, scanned: ScannedSegment, window_ms: int) -> Iterator[dict[str, Any]]:
    headers, event_time_ms = scanned.headers, scanned.times.event_time_ms
    counted = scanned.is_committed & scanned.is_countable & (event_time_ms >= 0)
    starts, is_control = event_time_ms - event_time_ms % window_ms, headers.is_control
    for own in split_by_window(starts, counted):
        chosen = headers.rows[own]
        yield {
            **_head(log, "window"),
            "window_start_ms": int(starts[own[0]]),
            "leader_epoch": int(chosen["partition_leader_epoch"].max()),
            "first_offset": int(chosen["base_offset"].min()),
            "last_offset": int(chosen["last_offset"].max()),
            "batch_count": len(chosen),
            "record_count": int(chosen["record_count"][~is_control[own]].sum(dtype=np.int64)),
            "max_timestamp_ms": int(event_time_ms[own].max()),
        }


def shortfall_row(log: RecordLog, reason: str, sent: TimeWindow | None = None) -> dict[str, Any]:
    times = {} if sent is None else {"min_timestamp_ms": sent.start_ms, "max_timestamp_ms": sent.end_ms}
    return {**_head(log, "shortfall"), "reason": reason, **times}


PIECE_ROWS = 200_000  # rows (of arrivals: records) that a task gathers before it hands them on: some 25 MB
_LOOSE_TABLES = 256
"""Tables of a kind that a task holds before it joins them: one of a row takes 10 to 20 KiB, joined 0.3."""


class Kind(Enum):
    SUMMARIES = "summaries"
    BATCHES = "batches"
    KEYS = "keys"
    OTHERS = "others"
    ARRIVALS = "arrivals"
    SAMPLES = "samples"


_IN_ORDER = (SUMMARY_SCHEMA, BATCH_SCHEMA, KEY_SCHEMA, OTHER_SCHEMA, CHUNK_SCHEMA, SAMPLE_SCHEMA)
SCHEMAS = dict(zip(Kind, _IN_ORDER, strict=True))


class Piece(NamedTuple):
    kind: Kind
    rows: pa.Table

    @property
    def row_count(self) -> int:
        if self.kind is Kind.ARRIVALS:
            return int(self.rows["record_count"].to_numpy().sum())
        return int(self.rows.num_rows)


class ReadTask(Protocol):
    def run(self) -> Iterator[Piece]: ...


def sum_up(rows: Iterable[dict[str, Any]]) -> Piece:
    return Piece(Kind.SUMMARIES, pa.Table.from_pylist(list(rows), schema=SUMMARY_SCHEMA))


def join_pieces(pieces: Iterable[Piece], piece_rows: int = PIECE_ROWS) -> Iterator[Piece]:
    """Joins pieces of a kind; order within a kind stays, pieces without rows go."""
    joined: dict[Kind, list[pa.Table]] = defaultdict(list)
    loose: dict[Kind, list[pa.Table]] = defaultdict(list)
    counts: Counter[Kind] = Counter()
    for piece in pieces:
        if not piece.rows.num_rows:
            continue
        kind = piece.kind
        loose[kind].append(piece.rows)
        counts[kind] += piece.row_count
        if counts[kind] >= piece_rows:
            yield Piece(kind, _join([*joined.pop(kind, ()), *loose.pop(kind)]))
            counts[kind] = 0
        elif len(loose[kind]) == _LOOSE_TABLES:
            joined[kind].append(_join(loose.pop(kind)))
    for kind in counts:
        if tables := [*joined[kind], *loose[kind]]:
            yield Piece(kind, _join(tables))


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()
