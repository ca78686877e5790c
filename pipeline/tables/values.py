"""Rows as frozen values and back: columns by field name, instants as milliseconds."""

from collections.abc import Container, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.model.window import instant_of
from pipeline.tables import Table

_Value = TypeVar("_Value")


def values_of(kind: type[_Value], rows: pa.Table) -> list[_Value]:
    """Rows as values of a dataclass, by field name, the instant in `since` or `since_at` as `since_ms`; others are defaults."""
    every, held = (one.name for one in fields(cast("type[Any]", kind))), rows.column_names
    names = [name for name in every if find_column(name, held) in held]
    return [kind(**dict(zip(names, values, strict=True))) for values in tuples_of(rows, *names)]


def tuples_of(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Some columns, row by row: by their names, or an instant as milliseconds by a field's name; `KeyError` if one lacks."""
    columns = []
    for name in names:
        held = find_column(name, rows.column_names)
        column = rows[held]
        if held != name:  # rounded, as by `milliseconds_of`: a date of the year 9999 has no exact microseconds
            column = pc.divide(pc.add(column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 500), 1000)
        columns.append(column.to_pylist())
    return zip(*columns, strict=True)


def find_column(name: str, columns: Container[str]) -> str:
    """The column of a field. For `x_ms` it is the instant `x` or `x_at`. The field's own name if no column fits."""
    bare = name.removesuffix("_ms")
    return next((one for one in (name, bare, f"{bare}_at") if one in columns), name)


def row_of(value: Any, table: Table) -> dict[str, Any]:  # noqa: ANN401 - a dictionary, or a dataclass of any kind
    """A value as a row, from which `values_of` makes it again."""
    if not is_dataclass(value):
        return dict(value)
    row = {one.name: getattr(value, one.name) for one in fields(value)}
    for name in row.keys() - set(table.column_names):
        bare, held = name.removesuffix("_ms"), row.pop(name)
        if bare != name:
            row[bare if bare in table.column_names else f"{bare}_at"] = None if held is None else instant_of(held)
    return row
