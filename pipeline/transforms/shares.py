"""The measures of a window lifted over Spark: partition loads to `gold.broker_share` and `gold.partition_health`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from pipeline.measures.broker_share import BrokerMeasures, PartitionMeasures, measure_brokers, measure_partitions
from pipeline.model.load import PartitionLoad

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

_PARTITION = ("window_start", "topic", "topic_id", "partition")
_LOADS = ("size_bytes", "record_count", "batch_count", "batch_bytes_squared")
_SPARK_TYPES = {"int": LongType(), "float": DoubleType(), "str": StringType(), "bool": BooleanType()}
_LOAD_FIELDS = tuple(field.name for field in fields(PartitionLoad))


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


def measure_broker_shares(loads: DataFrame, brokers: DataFrame, capacities: Mapping[int, float]) -> DataFrame:
    """Rows of `gold.broker_share` without cluster: every broker of every window.

    Args:
        loads: From `partition_loads`.
        brokers: `bronze.brokers` of the same windows: every broker gets a row, also without load.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
    """
    known = tuple(capacities)

    def measure(window_loads: Sequence[PartitionLoad], broker_ids: Iterable[int]) -> Sequence[BrokerMeasures]:
        return measure_brokers(window_loads, capacities, {*broker_ids, *known})

    registered = brokers.groupBy("window_start").agg(F.sort_array(F.collect_set("broker_id")).alias("broker_ids"))
    with_brokers = registered.join(loads, "window_start", "left")
    return _measure_by_window(with_brokers, BrokerMeasures, measure)


def measure_partition_health(loads: DataFrame) -> DataFrame:
    """Rows of `gold.partition_health` without cluster.

    Args:
        loads: From `partition_loads`.
    """

    def measure(window_loads: Sequence[PartitionLoad], _: Iterable[int]) -> Sequence[PartitionMeasures]:
        return measure_partitions(window_loads)

    return _measure_by_window(
        loads.withColumn("broker_ids", F.array().cast("array<bigint>")), PartitionMeasures, measure
    )


def _measure_by_window(loads: DataFrame, row_type: type[Any], measure: Any) -> DataFrame:  # noqa: ANN401
    schema = StructType(
        [
            StructField("window_start", TimestampType()),
            *(StructField(field.name, _SPARK_TYPES[str(field.type).split(" |")[0]]) for field in fields(row_type)),
        ]
    )

    def lift(window: pa.Table) -> pa.Table:
        loads_of_window = [
            PartitionLoad(**{name: row[name] for name in _LOAD_FIELDS})
            for row in window.select(list(_LOAD_FIELDS)).to_pylist()
            if row["topic"] is not None
        ]
        # Sums of doubles then do not depend on how the rows came here.
        loads_of_window.sort(key=lambda load: (load.topic, load.topic_id, load.partition, load.leader_id))
        rows = measure(loads_of_window, window["broker_ids"][0].as_py())
        columns = {"window_start": pa.repeat(window["window_start"][0], len(rows))}
        columns |= {
            field.name: pa.array([getattr(row, field.name) for row in rows], _arrow_type(field.type))
            for field in fields(row_type)
        }
        return pa.table(columns)

    return loads.groupBy("window_start").applyInArrow(lift, schema)


def _arrow_type(annotation: Any) -> pa.DataType:  # noqa: ANN401
    name = str(annotation).split(" |", maxsplit=1)[0]
    return {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}[name]
