"""What Spark data sources have in common whose rows are Arrow record batches of one schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SQL_TYPES = {
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.list_(pa.int64()): "array<bigint>",
}


def format_sql_schema(schema: pa.Schema) -> str:
    """Columns as Spark SQL declares them.

    >>> format_sql_schema(pa.schema([("partition", pa.int64()), ("topic", pa.string())]))
    '`partition` bigint, `topic` string'
    """
    return ", ".join(f"`{field.name}` {_SQL_TYPES[field.type]}" for field in schema)


class ArrowSource(DataSource):
    """A data source as Spark knows it."""

    source_name: ClassVar[str]
    """For `spark.read.format`."""
    rows: ClassVar[pa.Schema]
    """What the reader yields."""
    reader_type: ClassVar[type[DataSourceReader]]
    """Is made of the options."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.read.format`."""
        return cls.source_name

    def schema(self) -> str:
        """Spark SQL types of the rows."""
        return format_sql_schema(self.rows)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader; the schema is always the whole one."""
        return self.reader_type(self.options)  # type: ignore[call-arg]  # of ours, all take options
