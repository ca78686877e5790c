"""Rows made on the driver, in the types of a declared table."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.errors import TableMismatchError
from pipeline.tables.arrow_types import ARROW_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipeline.tables import Column, Table


def arrow_schema(table: Table) -> pa.Schema:
    """Arrow types of a declared table's columns."""
    return pa.schema(
        [pa.field(column.name, ARROW_TYPES[column.type], nullable=column.nullable) for column in table.columns]
    )


def fit_rows(rows: pa.Table, table: Table, *, run_id: str) -> pa.Table:
    """Brings Arrow rows into the declared shape, as `fit_frame` does with a Spark frame.

    Args:
        rows: The rows; nullable columns may be left out.
        table: The declaration.
        run_id: Run that writes them.

    Raises:
        TableMismatchError: naming the columns that are missing or unknown.
    """
    derived = {"run_id": pa.repeat(run_id, len(rows))}
    if "window_start" in rows.column_names:
        derived["window_date"] = rows["window_start"].cast(pa.date32())
    wrong = [f"unknown column {name}" for name in rows.column_names if name not in table.column_names]
    known = {*rows.column_names, *derived}
    wrong += [f"column {c.name} is missing" for c in table.columns if c.name not in known and not c.nullable]
    if wrong:
        raise TableMismatchError(f"the rows do not fit {table.name}: {'; '.join(wrong)}")
    found = {name: rows[name] for name in rows.column_names} | derived
    columns = [found.get(field.name, pa.nulls(len(rows), field.type)) for field in arrow_schema(table)]
    return pa.table(columns, names=table.column_names).cast(arrow_schema(table))


def rows_of(table: Table, rows: Iterable[Mapping[str, Any]], *, run_id: str) -> pa.Table:
    """Makes Arrow rows of a declared table, `run_id` and `window_date` filled in.

    Args:
        table: The declaration.
        rows: By column name; instants are aware datetimes, maps are dicts. A nullable column may be left out.
        run_id: Run that writes them.
    """
    filled = [_filled(row, run_id) for row in rows]
    return pa.table({column.name: _array(column, filled) for column in table.columns})


def _filled(row: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    start = row.get("window_start")
    return {**row, "run_id": run_id, "window_date": None if start is None else start.astimezone(UTC).date()}


def _array(column: Column, rows: list[Any]) -> pa.Array:
    return pa.array([_plain(row.get(column.name)) for row in rows], ARROW_TYPES[column.type])


def _plain(value: Any) -> Any:  # noqa: ANN401  (whatever the column holds)
    return list(value.items()) if isinstance(value, dict) else value
