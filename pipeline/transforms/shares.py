"""The measures of a window lifted over Spark: partition loads to `gold.broker_share` and `gold.partition_health`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from pipeline.measures.broker_share import BrokerMeasures, measure_broker_columns
from pipeline.measures.dispersion import slot_ms
from pipeline.measures.partition_health import PartitionMeasures, measure_partition_columns
from pipeline.measures.window_loads import WindowLoads
from pipeline.tables.arrow_types import format_sql_schema
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.transforms.measured import measured_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

_PARTITION = ("window_start", "topic", "topic_id", "partition")
_LOADS = ("size_bytes", "record_count", "batch_count", "batch_bytes_squared")
_KEYS = ("heavy_ratio", "light_ratio", "light_unit_count")
_BROKERS = measured_schema(BROKER_SHARE, BrokerMeasures)
_PARTITIONS = measured_schema(PARTITION_HEALTH, PartitionMeasures)


def partition_loads(traffic: DataFrame, cluster_state: DataFrame) -> DataFrame:
    """One row per window, partition and leader: what it carried, zero where a led partition had no traffic.

    Args:
        traffic: `silver.partition_traffic`.
        cluster_state: `bronze.cluster_state` of the same windows; who leads at the window's end.
    """
    place = (*_PARTITION, "leader_id")
    types = {name: traffic.schema[name].dataType for name in _LOADS}
    carried = traffic.select(*place, *_LOADS, F.lit(col=False).alias("is_leader"))
    nothing = (F.lit(0).cast(kind).alias(name) for name, kind in types.items())
    led = cluster_state.where("is_leader").select(*place, *nothing, F.lit(col=True).alias("is_leader"))
    # one aggregation of both: a full join would sort them
    return (
        carried.unionByName(led)
        .groupBy(*place)
        .agg(
            *(F.coalesce(F.sum(name), F.lit(0)).cast(kind).alias(name) for name, kind in types.items()),
            F.bool_or("is_leader").alias("is_leader"),
        )
    )


def with_keys(loads: DataFrame, partition_keys: DataFrame) -> DataFrame:
    """Adds what the records of each load's partition are keyed by; NULL where that is not known.

    Args:
        loads: From `partition_loads`.
        partition_keys: From `pipeline.transforms.hot_keys.sum_partition_keys`.
    """
    return loads.join(partition_keys.select(*_PARTITION, *_KEYS), list(_PARTITION), "left")


def sum_slots(batches: DataFrame, window_ms: int) -> DataFrame:
    """What each broker carried in every slot of a window: for the peak, and for how shares scatter.

    Args:
        batches: `silver.record_batches`.
        window_ms: Length of a window.
    """
    length = slot_ms(window_ms)
    into_window = F.unix_millis("max_timestamp") - F.unix_millis("window_start")
    size = F.col("size_bytes")
    return (
        batches.where("leader_id >= 0 AND max_timestamp IS NOT NULL AND NOT is_time_outlier")
        .withColumn("slot", (into_window / length).cast("bigint"))
        .groupBy("window_start", "slot", F.col("leader_id").alias("broker_id"))
        .agg(
            F.sum(size).alias("size_bytes"), F.sum((size * size).cast("decimal(38,0)")).cast("double").alias("squared")
        )
    )


def measure_broker_shares(
    loads: DataFrame, slots: DataFrame, brokers: DataFrame, capacities: Mapping[int, float]
) -> DataFrame:
    """Rows of `gold.broker_share` without cluster: every broker of every window.

    Args:
        loads: From `with_keys`.
        slots: From `sum_slots`.
        brokers: `bronze.brokers` of the same windows: every broker gets a row, also without load.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
    """
    known = tuple(capacities)

    def measure(window: pa.Table, side: pa.Table) -> dict[str, Any]:
        (of_window,) = side.to_pylist()
        of_slots = [
            (row["slot"], row["broker_id"], row["size_bytes"], row["squared"]) for row in of_window["slots"] or ()
        ]
        brokers_of_window = {*of_window["broker_ids"], *known}
        rows = measure_broker_columns(loads_of(window), capacities, brokers_of_window, of_slots)
        return {field.name: [getattr(row, field.name) for row in rows] for field in fields(BrokerMeasures)}

    registered = brokers.groupBy("window_start").agg(F.sort_array(F.collect_set("broker_id")).alias("broker_ids"))
    slot = F.struct("slot", "broker_id", "size_bytes", "squared")
    by_window = slots.groupBy("window_start").agg(F.sort_array(F.collect_list(slot)).alias("slots"))
    sides = registered.join(by_window, "window_start", "left")
    known_windows = loads.join(F.broadcast(registered.select("window_start")), "window_start", "left_semi")

    def lift(window: pa.Table, side: pa.Table) -> pa.Table:
        return _table_of(measure(window, side), _BROKERS, side["window_start"][0])

    return (
        known_windows.groupBy("window_start")
        .cogroup(sides.groupBy("window_start"))
        .applyInArrow(lift, _with_window(_BROKERS))
    )


def measure_partition_health(loads: DataFrame) -> DataFrame:
    """Rows of `gold.partition_health` without cluster.

    Args:
        loads: From `with_keys`.
    """

    def lift(window: pa.Table) -> pa.Table:
        return _table_of(measure_partition_columns(loads_of(window)), _PARTITIONS, window["window_start"][0])

    return loads.groupBy("window_start").applyInArrow(lift, _with_window(_PARTITIONS))


def loads_of(window: pa.Table) -> WindowLoads:
    """One window's rows as the measures take them; the order in which they came does not matter.

    Args:
        window: Columns of `with_keys`; rows without a topic are left out.
    """
    order = [(name, "ascending") for name in ("topic", "topic_id", "partition", "leader_id")]
    rows = window.filter(pc.is_valid(window["topic"])).sort_by(order)

    def column(name: str, kind: type[Any]) -> Any:  # noqa: ANN401  # an array of that kind
        values = rows[name].to_numpy()  # NULL becomes NaN
        return np.ascontiguousarray(values, dtype=kind)

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
        batch_bytes_squared=column("batch_bytes_squared", np.float64),
        is_leader=column("is_leader", np.bool_),
        heavy_ratio=column("heavy_ratio", np.float64),
        light_ratio=column("light_ratio", np.float64),
        light_unit_count=column("light_unit_count", np.float64)[first],
    )


def _with_window(measures: pa.Schema) -> str:
    return f"window_start timestamp, {format_sql_schema(measures)}"


def _table_of(measured: Mapping[str, Any], measures: pa.Schema, window_start: pa.Scalar) -> pa.Table:
    columns = {field.name: pa.array(measured[field.name], field.type, from_pandas=True) for field in measures}
    starts = pa.repeat(window_start, len(next(iter(columns.values()))))
    return pa.table({"window_start": starts, **columns})
