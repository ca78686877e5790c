"""Rows about keys on their way to the tasks that place them: cut into buckets of keys, as arrays.

Row by row, Spark takes half a minute to move what takes a few seconds as columns; so a task that has read a file sends all
columns of a bucket's rows as one value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.partitioners.columns import view_offsets
from pipeline.replay.ordering_kernels import group_by_bucket, parse_key_ids
from pipeline.replay.plan import AnswerColumn, HashColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pipeline.replay.plan import ReplayPlan

    ReadFile = Callable[[str, Sequence[str]], Iterable[pa.RecordBatch]]

TRAFFIC, HASHES, ANSWERS, UNNAMED = "traffic", "hashes", "answers", "unnamed"
"""What a packed row holds: rows of `silver.key_traffic` about a key, of `key_hashes`, of `key_answers`; other traffic."""
UNNAMED_KINDS = ("no_key", "other_keys", "unreadable")
AMOUNTS = ("record_count", "size_bytes", "count_error", "size_error_bytes")
KEY_ID_DIGITS = 32
TEXT_COLUMN = "java_string"
"""It has no value for keys that are not UTF-8."""
_NO_BUCKET = -1
_TRAFFIC_COLUMNS = ("window_start", "topic", "topic_id", "partition", "kind", "key_id", *AMOUNTS)
_Columns = dict[str, "NDArray[Any]"]


def pack_file(
    file: tuple[str, str], plan: ReplayPlan, read_file: ReadFile
) -> Iterator[tuple[int, tuple[str, _Columns]]]:
    """Reads a file and cuts its rows into buckets.

    Args:
        file: Its content and path.
        plan: What is to be replayed: rows of other windows and topics are left out.
        read_file: Gives a file's rows, some columns of them.

    Yields:
        Bucket, -1 for traffic that has no key; what the rows are, and their columns.
    """
    content, path = file
    for bucket, kind, columns in _CONTENTS[content](plan, path, read_file):
        yield bucket, (kind, {name: _narrow(values) for name, values in columns.items()})


def join_columns(pieces: Sequence[_Columns]) -> _Columns:
    """The columns of several pieces, one after another, in no certain order of rows."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in (pieces[0] if pieces else ())}


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Unsigned, in as few bytes as the largest value takes; only the shape of the packed bytes depends on it."""
    if values.dtype != np.int64 or not len(values) or values.min() < 0:
        return values
    return values.astype(np.min_scalar_type(int(values.max())))


def _read_traffic(plan: ReplayPlan, path: str, read_file: ReadFile) -> Iterator[tuple[int, str, _Columns]]:
    numbers = {(planned.topic, planned.topic_id): number for number, planned in enumerate(plan.topics)}
    starts = np.array(plan.window_starts_ms, dtype=np.int64)
    for batch in read_file(path, _TRAFFIC_COLUMNS):
        start_ms = batch["window_start"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
        window = np.minimum(np.searchsorted(starts, start_ms), len(starts) - 1)
        topic = _number_topics(batch, numbers)
        kind = _as_dictionary(batch["kind"])
        is_wanted = (starts[window] == start_ms) & (topic >= 0)
        columns = {"topic": topic, "window": window.astype(np.int64)}
        columns |= {name: batch[name].to_numpy() for name in ("partition", *AMOUNTS)}
        kinds = kind.dictionary.to_pylist()
        kind_numbers = kind.indices.to_numpy()
        for number, name in enumerate(kinds):
            rows = np.flatnonzero(is_wanted & (kind_numbers == number))
            if name == "key":
                yield from _in_buckets(plan, TRAFFIC, batch["key_id"], rows, columns)
            elif len(rows):
                kept = {column: values[rows] for column, values in columns.items()}
                kept["kind"] = np.full(len(rows), UNNAMED_KINDS.index(name), dtype=np.int64)
                yield _NO_BUCKET, UNNAMED, kept


def _number_topics(batch: pa.RecordBatch, numbers: dict[tuple[str, str], int]) -> NDArray[np.int64]:
    """By row, the number of the topic in the plan, or -1."""
    topic, topic_id = _as_dictionary(batch["topic"]), _as_dictionary(batch["topic_id"])
    names, ids = topic.dictionary.to_pylist(), topic_id.dictionary.to_pylist()
    table: NDArray[np.int64] = np.array(
        [[numbers.get((name, id_), -1) for id_ in ids] for name in names], dtype=np.int64
    )
    found: NDArray[np.int64] = table[topic.indices.to_numpy(), topic_id.indices.to_numpy()]
    return found


def _as_dictionary(texts: pa.Array) -> pa.DictionaryArray:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _read_hashes(plan: ReplayPlan, path: str, read_file: ReadFile) -> Iterator[tuple[int, str, _Columns]]:
    names = sorted({TEXT_COLUMN, *(column.name for column in plan.columns if isinstance(column, HashColumn))})
    for batch in read_file(path, ("key_id", "is_empty", *names)):
        columns: _Columns = {"is_empty": batch["is_empty"].to_numpy(zero_copy_only=False)}
        for name in names:
            columns[name] = pc.fill_null(batch[name], -1).to_numpy(zero_copy_only=False)
        yield from _in_buckets(plan, HASHES, batch["key_id"], np.arange(len(batch)), columns)


def _read_answers(plan: ReplayPlan, path: str, read_file: ReadFile) -> Iterator[tuple[int, str, _Columns]]:
    asked = [(number, column) for number, column in enumerate(plan.columns) if isinstance(column, AnswerColumn)]
    for batch in read_file(path, ("key_id", "strategy", "strategy_version", "partition_count", "chosen_partition")):
        for number, column in asked:
            is_asked = pc.and_(
                pc.and_(
                    pc.equal(batch["strategy"], column.strategy),
                    pc.equal(batch["strategy_version"], column.version),
                ),
                pc.equal(batch["partition_count"], column.partition_count),
            )
            rows = np.flatnonzero(is_asked.to_numpy(zero_copy_only=False))
            columns = {
                "column": np.full(len(batch), number, dtype=np.int64),
                "answer": batch["chosen_partition"].to_numpy(),
            }
            yield from _in_buckets(plan, ANSWERS, batch["key_id"], rows, columns)


_CONTENTS = {TRAFFIC: _read_traffic, HASHES: _read_hashes, ANSWERS: _read_answers}


def _in_buckets(
    plan: ReplayPlan, content: str, key_ids: pa.Array, rows: NDArray[np.int64], columns: _Columns
) -> Iterator[tuple[int, str, _Columns]]:
    """The rows of each bucket, with the two words of their ids."""
    if not len(rows):
        return
    ids = key_ids.cast(pa.string())  # merged files give views, of which Arrow cannot take some
    ids = ids if len(rows) == len(ids) else ids.take(pa.array(rows))
    high, low = (np.empty(len(rows), dtype=np.uint64) for _ in range(2))
    parse_key_ids(_view_text(ids), len(rows), high, low)
    starts = np.zeros(plan.bucket_count + 1, dtype=np.int64)
    order = np.empty(len(rows), dtype=np.int64)
    group_by_bucket(high, len(rows), plan.bucket_count, starts, order)
    places = rows[order]
    sent = {"high": high[order], "low": low[order], **{name: values[places] for name, values in columns.items()}}
    for bucket in range(plan.bucket_count):
        first, last = starts[bucket], starts[bucket + 1]
        if last > first:
            yield bucket, content, {name: values[first:last] for name, values in sent.items()}


def _view_text(key_ids: pa.Array) -> NDArray[np.uint8]:
    """The digits of all ids, end to end."""
    ids = key_ids.cast(pa.string())
    offsets = view_offsets(ids)
    if not (np.diff(offsets) == KEY_ID_DIGITS).all():
        raise InputError(f"a key id that has not {KEY_ID_DIGITS} hex digits among {ids.slice(0, 3).to_pylist()}")
    return np.frombuffer(ids.buffers()[2], dtype=np.uint8)[int(offsets[0]) :]
