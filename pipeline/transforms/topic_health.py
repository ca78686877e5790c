"""From partitions, replicas, keys and consumer groups to `gold.topic_health`."""

from collections.abc import Collection
from dataclasses import fields

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.measures.topic_health import TopicCounts, TopicMeasures, derive_window_seed, measure_topic
from pipeline.model.window import milliseconds_of
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.health import TOPIC_HEALTH
from pipeline.transforms.arithmetic import divide

_TOPIC = ("window_start", "topic", "topic_id")
_SUMS = ("under_replicated_count", "below_min_isr_count", "lagging_replica_count", "leaderless_count")
_STATE = (*_SUMS, "reassigning_count", "not_preferred_count")
_INPUTS = ("batch_unit_count", "light_unit_count", "broker_count")
_LIVE_CLUSTER = "live_cluster"  # as `pipeline.model.cluster` names it, which a transform may not import


def measure_topic_health(
    *,
    partition_health: pl.DataFrame,
    loads: pl.DataFrame,
    topic_keys: pl.DataFrame,
    replicas: pl.DataFrame,
    brokers: pl.DataFrame,
    consumer_groups: pl.DataFrame,
    cluster: str,
) -> pa.Table:
    """Rows of `gold.topic_health` without cluster, of what `measure_partition_health` and the sums of keys gave.

    Brokers and groups are rows of bronze tables, of the same windows. `cluster` seeds what is drawn, with both.
    """
    able = brokers.filter(~pl.col("is_fenced").fill_null(value=False)).group_by("window_start")
    zeros = [pl.col(name).fill_null(0) for name in ("broker_count", "consumer_count", "keyed_ratio", *_STATE)]
    unknown = pl.col("unknown_replicas_count", "unknown_min_isr_count").fill_null(pl.col("partition_count"))
    # members of each topic's largest group; NULL members do not count
    members = consumer_groups.group_by("window_start", "topic", "group_id").agg(_distinct("member_id"))
    consumers = members.group_by("window_start", "topic").agg(pl.col("member_id").max().alias("consumer_count"))
    topics = (
        _sum_partitions(partition_health, loads)
        .join(topic_keys, on=_TOPIC, how="left")
        .join(replicas, on=_TOPIC, how="left")
        .join(consumers, on=("window_start", "topic"), how="left")
        .join(able.agg(_distinct("broker_id").alias("broker_count")), on="window_start", how="left")
        .with_columns(*zeros, unknown)
    )
    counts = [field.name for field in fields(TopicCounts) if field.name != "seed"]
    measured = []
    for start, topic, *values in topics.select("window_start", "topic", *counts).iter_rows():
        seed = derive_window_seed(cluster, milliseconds_of(start), topic)
        measured.append(measure_topic(TopicCounts(**dict(zip(counts, values, strict=True)), seed=seed)))
    rows = topics.drop(_INPUTS).to_arrow()
    for name in (field.name for field in fields(TopicMeasures)):
        column = pa.array([getattr(row, name) for row in measured], ARROW_TYPES[TOPIC_HEALTH.column(name).type])
        rows = rows.append_column(name, column)
    return rows


def _sum_partitions(partition_health: pl.DataFrame, loads: pl.DataFrame) -> pl.DataFrame:
    sums = partition_health.group_by(_TOPIC, maintain_order=True).agg(
        pl.col("topic_partition_count").max().alias("partition_count"),
        *(pl.col(name).sum() for name in ("size_bytes", "record_count", "batch_count")),
        *(pl.col(f"topic_{name}").max().alias(name) for name in ("peak_to_mean", "cv", "effective_partitions")),
    )
    whole = pl.col("batch_bytes_squared").round(mode="half_away_from_zero").cast(pl.Int128)
    keyed = (pl.col("heavy_ratio") + pl.col("light_ratio")) * pl.col("size_bytes")
    of_loads = loads.group_by(_TOPIC).agg(
        whole.sum().cast(pl.Float64).alias("squared"),
        keyed.round(mode="half_away_from_zero").cast(pl.Int64).sum().alias("keyed_bytes"),
    )
    total = pl.col("size_bytes").cast(pl.Float64)
    joined = sums.join(of_loads, on=_TOPIC, maintain_order="left").with_columns(
        divide(total * total, pl.col("squared")).alias("batch_unit_count"),
        divide(pl.col("keyed_bytes"), pl.col("size_bytes")).alias("keyed_ratio"),
    )
    return joined.drop("squared", "keyed_bytes")


def match_compacted(state: pa.Table) -> pa.ChunkedArray:
    """Whether `cleanup.policy` holds compact, by row of `bronze.cluster_state`; NULL where brokers do not tell it."""
    return pc.match_substring(_look_up(state, "cleanup.policy", ""), "compact")


def _look_up(state: pa.Table, name: str, default: str) -> pa.ChunkedArray:
    """A topic config by row. Brokers tell defaults, too: of a live cluster it is not known where it lacks."""
    is_live = pc.equal(state["state_source"], _LIVE_CLUSTER)
    told = pc.map_lookup(state["configs"], pa.scalar(name), "first")
    return pc.coalesce(told, pc.if_else(is_live, pa.scalar(None, pa.string()), pa.scalar(default)))


def count_replicas(cluster_state: pa.Table, away: Collection[int] = ()) -> pl.DataFrame:
    """Partitions of `bronze.cluster_state` whose replicas are not as they should be, by window and topic.

    A follower is out of the in-sync set when it was behind for longer than `replica.lag.time.max.ms`, or is gone: that
    is Kafka's own rule, so the set shows what the brokers measured. Partitions of which nobody says it are counted as
    unknown; replicas of brokers `away` at the window's end are out of it whatever was observed before. Replicas of
    compacted topics differ in size by nature: each broker cleans its own.
    """
    least = _look_up(cluster_state, "min.insync.replicas", "1")
    plain = ("replica_id", "is_in_sync", "is_leader", "is_preferred_leader", "leader_id", "size_bytes")
    states = cluster_state.select((*_TOPIC, "partition", *plain)).append_column("least", least)
    states = states.append_column("reassigning", pc.is_valid(cluster_state["reassignment"]))
    states = states.append_column("is_compacted", match_compacted(cluster_state))
    size, is_in_sync = pl.col("size_bytes"), pl.col("is_in_sync")
    is_out = ~is_in_sync | pl.col("replica_id").is_in(list(away))
    partitions = pl.DataFrame(states).group_by(*_TOPIC, "partition").agg(
        pl.len().cast(pl.Int64).alias("replicas"),
        is_out.cast(pl.Int64).sum().alias("out"),
        is_in_sync.is_not_null().any().alias("is_known"),
        pl.col("least").cast(pl.Int64, strict=False).max(),
        pl.col("leader_id").min(),
        pl.col("reassigning").any(),
        (pl.col("is_leader") & ~pl.col("is_preferred_leader")).any().alias("not_preferred"),
        divide(size.max(), size.min()).alias("spread"),
        pl.col("is_compacted").max(),
    )  # fmt: skip  # a chain on one line, its sums one a line
    out, is_known = pl.col("out"), pl.col("is_known")
    counted = {
        # replicas that a running reassignment adds are behind by nature
        "under_replicated_count": (out > 0) & ~pl.col("reassigning"),
        "below_min_isr_count": (is_known | (out > 0)) & (pl.col("replicas") - out < pl.col("least")),
        "leaderless_count": is_known & (pl.col("leader_id") < 0),  # else who led is not known
        "reassigning_count": pl.col("reassigning"),
        "not_preferred_count": pl.col("not_preferred"),
        "unknown_replicas_count": ~(is_known | (out > 0)),
        "unknown_min_isr_count": pl.col("least").is_null(),
    }
    return partitions.group_by(_TOPIC).agg(
        *(condition.cast(pl.Int64).sum().alias(name) for name, condition in counted.items()),
        out.sum().alias("lagging_replica_count"),
        pl.col("spread").filter(~pl.col("is_compacted")).max().alias("replica_size_spread"),
    )


def _distinct(column: str) -> pl.Expr:
    return pl.col(column).drop_nulls().n_unique().cast(pl.Int64)
