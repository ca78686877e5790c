"""Measures trusted windows: shares of brokers, partitions, topics, hot keys, latency."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.window import TimeWindow
from pipeline.runs import JobReport
from pipeline.storage.at_once import write_at_once
from pipeline.storage.delta import replace_windows
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH, VERDICTS
from pipeline.tables.health import HOT_KEYS, TOPIC_HEALTH
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES
from pipeline.transforms.hot_keys import rank_hot_keys, sum_partition_keys, sum_topic_keys, weigh_keys
from pipeline.transforms.latency import HISTORY_WINDOWS, compare_latency
from pipeline.transforms.shares import (
    measure_broker_shares,
    measure_partition_health,
    partition_loads,
    sum_slots,
    with_keys,
)
from pipeline.transforms.topic_health import measure_topic_health

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.runs import RunContext
    from pipeline.tables import Table


def pending_windows(run: RunContext) -> tuple[TimeWindow, ...]:
    """Windows to score."""
    return run.pending_windows(VERDICTS)


def run(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> JobReport:
    """Replaces the rows of these windows in the tables of health."""
    if not windows:
        return JobReport(notes=("no trusted window to score",))

    def load(table: Table) -> DataFrame:
        return run.frame(spark, table, windows)

    state, brokers, key_traffic = load(CLUSTER_STATE), load(BROKERS), load(KEY_TRAFFIC)
    plain = partition_loads(load(PARTITION_TRAFFIC), state).cache()
    if key_traffic.isEmpty():
        key_traffic = key_traffic.limit(0)  # Spark's optimiser then drops all that would be done with it
    weighed = weigh_keys(key_traffic, plain).cache()
    topic_keys = sum_topic_keys(weighed).cache()
    partition_keys = sum_partition_keys(key_traffic, weighed, topic_keys)
    loads = with_keys(plain, partition_keys).cache()
    partitions = measure_partition_health(loads).cache()
    topics = measure_topic_health(
        partition_health=partitions,
        loads=loads,
        topic_keys=topic_keys,
        cluster_state=state,
        brokers=brokers,
        consumer_groups=load(CONSUMER_GROUPS),
        cluster=run.cluster_name,
    )
    slots = sum_slots(load(RECORD_BATCHES), run.window_ms)
    shares = measure_broker_shares(loads, slots, brokers, run.cluster.capacity)
    partition_count = partitions.count()  # fills what the tables have in common
    versions = write_at_once(
        [
            partial(_replace, run, table, frame, windows, row_count)
            for table, frame, row_count in (
                (PARTITION_HEALTH, partitions, partition_count),
                (BROKER_SHARE, shares, None),
                (TOPIC_HEALTH, topics, None),
                (HOT_KEYS, rank_hot_keys(weighed), None),
                (LATENCY, _latency(spark, run, windows), None),
            )
        ]
    )
    for cached in (partitions, loads, topic_keys, weighed, plain):
        cached.unpersist()
    return JobReport(table_versions=versions)


def _latency(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> DataFrame:
    reach_ms = HISTORY_WINDOWS * run.window_ms
    reach = TimeWindow(windows[0].start_ms - reach_ms, windows[-1].end_ms)
    compared = compare_latency(run.frame(spark, PRODUCER_NODES, (reach,)))
    return compared.where(F.unix_millis("window_start").isin([window.start_ms for window in windows]))


def _replace(
    run: RunContext, table: Table, frame: DataFrame, windows: tuple[TimeWindow, ...], row_count: int | None
) -> dict[str, int]:
    rows = frame.withColumn("cluster", F.lit(run.cluster_name))
    version = replace_windows(
        rows,
        run.warehouse,
        table,
        cluster=run.cluster_name,
        windows=windows,
        run_id=run.run_id,
        row_count=row_count,
    )
    return {table.name: version}
