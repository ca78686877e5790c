"""Tables by name, as `SELECT * FROM gold.broker_share`, in Spark's own catalog (Derby's admits one process); and a JVM that starts sooner."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pipeline.config.pipeline_config import Spark
from pipeline.config.storage import Folder
from pipeline.environment import make_spark_cache
from pipeline.errors import NothingUsableError
from pipeline.storage.durability import has_table, open_table
from pipeline.storage.java import QUIET, archive_path, find_delta_jars, find_java, write_java_shim
from pipeline.storage.locks import holding
from pipeline.storage.session import SparkErrors, create_session, stop_session
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES, Table
from pipeline.tables.gold import BROKER_SHARE

FOR_FEW_ROWS = {  # settings of a session that queries few rows
    # Making Java code of a query and compiling it takes longer than interpreting it over a million rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def register_tables(spark: SparkSession, warehouse: Folder, tables: Iterable[Table] = TABLES) -> tuple[str, ...]:
    present = _find_tables(spark, warehouse, tables)
    for table in present:
        path = table_path(warehouse, table)
        location = str(path.resolve() if isinstance(path, Path) else path).replace("`", "``").replace("'", "\\'")
        with SparkErrors():  # as of a store that it has no client for
            spark.sql(f"CREATE TABLE {table.name} USING DELTA LOCATION '{location}'")
    return tuple(table.name for table in present)


def register_copies(spark: SparkSession, warehouse: Folder, tables: Iterable[Table], folder: Path) -> None:
    """The same, with small tables copied to a folder: without Delta's log a query takes 4 of 10 CPU-s less."""
    for table in _find_tables(spark, warehouse, tables):
        stored = open_table(table_path(warehouse, table))
        schema = StructType.fromJson(json.loads(stored.schema().to_json()))
        copy = folder / table.name
        copy.mkdir()
        pq.write_table(stored.to_pyarrow_table().select(schema.names), copy / "rows.parquet")
        spark.catalog.createTable(table.name, str(copy), "parquet", schema)


def _find_tables(spark: SparkSession, warehouse: Folder, tables: Iterable[Table]) -> list[Table]:
    present = [table for table in tables if has_table(table_path(warehouse, table))]
    if not present:
        raise NothingUsableError(f"no tables in {warehouse}; `partition-health run` makes them")
    for layer in dict.fromkeys(table.layer for table in present):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
    for table in present:
        spark.sql(f"DROP TABLE IF EXISTS {table.name}")  # the name only: the data stay where they are
    return present


def make_archive() -> Path | None:
    """Makes the archive where it is missing, in about 20 CPU-s; its path, None where this Java writes none; `ConfigError` without Java or jars."""
    spark_config, cache = Spark(master="local[2]"), make_spark_cache()
    java = write_java_shim(find_java(), cache)
    path = archive_path(cache, java, find_delta_jars(cache, java, spark_config.conf))
    with holding(path.parent, "lock"), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        if path.is_file():
            return path
        draft = Path(folder) / path.name
        options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={draft} {QUIET}"}
        spark = create_session(spark_config, app_name="classes", extra_conf=options)
        table = str(table_path(Path(folder), BROKER_SHARE))
        spark.range(3).mapInArrow(lambda batches: batches, "id bigint").write.format("delta").save(table)
        spark.read.format("delta").load(table).groupBy("id").count().orderBy("id").toArrow()
        spark.range(3).groupBy("id").applyInArrow(lambda rows: rows, "id bigint").toArrow()
        for name, value in FOR_FEW_ROWS.items():
            spark.conf.set(name, value)
        register_copies(spark, Path(folder), (BROKER_SHARE,), Path(folder))
        spark.sql("SELECT id, avg(id) AS mean FROM gold.broker_share GROUP BY id ORDER BY mean DESC LIMIT 3").toArrow()
        stop_session(spark, timeout_s=300)
        if not draft.is_file():
            return None
        draft.replace(path)
    return path
