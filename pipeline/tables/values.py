"""Rows as frozen values and back: columns by field name, instants as milliseconds."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.model.window import instant_of, milliseconds_of
from pipeline.tables import Table

_Value = TypeVar("_Value")


def value_of(kind: type[_Value], row: Mapping[str, Any]) -> _Value:
    """A row as a value of a dataclass: columns by field name, the instant in `since` or `since_at` as `since_ms`.

    Fields without a column keep their defaults.
    """
    values = {}
    for field in _list_fields(kind, row):
        name = find_column(field, row)
        values[field] = row[name] if name == field or row[name] is None else milliseconds_of(row[name])
    return kind(**values)


def values_of(kind: type[_Value], rows: pa.Table) -> list[_Value]:
    """The same of all rows of a table, column by column: a tenth of the time where they are many."""
    names = _list_fields(kind, rows.column_names)
    return [kind(**dict(zip(names, values, strict=True))) for values in tuples_of(rows, *names)]


def tuples_of(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Some columns, row by row: by their names, or an instant as milliseconds by the name that a field would have.

    Raises:
        KeyError: if the table lacks one of them.
    """
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


def _list_fields(kind: type, columns: Container[str]) -> list[str]:
    return [one.name for one in fields(kind) if find_column(one.name, columns) in columns]


def row_of(value: Any, table: Table) -> dict[str, Any]:  # noqa: ANN401 - a dictionary, or a dataclass of any kind
    """The inverse of `value_of`."""
    if not is_dataclass(value):
        return dict(value)
    row = {one.name: getattr(value, one.name) for one in fields(value)}
    for name in row.keys() - set(table.column_names):
        bare, held = name.removesuffix("_ms"), row.pop(name)
        if bare != name:
            row[bare if bare in table.column_names else f"{bare}_at"] = None if held is None else instant_of(held)
    return row
