"""From `silver.key_traffic` to what a topic's records are keyed by: heavy keys, light keys, how many count.

A key is *heavy* where it holds more than 1/P of its topic's bytes, P the topic's partitions: wherever a hash puts it, that
partition is above the mean.
"""

import polars as pl

from pipeline.transforms.arithmetic import divide, sum_squares

_TOPIC = ("window_start", "topic", "topic_id")
HOT_KEYS_KEPT = 10
_SHOWN_DIGITS = 8
_LEAST_RATIO = 1e-4


def weigh_keys(key_traffic: pl.DataFrame, loads: pl.DataFrame) -> pl.DataFrame:
    """Every key's bytes in its topic, beside the topic's: one row per window, topic and key.

    From `silver.key_traffic`, and `shares.sum_loads` for the number of partitions.
    """
    partitions = loads.group_by(_TOPIC).agg(pl.col("partition").n_unique().cast(pl.Int64).alias("partition_count"))
    totals = key_traffic.group_by(_TOPIC).agg(pl.col("size_bytes").sum().alias("topic_bytes"))
    heaviest = pl.col("partition").sort_by("size_bytes", "partition", descending=[False, True]).last()
    keys = (
        key_traffic.filter(pl.col("kind") == "key")
        .group_by(*_TOPIC, "key_id")
        .agg(pl.col("size_bytes").sum(), pl.col("record_count").sum(), heaviest)
    )
    is_heavy = pl.col("size_bytes") * pl.col("partition_count") > pl.col("topic_bytes")
    return keys.join(totals.join(partitions, on=_TOPIC), on=_TOPIC).with_columns(
        is_heavy.alias("is_heavy"), (pl.col("size_bytes") / pl.col("topic_bytes")).alias("topic_ratio")
    )


def sum_topic_keys(weighed: pl.DataFrame) -> pl.DataFrame:
    """Keys of each topic: how many, how many count, the heaviest; one row per window and topic."""
    ratio, size = pl.col("topic_ratio"), pl.col("size_bytes")
    heaviest = ratio.filter(ratio > _LEAST_RATIO).sort(descending=True).head(HOT_KEYS_KEPT)
    return weighed.group_by(_TOPIC).agg(
        pl.len().cast(pl.Int64).alias("key_count"),
        pl.col("is_heavy").cast(pl.Int64).sum().alias("heavy_key_count"),
        _count_units(size.filter(size > 0)).alias("effective_key_count"),
        _count_units(size.filter(~pl.col("is_heavy"))).alias("light_unit_count"),
        ratio.max().alias("top_key_ratio"),
        heaviest.cum_sum().last().fill_null(0.0).alias("top_10_keys_ratio"),
    )


def _count_units(weights: pl.Expr) -> pl.Expr:
    """Effective number of keys, `(sum w)^2 / sum w^2`."""
    total = weights.sum().cast(pl.Float64)
    return divide(total * total, sum_squares(weights))


def sum_partition_keys(key_traffic: pl.DataFrame, weighed: pl.DataFrame, topic_keys: pl.DataFrame) -> pl.DataFrame:
    """Parts of each partition's bytes that heavy and light keys hold; one row per window and topic-partition."""
    heavy = weighed.filter("is_heavy").select(*_TOPIC, "key_id", "is_heavy")
    size, is_key = pl.col("size_bytes"), pl.col("kind") == "key"
    sums = (
        key_traffic.join(heavy, on=[*_TOPIC, "key_id"], how="left")
        .group_by(*_TOPIC, "partition")
        .agg(
            size.sum().alias("all_bytes"),
            size.filter(is_key & pl.col("is_heavy").is_not_null()).sum().alias("heavy_bytes"),
            size.filter(is_key).sum().alias("keyed_bytes"),
        )
    )
    light_bytes = pl.col("keyed_bytes") - pl.col("heavy_bytes")
    return sums.join(topic_keys.select(*_TOPIC, "light_unit_count"), on=_TOPIC, how="left").select(
        *_TOPIC,
        "partition",
        divide(pl.col("heavy_bytes"), pl.col("all_bytes")).alias("heavy_ratio"),
        divide(light_bytes, pl.col("all_bytes")).alias("light_ratio"),
        "light_unit_count",
    )


def rank_hot_keys(weighed: pl.DataFrame) -> pl.DataFrame:
    """The heaviest keys of each topic: rows of `gold.hot_keys` without cluster."""
    ranked = weighed.filter(pl.col("size_bytes") > 0).sort("size_bytes", "key_id", descending=[True, False])
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_TOPIC)
    return (
        ranked.with_columns(rank.alias("rank"), pl.col("key_id").str.head(_SHOWN_DIGITS).alias("key"))
        .filter(pl.col("rank") <= HOT_KEYS_KEPT)
        .select(*_TOPIC, "rank", "key", "partition", "record_count", "size_bytes", "topic_ratio", "is_heavy")
    )
