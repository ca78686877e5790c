"""Small frames made on the driver, in the types of a declared table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.tables import Table

_ARROW_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
}
_FILLED_LATER = ("run_id", "window_date")


def frame_of(spark: SparkSession, table: Table, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Makes a frame of a declared table's columns from rows on the driver.

    Args:
        spark: Session.
        table: The declaration; `run_id` and `window_date` are left to the writer.
        rows: By column name; instants are aware datetimes, maps are dicts. A nullable column may be left out.
    """
    columns = [column for column in table.columns if column.name not in _FILLED_LATER]
    held = list(rows)
    arrays = [pa.array([_plain(row.get(column.name)) for row in held], _ARROW_TYPES[column.type]) for column in columns]
    return spark.createDataFrame(pa.table(arrays, names=[column.name for column in columns]))


def _plain(value: Any) -> Any:  # noqa: ANN401  (whatever the column holds)
    return list(value.items()) if isinstance(value, dict) else value
