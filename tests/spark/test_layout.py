"""What `docs/LAYOUT.md` says of the tables, asked in plain Spark SQL of tables that delta-rs made. Oracles: Spark, the declarations."""

import pytest
from py4j.protocol import Py4JJavaError

from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.gold import BROKER_SHARE, VERDICTS

TABLES = (BROKER_SHARE, VERDICTS)
NAMES = "cluster, window_start, rule, subject, limit_value, is_above, above_count, verdict, reason"


@pytest.fixture(scope="module")
def spark(classic, tmp_path_factory):
    """A session in which the two tables have names of another database, and where they lie."""
    warehouse = tmp_path_factory.mktemp("laid_out")
    ensure_tables(warehouse, TABLES)
    classic.sql("CREATE DATABASE IF NOT EXISTS laid_out")
    for table in TABLES:
        path = table_path(warehouse, table)
        classic.sql(f"CREATE TABLE laid_out.{path.name} USING DELTA LOCATION '{path}'")
    yield classic
    classic.sql("DROP DATABASE laid_out CASCADE")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_explains_itself(spark, table):
    rows = spark.sql(f"DESCRIBE EXTENDED laid_out.{table.name.partition('.')[2]}").collect()
    said = {row.col_name: (row.data_type, row.comment) for row in rows}
    for column in table.columns:
        kind, comment = said[column.name]
        assert kind == column.type
        assert comment.startswith(column.doc)
        assert comment.endswith(f"Unit: {column.unit}." if column.unit else column.doc)
    assert said["Comment"][0] == f"One row per {table.grain}."
    for check in table.checks:
        assert f"delta.constraints.{check.name}=" in said["Table Properties"][0]


def insert(spark, verdict, above_count=0):
    values = f"'c', TIMESTAMP '2026-11-21 09:00:00', 'r', 's', 1.0, false, {above_count}, '{verdict}', ''"
    spark.sql(f"INSERT INTO laid_out.verdicts ({NAMES}) VALUES ({values})")


@pytest.mark.parametrize(("row", "constraint"), [(("sick",), "verdict_is_known"), (("ok", -1), "above_count_in_range")])
def test_spark_refuses_a_row_that_breaks_a_check(spark, row, constraint):
    with pytest.raises(Py4JJavaError, match=f"CHECK constraint {constraint}"):
        insert(spark, *row)


def test_spark_reads_what_changed(spark):
    insert(spark, "warn")
    spark.sql("UPDATE laid_out.verdicts SET verdict = 'fail'")
    changes = spark.sql("SELECT verdict, _change_type FROM table_changes('laid_out.verdicts', 0)").collect()
    assert sorted(map(tuple, changes)) == [
        ("fail", "update_postimage"),
        ("warn", "insert"),
        ("warn", "update_preimage"),
    ]
