"""Rows in the types of a declared table: DataFrames, and rows made on the driver."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC
from math import inf
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.errors import TableMismatchError
from pipeline.model.window import TimeWindow, stretches_of
from pipeline.tables import Table
from pipeline.tables.arrow_types import ARROW_TYPES

_ALIKE = ({pa.string(), pa.large_string(), pa.string_view()}, {pa.binary(), pa.large_binary(), pa.binary_view()})
_KINDS = (pa.types.is_list, pa.types.is_map, pa.types.is_timestamp)


def arrow_schema(table: Table) -> pa.Schema:
    return pa.schema([pa.field(one.name, ARROW_TYPES[one.type], nullable=one.nullable) for one in table.columns])


def find_mismatch(rows: pa.Table, table: Table) -> str:
    """What of some rows a table does not take: NULL where it must not be, or a value outside its checks; '' if none."""
    # tasks ask this of what they write: a commit of files that are there already is checked by nobody else
    nulls = [column.name for column in table.columns if not column.nullable and rows[column.name].null_count]
    if nulls:
        return f"{table.name}: NULL in {', '.join(nulls)}, declared NOT NULL"
    for check in table.checks:
        values = rows[check.column]
        if check.one_of:
            breaking = pc.invert(pc.is_in(values, value_set=pa.array(check.one_of, values.type)))
        else:
            low, high = (-inf if check.least is None else check.least), (inf if check.most is None else check.most)
            breaking = pc.invert(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)))
        names = [*dict.fromkeys((*table.key, check.column))]
        broken = rows.filter(pc.fill_null(breaking, False)).slice(0, 1).select(names)  # noqa: FBT003 - Arrow's value
        if broken.num_rows:
            return f"{table.name}: a row breaks {check.sql}: {broken.to_pylist()[0]}"
    return ""


def fit_frame(frame: DataFrame, table: Table, *, cluster: str, run_id: str) -> DataFrame:
    """Casts a DataFrame into the declared shape, as `fit_rows`; `TableMismatchError` names wrong columns."""
    names = {*frame.columns, "cluster", "run_id"}
    if "window_start" in names:
        names.add("window_date")
    wrong = [f"unknown column {name}" for name in frame.columns if name not in table.column_names]
    wrong += [f"column {c.name} is missing" for c in table.columns if c.name not in names and not c.nullable]
    if wrong:
        raise TableMismatchError(f"the rows do not fit {table.name}: {'; '.join(wrong)}")
    given = {"cluster": F.lit(cluster), "run_id": F.lit(run_id)}
    if "window_date" not in frame.columns:
        given["window_date"] = F.to_date("window_start")
    columns = []
    for column in table.columns:
        value = given.get(column.name, F.col(column.name) if column.name in frame.columns else F.lit(None))
        columns.append(value.cast(column.type).alias(column.name))
    return frame.select(*columns)


def fit_rows(rows: pa.Table, table: Table, *, cluster: str, run_id: str) -> pa.Table:
    """Arrow rows in the declared columns and types, `cluster`, `run_id`, `window_date` filled in; `TableMismatchError` names wrong ones."""
    derived = {"cluster": pa.repeat(cluster, len(rows)), "run_id": pa.repeat(run_id, len(rows))}
    if "window_start" in rows.column_names:
        derived["window_date"] = rows["window_start"].cast(pa.date32())
    wrong = [f"unknown column {name}" for name in rows.column_names if name not in table.column_names]
    known = {*rows.column_names, *derived}
    wrong += [f"column {c.name} is missing" for c in table.columns if c.name not in known and not c.nullable]
    for field in arrow_schema(table):
        if field.name in rows.column_names and not _fits(rows.schema.field(field.name).type, field.type):
            wrong.append(f"column {field.name} is {rows.schema.field(field.name).type}, declared as {field.type}")
    if wrong:
        raise TableMismatchError(f"the rows do not fit {table.name}: {'; '.join(wrong)}")
    given = {name: rows[name] for name in rows.column_names} | derived
    columns = [given.get(field.name, pa.nulls(len(rows), field.type)) for field in arrow_schema(table)]
    return pa.table(columns, names=table.column_names).cast(arrow_schema(table))


def _fits(given: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a cast loses nothing: to the same kind of text or list, to a wider number, or of no values at all."""
    if pa.types.is_null(given) or given == declared:
        return True
    if pa.types.is_integer(declared):
        return bool(pa.types.is_integer(given) and given.bit_width <= declared.bit_width)
    if pa.types.is_floating(declared):
        return bool(pa.types.is_floating(given) or (pa.types.is_integer(given) and given.bit_width <= 32))
    alike = any({given, declared} <= kinds for kinds in _ALIKE)
    return alike or any(is_kind(given) and is_kind(declared) for is_kind in _KINDS)


def rows_of(table: Table, rows: Iterable[Mapping[str, Any]], *, run_id: str) -> pa.Table:
    """Arrow rows of a table from rows by column name (instants are datetimes), `run_id` and `window_date` filled in; nullable ones may lack."""
    starts = ((row, row.get("window_start")) for row in rows)
    dated = ((row, None if start is None else start.astimezone(UTC).date()) for row, start in starts)
    filled = [{**row, "run_id": run_id, "window_date": date} for row, date in dated]
    columns = {}
    for column in table.columns:
        values = [list(of.items()) if isinstance(of := row.get(column.name), dict) else of for row in filled]
        columns[column.name] = pa.array(values, ARROW_TYPES[column.type])
    return pa.table(columns)


CONTENTS = "contents"
"""Entry of a commit's information: cluster; spans of windows in ms, or the run that added rows; count; digest."""


def digest_rows(rows: pa.RecordBatch | pa.Table) -> int:
    """A number of 63 bits that all columns of all rows make, in any order; that of parts is the XOR of theirs."""
    return int(np.bitwise_xor.reduce(pl.DataFrame(rows).hash_rows(1).to_numpy())) >> 1


def note_contents(cluster: str, of: Iterable[TimeWindow] | str, row_count: int, digest: int) -> dict[str, str]:
    told = of if isinstance(of, str) else [(span.start_ms, span.end_ms) for span in stretches_of(of)]
    return {CONTENTS: json.dumps([cluster, told, row_count, digest])}


ROW_GROUP_BYTES = 1 << 22
"""In memory. Who reads one session decodes its row groups: from a file of 12 windows, 49 reads took 3.6 CPU-s with one
row group and take 2.1 with these. The replay of 128 sessions with 64 million records took 221 s while Spark's files had
two groups, and 39 s from these."""


def count_group_rows(row_count: int, size_bytes: int) -> int:
    return max(1, row_count * ROW_GROUP_BYTES // max(1, size_bytes))
