"""Tables by name: `SELECT * FROM gold.broker_share` in a session.

References:
    Spark's in-memory catalog. An embedded Derby metastore admits one process at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.config.storage import Folder
from pipeline.errors import NothingUsableError
from pipeline.storage.durability import has_table
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES, Table


def register_tables(spark: SparkSession, warehouse: Folder, tables: Iterable[Table] = TABLES) -> tuple[str, ...]:
    """Gives every declared table of the warehouse its name in this session; an earlier warehouse's names move over.

    Returns:
        Names that were registered: the tables that exist.

    Raises:
        NothingUsableError: if the warehouse holds none of them.
    """
    found = [table for table in tables if has_table(table_path(warehouse, table))]
    if not found:
        raise NothingUsableError(f"no tables in {warehouse}; `partition-health run` makes them")
    for layer in dict.fromkeys(table.layer for table in found):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
    for table in found:
        path = table_path(warehouse, table)
        location = str(path.resolve() if isinstance(path, Path) else path).replace("`", "``").replace("'", "\\'")
        spark.sql(f"DROP TABLE IF EXISTS {table.name}")  # the name only: the data stay where they are
        spark.sql(f"CREATE TABLE {table.name} USING DELTA LOCATION '{location}'")
    return tuple(table.name for table in found)
