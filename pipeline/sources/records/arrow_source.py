"""What Spark data sources have in common whose rows are Arrow record batches of one schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader

from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


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
