"""Key rows of a scan, in Arrow; without a key in clear, unless the topic allows it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import Flaw
from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.arrivals import join_runs
from pipeline.codec.records.key_ids import KeySecret, make_key_ids
from pipeline.codec.records.key_table import KeyCounter, KeyCounts, take_keys
from pipeline.codec.records.record_scan import RecordScan
from pipeline.partitioners.hash_kernels import hash_keys
from pipeline.partitioners.registry import HASH_COLUMNS
from pipeline.sources.records.scan_settings import Question, ScanSettings, ask
from pipeline.sources.records.segment_scan import SENSELESS, RecordLog, split_by_window
from pipeline.tables.arrow_types import integers, strings


class WindowKeys:
    def __init__(self, window_start_ms: int, limit: int) -> None:
        self.window_start_ms, self.counter = window_start_ms, KeyCounter(limit)
        self.unreadable_record_count = 0  # of batches that cannot be read, as their headers have it
        self.unreadable_size_bytes = 0  # of those batches, on disk

    def add(self, scan: RecordScan) -> None:
        flaw = scan.headers.rows["flaw"]
        self.counter.add(scan, flaw != Flaw.NONE)
        unreadable = scan.headers.rows[~np.isin(flaw, (Flaw.NONE, *SENSELESS))]
        # a broken wrapper of the legacy format does not say how many
        self.unreadable_record_count += int(np.maximum(unreadable["record_count"], 0).sum(dtype=np.int64))
        self.unreadable_size_bytes += int(unreadable["size_bytes"].sum(dtype=np.int64))


class WindowKeyCounter:
    """Counts keys of chunks by window (`starts`: of exactly their batches), at most `limit` at once, let go after its last batch."""

    def __init__(self, starts: NDArray[np.int64], limit: int) -> None:
        self._starts, self._limit = starts, limit
        names, last_from_end = np.unique(starts[::-1], return_index=True)
        self._last_batch = dict(zip(names.tolist(), (len(starts) - 1 - last_from_end).tolist(), strict=True))
        self._windows: dict[int, WindowKeys] = {}
        self._done = 0

    def add(self, scan: RecordScan) -> Iterator[WindowKeys]:
        mine = self._starts[self._done : self._done + len(scan.headers)]
        self._done += len(scan.headers)
        for start_ms, own in _split(scan, mine):
            if start_ms not in self._windows:
                self._windows[start_ms] = WindowKeys(start_ms, self._limit)
            self._windows[start_ms].add(own)
            if self._last_batch[start_ms] < self._done:  # at once: a client may choose another window for each batch
                yield self._windows.pop(start_ms)

    def finish(self) -> Iterable[WindowKeys]:
        return self._windows.values()  # the file ended early


def _split(scan: RecordScan, starts: NDArray[np.int64]) -> Iterator[tuple[int, RecordScan]]:
    """The records of each window; all are copied once at most, however many windows a client chooses."""
    counts = np.bincount(scan.batch_index, minlength=len(starts))
    firsts = np.cumsum(counts) - counts
    for own in split_by_window(starts, starts != NO_WINDOW):
        part = scan
        if len(own) < len(starts):
            places = join_runs(firsts, counts, own)
            rows, keys = scan.rows[places], take_keys(scan.keys, places)
            rows["batch_index"] = np.repeat(np.arange(len(own)), counts[own])
            part = RecordScan(
                headers=replace(scan.headers, rows=scan.headers.rows[own]),
                rows=rows,
                key_offsets=np.append(0, np.cumsum(np.maximum(rows["key_length"], 0), dtype=np.int64)),
                key_data=np.frombuffer(keys.buffers()[2] or b"", np.uint8),
            )
        yield int(starts[own[0]]), part


_UNIT = (*strings("topic", "topic_id"), *integers("partition", "window_start_ms"))
_SUMS = integers("record_count", "size_bytes", "count_error", "size_error_bytes")
_MAYBE = (
    *integers(*HASH_COLUMNS.values()),
    pa.field("clear_key", pa.binary()),
    pa.field("answers", pa.list_(pa.int64())),
)
KEY_SCHEMA = pa.schema([*_UNIT, *strings("key_id"), *_SUMS, pa.field("is_empty", pa.bool_()), *_MAYBE])
"""A row per key of a log and window. Errors are relative: less what the `other_keys` row of the same log and window has,
which is what a key not among the rows may have had."""
_ANSWERED = (*integers("question", "chosen_partition", "key_count"), *strings("path", "reason"))
OTHER_SCHEMA = pa.schema([*strings("kind"), *_UNIT, *_SUMS, *_ANSWERED])
"""Rows that are not about one key: of kind `no_key`, `other_keys`, `unreadable` (see `silver.key_traffic`), `cell` (sums over
the keys that a question gets one answer for) and `problem`."""
UNNAMED = -2  # in place of a partition, for records whose keys the memory limit could not name


def make_key_rows(log: RecordLog, counted: WindowKeys, settings: ScanSettings) -> tuple[pa.Table, pa.Table]:
    """Rows of what a log gave a window: of `KEY_SCHEMA`, none where only counts are stored, and of `OTHER_SCHEMA`."""
    unit = {name: getattr(log, name) for name in ("topic", "topic_id", "partition")}
    unit |= {"window_start_ms": counted.window_start_ms}
    counts = counted.counter.result()
    if settings.secret is None:
        columns, others = dict[str, Any](), list[dict[str, Any]]()
        for index, question in enumerate(settings.questions):  # a row per question and answer
            if question.topic != log.topic or not len(counts.keys):
                continue
            answers = ask(question, counts.keys)
            others += [_problem_row(log, question, failure) for failure in answers.failures]
            others += [{"kind": "cell", "question": index, **cell} for cell in _sum_cells(answers.partitions, counts)]
        counts = _unnamed(counts)
    else:
        columns, others = _key_columns(log, counts, settings.secret, settings)
    others = [*_other_rows(counted, counts), *others]
    count = len(counts.keys) if columns else 0
    keys = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.repeat(pa.scalar(unit.get(field.name), field.type), count)
        for field in KEY_SCHEMA
    ]
    rest = pa.Table.from_pylist([{**unit, **row} for row in others], schema=OTHER_SCHEMA)
    return pa.table(keys, schema=KEY_SCHEMA), rest


def _key_columns(
    log: RecordLog, counts: KeyCounts, secret: KeySecret, settings: ScanSettings
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    is_clear, problems = log.topic in settings.clear_topics, list[dict[str, Any]]()
    ends = np.frombuffer(counts.keys.buffers()[1], np.int64, len(counts.keys) + 1) if len(counts.keys) else np.zeros(1)
    columns: dict[str, Any] = {
        "key_id": make_key_ids(secret, counts.keys.to_pylist(), is_clear=is_clear),
        "record_count": counts.record_count,
        "size_bytes": counts.size_bytes,
        "count_error": counts.count_error - counts.max_count_error,
        "size_error_bytes": counts.size_error_bytes - counts.max_size_error_bytes,
        "is_empty": np.diff(ends) == 0,
        **make_hash_columns(counts.keys),
    }
    if is_clear:
        columns["clear_key"] = counts.keys.cast(pa.binary())
    if len(counts.keys) and any(question.topic == log.topic for question in settings.questions):
        columns["answers"], problems = _answer(log, counts.keys, settings.questions)
    return columns, problems


def make_hash_columns(keys: pa.Array) -> dict[str, pa.Array]:
    """Hashes of keys (large binary without nulls), as columns of `silver.key_hashes`; NULL where a key has none."""
    hashes = {column: hash_keys(keys, name) for name, column in HASH_COLUMNS.items()}
    return {
        column: pa.array(values.values.astype(np.int64), mask=None if values.is_hashed.all() else ~values.is_hashed)
        for column, values in hashes.items()
    }


def _answer(log: RecordLog, keys: pa.Array, questions: tuple[Question, ...]) -> tuple[pa.Array, list[dict[str, Any]]]:
    answers, problems = np.full((len(keys), len(questions)), -1, np.int64), []
    for index, question in enumerate(questions):
        if question.topic == log.topic:
            answered = ask(question, keys)
            answers[:, index] = answered.partitions
            problems += [_problem_row(log, question, failure) for failure in answered.failures]
    ends = np.arange(0, answers.size + 1, len(questions), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(answers.ravel())), problems


def _problem_row(log: RecordLog, question: Question, failure: str) -> dict[str, Any]:
    asked = f"strategy {question.strategy} (version {question.version}) for {question.partition_count} partitions"
    return {"kind": "problem", "path": log.path, "reason": f"{asked} {failure}"}


def _unnamed(counts: KeyCounts) -> KeyCounts:
    """The same with no key named: all keyed records are those of other keys, and one key may have them all."""
    record_count = int(counts.record_count.sum()) + counts.other_record_count
    size_bytes = int(counts.size_bytes.sum()) + counts.other_size_bytes
    counts = counts._replace(other_record_count=record_count, other_size_bytes=size_bytes)
    return counts._replace(max_count_error=record_count, max_size_error_bytes=size_bytes)


def _sum_cells(partitions: NDArray[np.int64], counts: KeyCounts) -> Iterator[dict[str, int]]:
    names = ("chosen_partition", "key_count", "record_count", "size_bytes")
    for partition in np.unique(partitions).tolist():
        mine = partitions == partition
        sums = np.count_nonzero(mine), counts.record_count[mine].sum(), counts.size_bytes[mine].sum()
        yield dict(zip(names, (partition, *map(int, sums)), strict=True))
    if counts.other_record_count:
        others = (UNNAMED, 0, counts.other_record_count, counts.other_size_bytes)
        yield dict(zip(names, others, strict=True))


def _other_rows(keys: WindowKeys, counts: KeyCounts) -> Iterator[dict[str, Any]]:
    names = ("kind", "record_count", "size_bytes", "count_error", "size_error_bytes")
    errors = counts.max_count_error, counts.max_size_error_bytes
    rows = (
        ("no_key", counts.null_record_count, counts.null_size_bytes, 0, 0),
        ("other_keys", counts.other_record_count, counts.other_size_bytes, *errors),
        ("unreadable", keys.unreadable_record_count, keys.unreadable_size_bytes, 0, 0),
    )
    is_there = (counts.null_record_count, counts.max_count_error, keys.unreadable_size_bytes)
    return (dict(zip(names, row, strict=True)) for row in compress(rows, is_there))
