"""From `silver.key_traffic` to what a topic's records are keyed by: heavy keys, light keys, how many count.

A key is *heavy* where it holds more than 1/P of its topic's bytes, P the topic's partitions: wherever a hash puts it, that
partition is above the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TOPIC = ("window_start", "topic", "topic_id")
HOT_KEYS_KEPT = 10
_SHOWN_DIGITS = 8
_EXACT = "decimal(38,0)"


def weigh_keys(key_traffic: DataFrame, loads: DataFrame) -> DataFrame:
    """Every key's bytes in its topic, beside the topic's: one row per window, topic and key.

    Args:
        key_traffic: `silver.key_traffic`.
        loads: From `partition_loads`, for the number of partitions.
    """
    partitions = loads.groupBy(*_TOPIC).agg(F.count_distinct("partition").alias("partition_count"))
    totals = key_traffic.groupBy(*_TOPIC).agg(F.sum("size_bytes").alias("topic_bytes")).join(partitions, [*_TOPIC])
    keys = (
        key_traffic.where("kind = 'key'")
        .groupBy(*_TOPIC, "key_id")
        .agg(
            F.sum("size_bytes").alias("size_bytes"),
            F.sum("record_count").alias("record_count"),
            F.max_by("partition", F.struct("size_bytes", -F.col("partition"))).alias("partition"),
        )
    )
    is_heavy = F.col("size_bytes") * F.col("partition_count") > F.col("topic_bytes")
    return keys.join(F.broadcast(totals), [*_TOPIC]).withColumn("is_heavy", is_heavy)


def _units(is_counted: Column) -> Column:
    """Effective number of keys, `(sum w)^2 / sum w^2`; exact sums, so that the order of rows does not matter."""
    weight = F.when(is_counted, F.col("size_bytes")).cast("decimal(19,0)")
    total = F.sum(weight).cast("double")
    return F.try_divide(total * total, F.sum((weight * weight).cast(_EXACT)).cast("double"))


def sum_topic_keys(weighed: DataFrame) -> DataFrame:
    """Keys of each topic: how many, how many count, the heaviest; one row per window and topic.

    Args:
        weighed: From `weigh_keys`.
    """
    ratio = F.col("size_bytes") / F.col("topic_bytes")
    heaviest = F.slice(F.sort_array(F.collect_list(F.when(ratio > 1e-4, ratio)), asc=False), 1, HOT_KEYS_KEPT)
    summed = weighed.groupBy(*_TOPIC).agg(
        F.count(F.lit(1)).alias("key_count"),
        F.count_if("is_heavy").alias("heavy_key_count"),
        _units(F.col("size_bytes") > 0).alias("effective_key_count"),
        _units(~F.col("is_heavy")).alias("light_unit_count"),
        F.max(ratio).alias("top_key_ratio"),
        heaviest.alias("heaviest"),
    )
    top_ten = F.aggregate("heaviest", F.lit(0.0), lambda total, value: total + value)
    return summed.withColumn("top_10_keys_ratio", top_ten).drop("heaviest")


def sum_partition_keys(key_traffic: DataFrame, weighed: DataFrame, topic_keys: DataFrame) -> DataFrame:
    """Parts of each partition's bytes that heavy and light keys hold; one row per window and topic-partition.

    Args:
        key_traffic: `silver.key_traffic`.
        weighed: From `weigh_keys`.
        topic_keys: From `sum_topic_keys`.
    """
    heavy = weighed.where("is_heavy").select(*_TOPIC, "key_id", F.lit(1).alias("is_heavy"))
    marked = key_traffic.join(F.broadcast(heavy), [*_TOPIC, "key_id"], "left")
    is_key = F.col("kind") == "key"
    heavy_bytes = F.sum(F.when(is_key & F.col("is_heavy").isNotNull(), F.col("size_bytes")).otherwise(0))
    keyed_bytes = F.sum(F.when(is_key, F.col("size_bytes")).otherwise(0))
    sums = marked.groupBy(*_TOPIC, "partition").agg(
        F.sum("size_bytes").alias("all_bytes"), heavy_bytes.alias("heavy_bytes"), keyed_bytes.alias("keyed_bytes")
    )
    return sums.join(F.broadcast(topic_keys.select(*_TOPIC, "light_unit_count")), [*_TOPIC], "left").select(
        *_TOPIC,
        "partition",
        F.try_divide("heavy_bytes", "all_bytes").alias("heavy_ratio"),
        F.try_divide(F.col("keyed_bytes") - F.col("heavy_bytes"), "all_bytes").alias("light_ratio"),
        "light_unit_count",
    )


def rank_hot_keys(weighed: DataFrame) -> DataFrame:
    """The heaviest keys of each topic: rows of `gold.hot_keys` without cluster.

    Args:
        weighed: From `weigh_keys`.
    """
    order = Window.partitionBy(*_TOPIC).orderBy(F.col("size_bytes").desc(), "key_id")
    return (
        weighed.where("size_bytes > 0")
        .withColumn("rank", F.row_number().over(order).cast("bigint"))
        .where(F.col("rank") <= HOT_KEYS_KEPT)
        .select(
            *_TOPIC,
            "rank",
            F.substring("key_id", 1, _SHOWN_DIGITS).alias("key"),
            "partition",
            "record_count",
            "size_bytes",
            (F.col("size_bytes") / F.col("topic_bytes")).alias("topic_ratio"),
            "is_heavy",
        )
    )
