"""The measures of windows over their loads: rows of `gold.broker_share` and `gold.partition_health`; what loads are keyed by.

A key is *heavy* where it holds more than 1/P of its topic's bytes, P the topic's partitions: wherever a hash puts it,
that partition is above the mean.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.measures.broker_share import measure_broker_columns, measure_partition_columns
from pipeline.measures.window_loads import WindowLoads
from pipeline.tables import Table
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.transforms.arithmetic import divide, sum_squares

_PARTITION = ("window_start", "topic", "topic_id", "partition")
_PLACE = (*_PARTITION, "leader_id")
_LOADS = ("size_bytes", "record_count", "batch_count", "batch_bytes_squared")
_TOPIC = ("window_start", "topic", "topic_id")
HOT_KEYS_KEPT = 10
_SHOWN_DIGITS = 8
_LEAST_RATIO = 1e-4


def sum_loads(traffic: pl.DataFrame, cluster_state: pl.DataFrame) -> pl.DataFrame:
    """A row per window, partition and leader, at its end that of `bronze.cluster_state`: its load, be it zero."""
    carried = traffic.select(*_PLACE, *_LOADS, pl.lit(False).alias("is_leader"))  # noqa: FBT003  (a literal column)
    nothing = [pl.lit(0, traffic.schema[name]).alias(name) for name in _LOADS]
    led = cluster_state.filter("is_leader").select(*_PLACE, *nothing, "is_leader")
    sums = pl.concat([carried, led]).group_by(_PLACE)
    return sums.agg(*(pl.col(name).sum() for name in _LOADS), pl.col("is_leader").any())


def measure_broker_shares(
    loads: pl.DataFrame,
    slots: pl.DataFrame,
    brokers: Iterable[int],
    capacities: Mapping[int, float],
    start: datetime,
    *,
    stood: Mapping[int, float] | None = None,
) -> pa.Table:
    """Rows of `gold.broker_share` of a window, without cluster, from `with_keys`; see `measure_broker_columns`."""
    of_slots = slots.select("slot", "broker_id", "size_bytes", "squared").sort("slot", "broker_id").rows()
    measured = measure_broker_columns(loads_of(loads.to_arrow()), capacities, {*brokers, *capacities}, of_slots, stood)
    return _table_of(measured, BROKER_SHARE, start)


def measure_partition_health(loads: pl.DataFrame, start: datetime) -> pa.Table:
    return _table_of(measure_partition_columns(loads_of(loads.to_arrow())), PARTITION_HEALTH, start)


def loads_of(window: pa.Table) -> WindowLoads:
    """A window's rows of `with_keys`, in any order, as the measures take them; rows without a topic are left out."""
    order = [(name, "ascending") for name in ("topic", "topic_id", "partition", "leader_id")]
    rows = window.filter(pc.is_valid(window["topic"])).sort_by(order)

    def column(name: str, kind: type[Any]) -> Any:  # noqa: ANN401  # an array of that kind
        return np.ascontiguousarray(rows[name].to_numpy(), dtype=kind)  # NULL becomes NaN

    names, ids = (rows[name].combine_chunks().dictionary_encode() for name in ("topic", "topic_id"))
    name_codes, id_codes = names.indices.to_numpy(), ids.indices.to_numpy()
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (np.diff(name_codes) != 0) | (np.diff(id_codes) != 0)
    first = np.flatnonzero(is_new)
    return WindowLoads(
        topics=tuple(
            (names.dictionary[name].as_py(), ids.dictionary[topic_id].as_py())
            for name, topic_id in zip(name_codes[first].tolist(), id_codes[first].tolist(), strict=True)
        ),
        topic=np.cumsum(is_new) - 1,
        **{name: column(name, np.int64) for name in ("partition", "leader_id", *_LOADS[:3])},
        **{name: column(name, np.float64) for name in ("batch_bytes_squared", "heavy_ratio", "light_ratio")},
        is_leader=column("is_leader", np.bool_),
        light_unit_count=column("light_unit_count", np.float64)[first],
    )


def _table_of(measured: Mapping[str, Any], table: Table, start: datetime) -> pa.Table:
    columns = {
        name: pa.array(values, ARROW_TYPES[table.column(name).type], from_pandas=True)
        for name, values in measured.items()
    }
    starts = pa.repeat(pa.scalar(start, ARROW_TYPES["timestamp"]), len(next(iter(columns.values()))))
    return pa.table({"window_start": starts, **columns})


def weigh_keys(key_traffic: pl.DataFrame, loads: pl.DataFrame) -> pl.DataFrame:
    """A row per window, topic and key of `silver.key_traffic`: its bytes, also over the topic's (`sum_loads`)."""
    partitions = loads.group_by(_TOPIC).agg(pl.col("partition").n_unique().cast(pl.Int64).alias("partition_count"))
    totals = key_traffic.group_by(_TOPIC).agg(pl.col("size_bytes").sum().alias("topic_bytes"))
    heaviest = pl.col("partition").sort_by("size_bytes", "partition", descending=[False, True]).last()
    by_key = key_traffic.filter(pl.col("kind") == "key").group_by(*_TOPIC, "key_id")
    keys = by_key.agg(pl.col("size_bytes", "record_count").sum(), heaviest)
    is_heavy = pl.col("size_bytes") * pl.col("partition_count") > pl.col("topic_bytes")
    return keys.join(totals.join(partitions, on=_TOPIC), on=_TOPIC).with_columns(
        is_heavy.alias("is_heavy"), (pl.col("size_bytes") / pl.col("topic_bytes")).alias("topic_ratio")
    )


def sum_topic_keys(weighed: pl.DataFrame) -> pl.DataFrame:
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
    total = weights.sum().cast(pl.Float64)
    return divide(total * total, sum_squares(weights))  # the effective number of keys


def with_keys(
    loads: pl.DataFrame, key_traffic: pl.DataFrame, weighed: pl.DataFrame, topic_keys: pl.DataFrame
) -> pl.DataFrame:
    """Adds the parts of each load's partition that heavy and light keys hold, and that has none; NULL where that is not known."""
    heavy = weighed.filter("is_heavy").select(*_TOPIC, "key_id", "is_heavy")
    size, is_key = pl.col("size_bytes"), pl.col("kind") == "key"
    sums = (
        key_traffic.join(heavy, on=[*_TOPIC, "key_id"], how="left")
        .group_by(*_TOPIC, "partition")
        .agg(
            size.sum().alias("all_bytes"),
            size.filter(is_key & pl.col("is_heavy").is_not_null()).sum().alias("heavy_bytes"),
            size.filter(is_key).sum().alias("keyed_bytes"),
            size.filter(pl.col("kind") == "no_key").sum().alias("keyless_bytes"),
        )
    )
    light_bytes = pl.col("keyed_bytes") - pl.col("heavy_bytes")
    partitions = sums.join(topic_keys.select(*_TOPIC, "light_unit_count"), on=_TOPIC, how="left").select(
        *_TOPIC,
        "partition",
        divide(pl.col("heavy_bytes"), pl.col("all_bytes")).alias("heavy_ratio"),
        divide(light_bytes, pl.col("all_bytes")).alias("light_ratio"),
        divide(pl.col("keyless_bytes"), pl.col("all_bytes")).alias("keyless_ratio"),
        "light_unit_count",
    )
    return loads.join(partitions, on=_PARTITION, how="left")


def rank_hot_keys(weighed: pl.DataFrame) -> pl.DataFrame:
    ranked = weighed.filter(pl.col("size_bytes") > 0).sort("size_bytes", "key_id", descending=[True, False])
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_TOPIC)
    return (
        ranked.with_columns(rank.alias("rank"), pl.col("key_id").str.head(_SHOWN_DIGITS).alias("key"))
        .filter(pl.col("rank") <= HOT_KEYS_KEPT)
        .select(*_TOPIC, "rank", "key", "partition", "record_count", "size_bytes", "topic_ratio", "is_heavy")
    )
