"""The measures of windows over their loads: rows of `gold.broker_share` and `gold.partition_health`."""

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

_PARTITION = ("window_start", "topic", "topic_id", "partition")
_PLACE = (*_PARTITION, "leader_id")
_LOADS = ("size_bytes", "record_count", "batch_count", "batch_bytes_squared")


def sum_loads(traffic: pl.DataFrame, cluster_state: pl.DataFrame) -> pl.DataFrame:
    """One row per window, partition and leader: what it carried, zero where a led partition had no traffic.

    Who leads at the window's end is that of `bronze.cluster_state`.
    """
    carried = traffic.select(*_PLACE, *_LOADS, pl.lit(False).alias("is_leader"))  # noqa: FBT003  (a literal column)
    nothing = [pl.lit(0, traffic.schema[name]).alias(name) for name in _LOADS]
    led = cluster_state.filter("is_leader").select(*_PLACE, *nothing, "is_leader")
    sums = pl.concat([carried, led]).group_by(_PLACE)
    return sums.agg(*(pl.col(name).sum() for name in _LOADS), pl.col("is_leader").any())


def with_keys(loads: pl.DataFrame, partition_keys: pl.DataFrame) -> pl.DataFrame:
    """Adds what `sum_partition_keys` says of each load's partition; NULL where that is not known."""
    return loads.join(partition_keys, on=_PARTITION, how="left")


def measure_broker_shares(
    loads: pl.DataFrame,
    slots: pl.DataFrame,
    brokers: Iterable[int],
    capacities: Mapping[int, float],
    start: datetime,
    *,
    stood: Mapping[int, float] | None = None,
) -> pa.Table:
    """Rows of `gold.broker_share` without cluster: every broker of one window.

    Args:
        loads: From `with_keys`, of the window.
        slots: Each broker's `size_bytes` in every slot of the window, and its batches' sum of squares, `squared`.
        brokers: The cluster's brokers in the window: every one gets a row, also without load.
        capacities: Capacity weight by broker id; 1 where a broker is not named. Brokers named here get a row, too.
        start: Start of the window.
        stood: Part of the window in which a broker was in the cluster; all of it where none is named.
    """
    of_slots = slots.select("slot", "broker_id", "size_bytes", "squared").sort("slot", "broker_id").rows()
    measured = measure_broker_columns(loads_of(loads.to_arrow()), capacities, {*brokers, *capacities}, of_slots, stood)
    return _table_of(measured, BROKER_SHARE, start)


def measure_partition_health(loads: pl.DataFrame, start: datetime) -> pa.Table:
    """Rows of `gold.partition_health` without cluster: every partition of one window, from its loads `with_keys`."""
    return _table_of(measure_partition_columns(loads_of(loads.to_arrow())), PARTITION_HEALTH, start)


def loads_of(window: pa.Table) -> WindowLoads:
    """A window's rows of `with_keys`, in any order, as the measures take them; rows without a topic are left out."""
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


def _table_of(measured: Mapping[str, Any], table: Table, start: datetime) -> pa.Table:
    columns = {
        name: pa.array(values, ARROW_TYPES[table.column(name).type], from_pandas=True)
        for name, values in measured.items()
    }
    starts = pa.repeat(pa.scalar(start, ARROW_TYPES["timestamp"]), len(next(iter(columns.values()))))
    return pa.table({"window_start": starts, **columns})
