"""From partitions, replicas, keys and consumer groups to `gold.topic_health`."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.measures.bootstrap import derive_window_seed
from pipeline.measures.topic_health import TopicCounts, TopicMeasures, measure_topic
from pipeline.tables.health import TOPIC_HEALTH
from pipeline.transforms.measured import measured_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TOPIC = ("window_start", "topic", "topic_id")
_SUMS = ("under_replicated_count", "below_min_isr_count", "lagging_replica_count", "leaderless_count")
_STATE = (*_SUMS, "reassigning_count", "not_preferred_count")
_INPUTS = ("cluster_name", "batch_unit_count", "light_unit_count", "broker_count")
_MEASURES = measured_schema(TOPIC_HEALTH, TopicMeasures)


def measure_topic_health(
    *,
    partition_health: DataFrame,
    loads: DataFrame,
    topic_keys: DataFrame,
    cluster_state: DataFrame,
    brokers: DataFrame,
    consumer_groups: DataFrame,
    cluster: str,
) -> DataFrame:
    """Rows of `gold.topic_health` without cluster.

    Args:
        partition_health: From `measure_partition_health`.
        loads: From `with_keys`.
        topic_keys: From `sum_topic_keys`.
        cluster_state: `bronze.cluster_state` of the same windows.
        brokers: `bronze.brokers` of the same windows.
        consumer_groups: `bronze.consumer_groups` of the same windows.
        cluster: Name of the cluster: with the window and the topic it seeds what is drawn.
    """
    topics = _sum_partitions(partition_health, loads)
    able = brokers.where("NOT coalesce(is_fenced, false)").groupBy("window_start")
    joined = (
        topics.join(topic_keys, [*_TOPIC], "left")
        .join(count_replicas(cluster_state), [*_TOPIC], "left")
        .join(_count_consumers(consumer_groups), ["window_start", "topic"], "left")
        .join(able.agg(F.count_distinct("broker_id").alias("broker_count")), ["window_start"], "left")
        .fillna(0, ["broker_count", "consumer_count", "keyed_ratio", *_STATE])
        .withColumn("cluster_name", F.lit(cluster))
    )
    return _measure(joined)


def _sum_partitions(partition_health: DataFrame, loads: DataFrame) -> DataFrame:
    sums = partition_health.groupBy(*_TOPIC).agg(
        F.max("topic_partition_count").alias("partition_count"),
        *(F.sum(name).alias(name) for name in ("size_bytes", "record_count", "batch_count")),
        F.max("topic_peak_to_mean").alias("peak_to_mean"),
        F.max("topic_cv").alias("cv"),
        F.max("topic_effective_partitions").alias("effective_partitions"),
    )
    squared = F.sum(F.col("batch_bytes_squared").cast("decimal(38,0)")).cast("double")
    keyed_bytes = F.round((F.col("heavy_ratio") + F.col("light_ratio")) * F.col("size_bytes")).cast("bigint")
    of_loads = loads.groupBy(*_TOPIC).agg(squared.alias("squared"), F.sum(keyed_bytes).alias("keyed_bytes"))
    total = F.col("size_bytes").cast("double")
    return (
        sums.join(of_loads, [*_TOPIC])
        .withColumn("batch_unit_count", F.try_divide(total * total, F.col("squared")))
        .withColumn("keyed_ratio", F.try_divide(F.col("keyed_bytes"), F.col("size_bytes")))
        .drop("squared", "keyed_bytes")
    )


def count_replicas(cluster_state: DataFrame) -> DataFrame:
    """Partitions whose replicas are not as they should be, by window and topic.

    A follower is out of the in-sync set when it was behind for longer than `replica.lag.time.max.ms`, or is gone: that
    is Kafka's own rule, so the set tells what the brokers measured. Where the source names no set nothing is counted.

    Args:
        cluster_state: `bronze.cluster_state`.
    """

    def is_any(name: Column) -> Column:
        return F.max(F.coalesce(name.cast("int"), F.lit(0)))

    least = F.coalesce(F.try_element_at("configs", F.lit("min.insync.replicas")).try_cast("int"), F.lit(1))
    leads_otherwise = F.col("is_leader") & ~F.col("is_preferred_leader")
    partitions = cluster_state.groupBy(*_TOPIC, "partition").agg(
        F.count(F.lit(1)).alias("replicas"),
        F.count_if("is_in_sync").alias("in_sync"),
        F.count("is_in_sync").alias("told"),
        F.max(least).alias("least"),
        F.min("leader_id").alias("leader_id"),
        is_any(F.col("reassignment").isNotNull()).alias("reassigning"),
        is_any(leads_otherwise).alias("not_preferred"),
        F.try_divide(F.max("size_bytes"), F.min("size_bytes")).alias("spread"),
    )
    told = F.col("told") > 0
    counted: dict[str, Column] = {
        # replicas that a running reassignment adds are behind by nature
        "under_replicated_count": told & (F.col("in_sync") < F.col("replicas")) & (F.col("reassigning") == 0),
        "below_min_isr_count": told & (F.col("in_sync") < F.col("least")),
        "leaderless_count": F.col("leader_id") < 0,
        "reassigning_count": F.col("reassigning") > 0,
        "not_preferred_count": F.col("not_preferred") > 0,
    }
    lagging = F.sum(F.when(told, F.col("replicas") - F.col("in_sync")).otherwise(0)).alias("lagging_replica_count")
    return partitions.groupBy(*_TOPIC).agg(
        *(F.count_if(condition).alias(name) for name, condition in counted.items()),
        lagging,
        F.max("spread").alias("replica_size_spread"),
    )


def _count_consumers(consumer_groups: DataFrame) -> DataFrame:
    """Members of each topic's largest group; NULL members do not count."""
    members = consumer_groups.groupBy("window_start", "topic", "group_id").agg(
        F.count_distinct("member_id").alias("members")
    )
    return members.groupBy("window_start", "topic").agg(F.max("members").alias("consumer_count"))


def _measure(joined: DataFrame) -> DataFrame:
    schema = StructType([*joined.schema.fields, *from_arrow_schema(_MEASURES).fields])
    counts = [field.name for field in fields(TopicCounts) if field.name != "seed"]

    def lift(window: pa.Table) -> pa.Table:
        starts = [start.as_py() for start in window["window_start"]]
        rows = window.select(["cluster_name", "topic", *counts]).to_pylist()
        measured = [_measure_row(row, round(start.timestamp() * 1000)) for row, start in zip(rows, starts, strict=True)]
        for field in _MEASURES:
            window = window.append_column(field.name, pa.array([row[field.name] for row in measured], field.type))
        return window

    return joined.groupBy("window_start").applyInArrow(lift, schema).drop(*_INPUTS)


def _measure_row(row: dict[str, Any], window_start_ms: int) -> dict[str, Any]:
    seed = derive_window_seed(row.pop("cluster_name"), window_start_ms, row.pop("topic"))
    return asdict(measure_topic(TopicCounts(**row, seed=seed)))
