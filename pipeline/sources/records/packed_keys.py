"""Rows about single keys on their way through Spark: packed, many of them into one value.

A key's row has a dozen fields. Spark takes each apart and puts it together again wherever it goes, which costs more than
reading the records did; of a packed value it moves the bytes. `pack_rows` is for workers that scan, `unpack_rows` for
whoever needs the columns: the driver, if there are few keys, else workers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from pipeline.sources.records.key_rows import SCHEMA
from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

KEY, KEYS = "key", "keys"
"""Kind of a row about one key, and of a row that holds many of them packed; `key_count` says how many."""
PIECE_KEYS = 200_000
"""Keys packed into one value at most: some 25 MB."""

_SHARED = ("kind", "topic", "topic_id", "partition", "window_start_ms")
_OF_OTHERS = (
    *("key_id", "record_count", "size_bytes", "count_error", "size_error_bytes"),
    *("question", "chosen_partition", "key_count", "path", "reason"),
)
PACKED_SCHEMA = pa.schema([*(SCHEMA.field(name) for name in (*_SHARED, *_OF_OTHERS)), ("packed", pa.binary())])
"""Rows of `kafka_key_counts`: those of `SCHEMA` that are not about one key, as they are, and rows of kind `keys`."""


def pack_rows(rows: pa.RecordBatch, piece_keys: int = PIECE_KEYS) -> Iterator[pa.RecordBatch]:
    """Packs what is about single keys.

    Args:
        rows: Of `SCHEMA`, all of one topic-partition and window.
        piece_keys: Keys packed into one value at most.

    Yields:
        Rows of `PACKED_SCHEMA`, no more than one of kind `keys` at a time.
    """
    is_key = pc.equal(rows["kind"], KEY)
    keys = rows.filter(is_key)
    own = [name for name in SCHEMA.names if name not in _SHARED and keys[name].null_count < keys.num_rows]
    for start in range(0, keys.num_rows, piece_keys):
        piece = keys.slice(start, piece_keys)
        first = piece.slice(0, 1).select(list(_SHARED)).to_pylist()[0]
        row = {**first, "kind": KEYS, "key_count": piece.num_rows, "packed": _write(piece.select(own))}
        yield pa.RecordBatch.from_pylist([row], schema=PACKED_SCHEMA)
    others = rows.filter(pc.invert(is_key))
    if others.num_rows:
        known = [others[name] for name in PACKED_SCHEMA.names[:-1]]
        yield pa.RecordBatch.from_arrays([*known, pa.nulls(others.num_rows, pa.binary())], schema=PACKED_SCHEMA)


def unpack_rows(packed: Iterable[pa.RecordBatch], columns: Sequence[str] = SCHEMA.names) -> Iterator[pa.RecordBatch]:
    """Undoes `pack_rows`.

    Args:
        packed: Rows of `PACKED_SCHEMA`.
        columns: Which of `SCHEMA` are wanted.

    Yields:
        Rows with these columns.
    """
    wanted = pa.schema([SCHEMA.field(name) for name in columns])
    for batch in packed:
        is_packed = pc.equal(batch["kind"], KEYS)
        for head, keys in iter_pieces(batch.filter(is_packed)):
            shared = {**{name: head[name] for name in _SHARED}, "kind": KEY}
            yield pa.RecordBatch.from_arrays([_column(keys, field, shared) for field in wanted], schema=wanted)
        others = batch.filter(pc.invert(is_packed))
        if others.num_rows:
            yield pa.RecordBatch.from_arrays([_column(others, field, {}) for field in wanted], schema=wanted)


def iter_pieces(packed: pa.Table | pa.RecordBatch) -> Iterator[tuple[dict[str, Any], pa.RecordBatch]]:
    """What is packed: whose keys they are, and a row per key with the columns of which there is any value.

    Args:
        packed: Rows of kind `keys`.
    """
    for head in packed.to_pylist():
        with pa.ipc.open_stream(head.pop("packed")) as reader:
            yield head, reader.read_next_batch()


def count_rows(packed: DataFrame) -> int:
    """How many rows there are, each packed key being one.

    Args:
        packed: Rows of `PACKED_SCHEMA`.
    """
    rows_in = F.when(F.col("kind") == KEYS, F.col("key_count")).otherwise(1)
    return int(packed.agg(F.coalesce(F.sum(rows_in), F.lit(0))).collect()[0][0])


def unpack_frame(packed: DataFrame) -> DataFrame:
    """Rows of `SCHEMA` again.

    Args:
        packed: Rows of `PACKED_SCHEMA`.
    """
    return packed.mapInArrow(unpack_rows, format_sql_schema(SCHEMA))


def _write(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _column(rows: pa.RecordBatch, field: pa.Field, shared: dict[str, Any]) -> pa.Array:
    if field.name in shared:
        return pa.repeat(pa.scalar(shared[field.name], field.type), rows.num_rows)
    return rows[field.name] if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
