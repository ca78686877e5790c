"""From `silver.producer_nodes` to `gold.latency`: each broker beside its peers and beside its own history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.transforms.exact_sums import exact_sum

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ALL_CLIENTS = "*"
HISTORY_WINDOWS = 24
LEAST_HISTORY = 3


def compare_latency(producer_nodes: DataFrame) -> DataFrame:
    """Adds up clients, then compares each broker's mean latency with its peers' and with its own past.

    Args:
        producer_nodes: `silver.producer_nodes` of the windows wanted and of the 24 before.
    """
    pairs = _per_client(producer_nodes).unionByName(_all_clients(producer_nodes))
    own = Window.partitionBy("cluster", "client_id", "broker_id").orderBy("window_start")
    past = own.rowsBetween(-HISTORY_WINDOWS, -1)
    latency = F.col("request_latency_avg_ms")
    history = _median(F.array_sort(F.collect_list(latency).over(past)), least=LEAST_HISTORY)
    return (
        pairs.join(_peers(pairs), ["cluster", "window_start", "client_id", "broker_id"], "left")
        .withColumn("ratio_to_peers", F.try_divide("request_latency_avg_ms", "peer_latency_ms"))
        .withColumn("history_latency_ms", history)
        .withColumn("ratio_to_history", F.try_divide("request_latency_avg_ms", "history_latency_ms"))
        .drop("peer_latency_ms", "history_latency_ms")
    )


def _median(ordered: Column, least: int) -> Column:
    """Middle of a sorted array (`median` takes no window frame); NULL below `least` values."""
    count = F.size(ordered)
    middle = F.get(ordered, ((count - 1) / 2).cast("int")) + F.get(ordered, (count / 2).cast("int"))
    return F.when(count >= least, middle / 2)


def _per_client(nodes: DataFrame) -> DataFrame:
    return nodes.groupBy("cluster", "window_start", "client_id", "broker_id").agg(*_summed())


def _all_clients(nodes: DataFrame) -> DataFrame:
    return (
        nodes.groupBy("cluster", "window_start", "broker_id")
        .agg(*_summed())
        .withColumn("client_id", F.lit(ALL_CLIENTS))
    )


def _summed() -> tuple[Column, ...]:
    requests = F.when(F.col("request_latency_avg_ms").isNotNull(), F.col("request_count"))
    weighted = F.try_divide(exact_sum(F.col("request_latency_avg_ms") * requests), F.sum(requests))
    return (
        F.sum("request_count").alias("request_count"),
        weighted.alias("request_latency_avg_ms"),
        F.max("request_latency_max_ms").alias("request_latency_max_ms"),
    )


def _peers(pairs: DataFrame) -> DataFrame:
    """Median latency of the same client's other brokers in the window."""
    mine, other = pairs.alias("mine"), pairs.alias("other")
    same = (
        (F.col("mine.cluster") == F.col("other.cluster"))
        & (F.col("mine.window_start") == F.col("other.window_start"))
        & (F.col("mine.client_id") == F.col("other.client_id"))
        & (F.col("mine.broker_id") != F.col("other.broker_id"))
    )
    return (
        mine.join(other, same)
        .groupBy("mine.cluster", "mine.window_start", "mine.client_id", "mine.broker_id")
        .agg(F.median("other.request_latency_avg_ms").alias("peer_latency_ms"))
    )
