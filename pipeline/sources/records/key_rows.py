"""What a segment's scan for keys hands to Spark: Arrow rows without a key in clear, unless the topic is allowed to."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from pipeline.codec.records.key_ids import make_key_ids
from pipeline.partitioners.hashes import HashName, hash_key
from pipeline.partitioners.recorded import HASH_COLUMNS
from pipeline.sources.records.key_questions import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.codec.records.key_counts import KeyCounts
    from pipeline.codec.records.key_ids import KeySecret
    from pipeline.sources.records.key_questions import Question
    from pipeline.sources.records.key_scan import KeyScanSettings, WindowKeys

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int64()),
        ("window_start_ms", pa.int64()),
        ("key_id", pa.string()),
        ("record_count", pa.int64()),
        ("size_bytes", pa.int64()),
        ("count_error", pa.int64()),
        ("size_error_bytes", pa.int64()),
        ("is_empty", pa.bool_()),
        *((column, pa.int64()) for column in HASH_COLUMNS.values()),
        ("clear_key", pa.binary()),
        ("answers", pa.list_(pa.int64())),
        ("question", pa.int64()),
        ("chosen_partition", pa.int64()),
        ("key_count", pa.int64()),
        ("path", pa.string()),
        ("reason", pa.string()),
    ]
)
"""Rows of kind `key`, `no_key`, `other_keys`, `unreadable` (see `silver.key_traffic`), `cell` (sums over the keys that a
question gets one answer for) and `problem`. The errors of a `key` row are relative: less what the `other_keys` row of the
same segment and window has, which is what a key not among the rows may have had."""

UNNAMED = -2
"""In place of a partition, for records whose keys the memory limit could not name."""
_FEW_KEYS = 2_000
_KERNELS = "pipeline.partitioners.hash_kernels"


class RecordLog(Protocol):
    """Where records were read: a segment file, or a fetched partition."""

    @property
    def topic(self) -> str:
        """Topic."""

    @property
    def topic_id(self) -> str:
        """Topic id, or ""."""

    @property
    def partition(self) -> int:
        """Partition."""

    @property
    def path(self) -> str:
        """What the quarantine calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRowMaker:
    """Makes the rows of a run; picklable, with the secret in it, which shows nowhere.

    Attributes:
        settings: Of the scans.
        secret: Behind the ids; None where only counts are stored.
        questions: Asked about every key of the topics they name; `answers` has a place for each.
        clear_topics: Their keys are stored in clear.
    """

    settings: KeyScanSettings
    secret: KeySecret | None
    questions: tuple[Question, ...] = ()
    clear_topics: frozenset[str] = frozenset()

    def make_rows(self, read: RecordLog, found: WindowKeys) -> pa.RecordBatch:
        """Rows of what a scan of a segment (or of what was fetched of a partition) found in a window."""
        if self.secret is None:
            return make_cell_rows(read, found, self.questions)
        is_clear = read.topic in self.clear_topics
        return make_key_rows(read, found, self.secret, self.questions, is_clear=is_clear)


def make_key_rows(
    read: RecordLog,
    found: WindowKeys,
    secret: KeySecret,
    questions: Sequence[Question],
    *,
    is_clear: bool,
) -> pa.RecordBatch:
    """A row per key of a segment and window, with its hashes and the answers about it, and one each for the others.

    Args:
        read: The segment.
        found: What its scan found.
        secret: Behind the ids.
        questions: Asked about every key of the topics they name; `answers` has a place for each.
        is_clear: The topic's keys are stored in clear.
    """
    counts = found.counts
    key_count = len(counts.keys)
    columns: dict[str, Any] = {
        "kind": pa.repeat(pa.scalar("key"), key_count),
        "key_id": make_key_ids(secret, counts.keys, is_clear=is_clear),
        "record_count": counts.record_count,
        "size_bytes": counts.size_bytes,
        "count_error": counts.count_error - counts.max_count_error,
        "size_error_bytes": counts.size_error_bytes - counts.max_size_error_bytes,
        "is_empty": np.diff(np.frombuffer(counts.keys.buffers()[1], np.int64, key_count + 1)) == 0
        if key_count
        else np.zeros(0, np.bool_),
        **hash_columns(counts.keys),
    }
    if is_clear:
        columns["clear_key"] = counts.keys.cast(pa.binary())
    problems: list[dict[str, Any]] = []
    if key_count and any(question.topic == read.topic for question in questions):
        columns["answers"], problems = _answer(read, counts.keys, questions)
    others = [*_other_rows(found), *problems]
    return _assemble(read, found.window_start_ms, columns, key_count, others)


def make_cell_rows(read: RecordLog, found: WindowKeys, questions: Sequence[Question]) -> pa.RecordBatch:
    """Sums over keys alone: a row per question and answer, and those that are not about keys.

    Args:
        read: The segment.
        found: What its scan found.
        questions: Asked about every key of the topics they name.
    """
    counts, rows = found.counts, list(_other_rows(_unnamed(found)))
    for place, question in enumerate(questions):
        if question.topic != read.topic or not len(counts.keys):
            continue
        answers = ask(question, counts.keys)
        rows += [_problem_row(read, question, failure) for failure in answers.failures]
        rows += [{"kind": "cell", "question": place, **cell} for cell in _sum_cells(answers.partitions, counts)]
    return _assemble(read, found.window_start_ms, {}, 0, rows)


def hash_columns(keys: pa.Array) -> dict[str, pa.Array]:
    """The hashes that a replay needs, as columns of `silver.key_hashes`; NULL where a key has none.

    Args:
        keys: Large binary without nulls.
    """
    if len(keys) < _FEW_KEYS and _KERNELS not in sys.modules:  # Numba takes longer to import
        every = keys.to_pylist()
        return {
            column: pa.array([_hash_or_none(name, key) for key in every], pa.int64())
            for name, column in HASH_COLUMNS.items()
        }
    from pipeline.partitioners.columns import hash_keys  # noqa: PLC0415 - imports Numba

    hashes = {column: hash_keys(keys, name) for name, column in HASH_COLUMNS.items()}
    return {
        column: pa.array(found.values.astype(np.int64), mask=None if found.is_hashed.all() else ~found.is_hashed)
        for column, found in hashes.items()
    }


def _hash_or_none(name: HashName, key: bytes) -> int | None:
    try:
        return hash_key(name, key)
    except UnicodeDecodeError:
        return None


def _answer(read: RecordLog, keys: pa.Array, questions: Sequence[Question]) -> tuple[pa.Array, list[dict[str, Any]]]:
    answers, problems = np.full((len(keys), len(questions)), -1, np.int64), []
    for place, question in enumerate(questions):
        if question.topic == read.topic:
            said = ask(question, keys)
            answers[:, place] = said.partitions
            problems += [_problem_row(read, question, failure) for failure in said.failures]
    ends = np.arange(0, answers.size + 1, len(questions), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(answers.ravel())), problems


def _problem_row(read: RecordLog, question: Question, failure: str) -> dict[str, Any]:
    reason = (
        f"strategy {question.strategy} (version {question.version}) for {question.partition_count} partitions {failure}"
    )
    return {"kind": "problem", "path": read.path, "reason": reason}


def _unnamed(found: WindowKeys) -> WindowKeys:
    """The same with no key named: all keyed records are those of other keys, and one key may have them all."""
    counts = found.counts
    record_count = int(counts.record_count.sum()) + counts.other_record_count
    size_bytes = int(counts.size_bytes.sum()) + counts.other_size_bytes
    summed = replace(
        counts,
        other_record_count=record_count,
        other_size_bytes=size_bytes,
        max_count_error=record_count,
        max_size_error_bytes=size_bytes,
    )
    return replace(found, counts=summed)


def _sum_cells(partitions: NDArray[np.int64], counts: KeyCounts) -> Iterator[dict[str, int]]:
    chosen, places = np.unique(partitions, return_inverse=True)
    for place, partition in enumerate(chosen.tolist()):
        mine = places == place
        yield {
            "chosen_partition": partition,
            "key_count": int(np.count_nonzero(mine)),
            "record_count": int(counts.record_count[mine].sum()),
            "size_bytes": int(counts.size_bytes[mine].sum()),
        }
    if counts.other_record_count:
        yield {
            "chosen_partition": UNNAMED,
            "key_count": 0,
            "record_count": counts.other_record_count,
            "size_bytes": counts.other_size_bytes,
        }


def _other_rows(found: WindowKeys) -> Iterator[dict[str, Any]]:
    counts = found.counts
    if counts.null_record_count:
        yield _sums("no_key", counts.null_record_count, counts.null_size_bytes)
    if counts.max_count_error:
        errors = {"count_error": counts.max_count_error, "size_error_bytes": counts.max_size_error_bytes}
        yield {**_sums("other_keys", counts.other_record_count, counts.other_size_bytes), **errors}
    if found.unreadable_size_bytes:
        yield _sums("unreadable", found.unreadable_record_count, found.unreadable_size_bytes)


def _sums(kind: str, record_count: int, size_bytes: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "key_id": "",
        "record_count": record_count,
        "size_bytes": size_bytes,
        "count_error": 0,
        "size_error_bytes": 0,
    }


def _assemble(
    read: RecordLog, window_start_ms: int, columns: Mapping[str, Any], count: int, others: list[dict[str, Any]]
) -> pa.RecordBatch:
    """Columns of so many key rows, then the other rows, with what all of them share."""
    shared = {
        "topic": read.topic,
        "topic_id": read.topic_id,
        "partition": read.partition,
        "window_start_ms": window_start_ms,
    }
    keyed = [_column(field, columns, shared, count) for field in SCHEMA]
    first = pa.RecordBatch.from_arrays(keyed, schema=SCHEMA)
    if not others:
        return first
    rest = pa.RecordBatch.from_pylist([{**shared, **row} for row in others], schema=SCHEMA)
    return pa.concat_batches([first, rest])


def _column(field: pa.Field, columns: Mapping[str, Any], shared: Mapping[str, Any], count: int) -> pa.Array:
    if field.name in columns:
        return pa.array(columns[field.name], field.type)
    return pa.repeat(pa.scalar(shared.get(field.name), field.type), count)
