"""What a gate compares of a run's windows: data records as batches have them, and as keys and arrivals do.

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.tables import Table

_RECORD_SOURCES = ("log_directories", "live_cluster")


def sum_keys(spark: SparkSession, run: RunContext) -> DataFrame:
    """Data records of each topic-partition and window as its batches have them and as its keys do.

    Only windows that this run read keys of: not those that are older than the tables of keys, nor runs told to read none.

    Args:
        spark: Session.
        run: Its windows.
    """
    from pyspark.sql import functions as F

    windows = _windows_with(spark, run, KEY_TRAFFIC)
    grain = ("window_start", "topic", "topic_id", "partition")
    unreadable = F.when(F.col("kind") == "unreadable", F.col("record_count")).otherwise(0)
    by_key = rows_of_windows(spark, run, KEY_TRAFFIC, run.windows).groupBy(*grain)
    keyed = by_key.agg(F.sum("record_count").alias("keyed"), F.sum(unreadable).alias("unreadable"))
    batches = (
        rows_of_windows(spark, run, PARTITION_TRAFFIC, run.windows)
        .groupBy(*grain)
        .agg(F.sum("record_count").alias("stored"))
    )
    return (
        batches.join(keyed, list(grain), "full")
        .join(F.broadcast(windows), "window_start")
        .select(
            *grain,
            *(
                F.coalesce(found, F.lit(0)).alias(name)
                for name, found in (
                    ("record_count", "stored"),
                    ("key_record_count", "keyed"),
                    ("unreadable_record_count", "unreadable"),
                )
            ),
        )
    )


def sum_arrivals(spark: SparkSession, run: RunContext) -> DataFrame:
    """Data records of each topic and window as its batches have them and as its arrivals do, where all were read.

    Args:
        spark: Session.
        run: Its windows.
    """
    from pyspark.sql import functions as F

    windows = _windows_with(spark, run, ARRIVALS)
    grain = ("window_start", "topic", "topic_id")
    lengths = [F.size(name) for name in ("gap_ms", "body_bytes", "partition", "key_index")]
    uneven = sum((F.when(length == F.col("record_count"), 0).otherwise(1) for length in lengths), F.lit(0))
    arrived = (
        rows_of_windows(spark, run, ARRIVALS, run.windows)
        .where("count_kind = 'exact'")
        .groupBy(*grain)
        .agg(
            F.sum(F.col("record_count") + F.col("unreadable_record_count")).alias("arrived"),
            F.sum("outlier_record_count").alias("outliers"),
            F.sum(uneven).alias("uneven"),
        )
    )
    is_exact = F.coalesce("count_kind", F.lit("exact")) == "exact"
    batches = (
        rows_of_windows(spark, run, PARTITION_TRAFFIC, run.windows)
        .groupBy(*grain)
        .agg(F.sum("record_count").alias("stored"), F.bool_and(is_exact).alias("is_exact"))
    )
    return (
        batches.join(arrived, list(grain), "full")
        .where(F.coalesce("is_exact", F.lit(True)))  # noqa: FBT003  (a literal column)
        .join(F.broadcast(windows), "window_start")
        .select(
            *grain,
            *(
                F.coalesce(found, F.lit(0)).alias(name)
                for name, found in (
                    ("record_count", "stored"),
                    ("arrival_record_count", "arrived"),
                    ("outlier_record_count", "outliers"),
                    ("uneven_row_count", "uneven"),
                )
            ),
        )
    )


def _windows_with(spark: SparkSession, run: RunContext, table: Table) -> DataFrame:
    """Starts of the run's windows whose rows of a table this run vouches for."""
    from pyspark.sql import functions as F

    vouched = F.element_at("table_versions", F.lit(table.name)).isNotNull() & ~F.col("source_expired")
    windows = rows_of_windows(spark, run, WINDOW_STATUS, run.windows).where(
        vouched & F.col("source").isin(*_RECORD_SOURCES)
    )
    return windows.select("window_start").distinct()


def rows_of_windows(spark: SparkSession, run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> DataFrame:
    """Rows of a table of the run's cluster, in some windows.

    Args:
        spark: Session.
        run: Names the cluster.
        table: The declaration.
        windows: Which.
    """
    from pipeline.storage.delta import load
    from pipeline.storage.predicates import format_predicate

    return load(spark, run.warehouse, table).where(format_predicate(table, run.cluster_name, windows))
