"""The measures of a window lifted over Spark: partition loads to `gold.broker_share` and `gold.partition_health`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from pipeline.measures.broker_share import BrokerMeasures, measure_broker_columns
from pipeline.measures.partition_health import PartitionMeasures, measure_partition_columns
from pipeline.measures.window_loads import WindowLoads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

_PARTITION = ("window_start", "topic", "topic_id", "partition")
_LOADS = ("size_bytes", "record_count", "batch_count", "batch_bytes_squared")
_KEYS = ("heavy_ratio", "light_ratio", "light_unit_count")
_SPARK_TYPES = {"int": LongType(), "float": DoubleType(), "str": StringType(), "bool": BooleanType()}


def partition_loads(traffic: DataFrame, cluster_state: DataFrame) -> DataFrame:
    """One row per window, partition and leader: what it carried, zero where a led partition had no traffic.

    Args:
        traffic: `silver.partition_traffic`.
        cluster_state: `bronze.cluster_state` of the same windows; who leads at the window's end.
    """
    carried = traffic.groupBy(*_PARTITION, "leader_id").agg(*(F.sum(name).alias(name) for name in _LOADS))
    led = (
        cluster_state.where("is_leader").select(*_PARTITION, "leader_id", F.lit(col=True).alias("is_leader")).distinct()
    )
    joined = carried.join(led, [*_PARTITION, "leader_id"], "full_outer")
    return joined.select(
        *_PARTITION,
        "leader_id",
        *(F.coalesce(F.col(name), F.lit(0)).cast(traffic.schema[name].dataType).alias(name) for name in _LOADS),
        F.coalesce("is_leader", F.lit(col=False)).alias("is_leader"),
    )


def with_keys(loads: DataFrame, partition_keys: DataFrame) -> DataFrame:
    """Adds what the records of each load's partition are keyed by; NULL where that is not known.

    Args:
        loads: From `partition_loads`.
        partition_keys: From `pipeline.transforms.hot_keys.sum_partition_keys`.
    """
    return loads.join(partition_keys.select(*_PARTITION, *_KEYS), list(_PARTITION), "left")


def measure_broker_shares(loads: DataFrame, brokers: DataFrame, capacities: Mapping[int, float]) -> DataFrame:
    """Rows of `gold.broker_share` without cluster: every broker of every window.

    Args:
        loads: From `with_keys`.
        brokers: `bronze.brokers` of the same windows: every broker gets a row, also without load.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
    """
    known = tuple(capacities)

    def measure(window: pa.Table) -> dict[str, Any]:
        rows = measure_broker_columns(loads_of(window), capacities, {*window["broker_ids"][0].as_py(), *known})
        return {field.name: [getattr(row, field.name) for row in rows] for field in fields(BrokerMeasures)}

    registered = brokers.groupBy("window_start").agg(F.sort_array(F.collect_set("broker_id")).alias("broker_ids"))
    with_brokers = registered.join(loads, "window_start", "left")
    return _measure_by_window(with_brokers, BrokerMeasures, measure)


def measure_partition_health(loads: DataFrame) -> DataFrame:
    """Rows of `gold.partition_health` without cluster.

    Args:
        loads: From `with_keys`.
    """
    return _measure_by_window(loads, PartitionMeasures, lambda window: measure_partition_columns(loads_of(window)))


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


def _measure_by_window(
    loads: DataFrame, row_type: type[Any], measure: Callable[[pa.Table], Mapping[str, Any]]
) -> DataFrame:
    kinds = {field.name: str(field.type).split(" |", maxsplit=1)[0] for field in fields(row_type)}
    schema = StructType(
        [
            StructField("window_start", TimestampType()),
            *(StructField(name, _SPARK_TYPES[kind]) for name, kind in kinds.items()),
        ]
    )

    def lift(window: pa.Table) -> pa.Table:
        measured = measure(window)
        columns = {name: pa.array(measured[name], _arrow_type(kind), from_pandas=True) for name, kind in kinds.items()}
        starts = pa.repeat(window["window_start"][0], len(next(iter(columns.values()))))
        return pa.table({"window_start": starts, **columns})

    return loads.groupBy("window_start").applyInArrow(lift, schema)


def _arrow_type(kind: str) -> pa.DataType:
    return {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}[kind]
