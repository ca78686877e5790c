"""A frame made to fit its declared table, before Delta sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.errors import TableMismatchError

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from pipeline.tables import Column, Table

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Declared type <- types that are cast into it without losing anything; `void` is an untyped NULL.
_WIDENED = {
    "bigint": (*_INTEGERS, "void"),
    "int": ("tinyint", "smallint", "int", "void"),
    "double": ("float", "tinyint", "smallint", "int", "void"),
}


def fit_frame(frame: DataFrame, table: Table, *, run_id: str) -> DataFrame:
    """Brings a frame into the declared shape: the declared columns, in order, in their types.

    `run_id` is filled in, and `window_date` is derived from `window_start`; nullable columns that the frame lacks
    become NULL. Integers are widened (Delta refuses to do it), nothing else is converted.

    Args:
        frame: The rows.
        table: The declaration.
        run_id: Run that writes them.

    Raises:
        TableMismatchError: naming every column that is missing, unknown, or of a type that does not fit.
    """
    derived: dict[str, SparkColumn] = {"run_id": F.lit(run_id)}
    if "window_start" in frame.columns:
        derived["window_date"] = F.to_date("window_start")
    types = dict(frame.dtypes)
    wrong = [f"unknown column {name}" for name in frame.columns if name not in table.column_names]
    columns = []
    for column in table.columns:
        if column.name in derived:
            columns.append(derived[column.name].alias(column.name))
        elif column.name not in types:
            if not column.nullable:
                wrong.append(f"column {column.name} is missing")
            columns.append(F.lit(None).cast(column.type).alias(column.name))
        elif not _fits(types[column.name], column):
            wrong.append(f"column {column.name} is {types[column.name]}, declared as {column.type}")
        else:
            columns.append(F.col(column.name).cast(column.type).alias(column.name))
    if wrong:
        raise TableMismatchError(f"the frame does not fit {table.name}: {'; '.join(wrong)}")
    return frame.select(*columns)


def _fits(found: str, column: Column) -> bool:
    return found == column.type or found in _WIDENED.get(column.type, ("void",))
