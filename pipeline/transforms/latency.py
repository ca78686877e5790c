"""From `silver.producer_nodes` to `gold.latency`: each broker compared with its peers and with its own history."""

import polars as pl
import pyarrow as pa

from pipeline.transforms.arithmetic import divide, median_of, sum_in_order, sum_sorted

ALL_CLIENTS = "*"
HISTORY_WINDOWS = 24
LEAST_HISTORY = 3
_PEERS = ("window_start", "client_id")


def compare_latency(producer_nodes: pa.Table) -> pl.DataFrame:
    """Rows of `gold.latency`: each broker's mean latency, clients added up, beside its peers' and its own past.

    From `silver.producer_nodes` of one cluster, of the windows wanted and of the 24 before.
    """
    columns = (*_PEERS, "broker_id", "request_count", "request_latency_avg_ms", "request_latency_max_ms")
    nodes = pl.DataFrame(producer_nodes.select(columns))
    everyone = nodes.with_columns(pl.lit(ALL_CLIENTS).alias("client_id"))
    pairs = pl.concat([_sum_nodes(nodes.filter(pl.col("client_id") != ALL_CLIENTS)), _sum_nodes(everyone)])
    latency = pl.col("request_latency_avg_ms")
    own = ("client_id", "broker_id")
    past = pl.concat_list(latency.shift(n).over(own, order_by="window_start") for n in range(1, HISTORY_WINDOWS + 1))
    is_known = past.list.drop_nulls().list.len() >= LEAST_HISTORY
    history_ms = pl.when(is_known).then(median_of(past))
    return pairs.with_columns(
        divide(latency, _median_of_others(latency).over(_PEERS)).alias("ratio_to_peers"),
        divide(latency, history_ms).alias("ratio_to_history"),
    )


def _median_of_others(values: pl.Expr) -> pl.Expr:
    """Of each known value of a group the median of the others, from the sorted group: a client may name brokers without end."""
    place, count = values.rank("ordinal").cast(pl.Int64) - 1, values.count().cast(pl.Int64) - 1
    middle = [pl.when(place <= at).then(at + 1).otherwise(at) for at in ((count - 1) // 2, count // 2)]
    in_order = values.sort(nulls_last=True)
    low, high = (in_order.gather(pl.when(count > 0).then(at).otherwise(0)) for at in middle)
    return pl.when((count > 0) & values.is_not_null()).then((low + high) / 2)


def _sum_nodes(nodes: pl.DataFrame) -> pl.DataFrame:
    latency, requests = pl.col("request_latency_avg_ms"), pl.col("request_count")
    timed = requests.filter(latency.is_not_null())
    return nodes.group_by(*_PEERS, "broker_id").agg(
        sum_in_order(requests.sort()),
        divide(sum_sorted(latency * requests), sum_in_order(timed.sort())).alias("request_latency_avg_ms"),
        pl.col("request_latency_max_ms").max(),
    )
