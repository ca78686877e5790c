"""Sums over the keys of segments where one process can hold them all: as `transforms.keys` has them, in Arrow.

A piece is a row per key of one topic-partition and window, with who they belong to beside it; each key is in it once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.model.window import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Piece = tuple[Mapping[str, Any], pa.RecordBatch]

_SUMS = ("record_count", "size_bytes", "count_error", "size_error_bytes")
_HASHES = ("murmur2", "crc32", "fnv1a", "murmur3", "java_string", "kafkajs_legacy")
_OF_A_KEY = pa.schema(
    [
        ("key_id", pa.string()),
        ("is_empty", pa.bool_()),
        *((name, pa.int64()) for name in _HASHES),
        ("clear_key", pa.binary()),
    ]
)
_TRAFFIC_KINDS = ("no_key", "other_keys", "unreadable")


class _Unit(NamedTuple):
    """What errors are counted over: a topic-partition in a window."""

    window_start_ms: int
    topic: str
    topic_id: str
    partition: int


def sum_key_traffic(pieces: Sequence[Piece], others: Iterable[Mapping[str, Any]], cluster: str) -> pa.Table:
    """Sums records and bytes per key, topic-partition and window: `silver.key_traffic`; see `summarise_key_traffic`.

    Args:
        pieces: Keys of segments.
        others: Rows that are not about one key.
        cluster: Cluster name in the configuration.
    """
    by_unit: dict[_Unit, list[pa.RecordBatch]] = defaultdict(list)
    for head, rows in pieces:
        by_unit[_unit_of(head)].append(rows.select(["key_id", *_SUMS]))
    of_kinds: dict[tuple[_Unit, str], list[int]] = defaultdict(lambda: [0] * len(_SUMS))
    for row in others:
        if row["kind"] in _TRAFFIC_KINDS:
            sums = of_kinds[_unit_of(row), row["kind"]]
            sums[:] = [total + row[name] for total, name in zip(sums, _SUMS, strict=True)]
    units = list(by_unit)
    exact = [0] * len(_SUMS)
    unnamed = np.array([of_kinds.get((unit, "other_keys"), exact)[2:] for unit in units], np.int64).reshape(-1, 2)
    keys = _sum_keys(list(by_unit.values()))
    place = keys["unit"].to_numpy()
    for number, name in enumerate(("count_error", "size_error_bytes")):
        errors = keys[name].to_numpy() + unnamed[place, number]
        keys = keys.set_column(keys.schema.get_field_index(name), name, pa.array(errors, pa.int64()))
    named = keys.drop_columns("unit").append_column("kind", pa.repeat("key", len(keys)))
    for name, column in _unit_columns(units).items():
        named = named.append_column(name, column.take(keys["unit"]))
    rest = pa.table(
        {
            "key_id": pa.repeat("", len(of_kinds)),
            **{name: pa.array([sums[at] for sums in of_kinds.values()], pa.int64()) for at, name in enumerate(_SUMS)},
            "kind": pa.array([kind for _, kind in of_kinds], pa.string()),
            **_unit_columns([unit for unit, _ in of_kinds]),
        }
    )
    rows = pa.concat_tables([named, rest])
    return rows.append_column("cluster", pa.repeat(cluster, len(rows)))


def list_key_hashes(pieces: Sequence[Piece], cluster: str) -> pa.Table:
    """Every key once per date: `silver.key_hashes`; see `collect_key_hashes`.

    Args:
        pieces: Keys of segments; all rows of an id hold the same hashes.
        cluster: Cluster name in the configuration.
    """
    by_day: dict[int, list[pa.Table]] = defaultdict(list)
    for head, rows in pieces:
        own = [name for name in _OF_A_KEY.names if name in rows.schema.names]
        by_day[head["window_start_ms"] // DAY_MS].append(pa.Table.from_batches([rows.select(own)]))
    dated = [pa.schema([*_OF_A_KEY, ("window_date", pa.date32())]).empty_table()]
    for day, tables in sorted(by_day.items()):
        keys = pa.concat_tables(tables, promote_options="default")
        if len(tables) > 1:
            rows = keys.select(["key_id"]).append_column("row", pa.array(np.arange(len(keys))))
            keys = keys.take(rows.group_by("key_id").aggregate([("row", "min")])["row_min"])
        date = pa.scalar(day, pa.int32()).cast(pa.date32())
        dated.append(keys.append_column("window_date", pa.repeat(date, len(keys))))
    found = pa.concat_tables(dated, promote_options="default")
    return found.append_column("cluster", pa.repeat(cluster, len(found)))


def _unit_of(row: Mapping[str, Any]) -> _Unit:
    return _Unit(*(row[name] for name in _Unit._fields))


def _unit_columns(units: Sequence[_Unit]) -> dict[str, pa.Array]:
    starts = pa.array([1000 * unit.window_start_ms for unit in units], pa.int64())
    return {
        "window_start": starts.cast(pa.timestamp("us", tz="UTC")),
        "topic": pa.array([unit.topic for unit in units], pa.string()),
        "topic_id": pa.array([unit.topic_id for unit in units], pa.string()),
        "partition": pa.array([unit.partition for unit in units], pa.int64()),
    }


def _sum_keys(units: Sequence[Sequence[pa.RecordBatch]]) -> pa.Table:
    """A row per unit, as `unit` its place, and key. A unit of one piece has each key once already."""
    sums = [pa.field(name, pa.int64()) for name in _SUMS]
    wanted = pa.schema([("key_id", pa.string()), *sums, ("unit", pa.int32())])
    once: list[pa.Table] = [wanted.empty_table()]
    several: list[pa.Table] = [wanted.empty_table()]
    for number, pieces in enumerate(units):
        keys = pa.Table.from_batches(pieces)
        numbered = keys.append_column("unit", pa.repeat(pa.scalar(number, pa.int32()), len(keys)))
        (once if len(pieces) == 1 else several).append(numbered.cast(wanted))
    summed = pa.concat_tables(several).group_by(["unit", "key_id"]).aggregate([(name, "sum") for name in _SUMS])
    renamed = summed.select(["key_id", *(f"{name}_sum" for name in _SUMS), "unit"]).rename_columns(wanted.names)
    return pa.concat_tables([*once, renamed.cast(wanted)])
