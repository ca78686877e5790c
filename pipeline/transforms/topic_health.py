"""From partitions, replicas, keys and consumer groups to `gold.topic_health` and `gold.group_balance`."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.measures.assignors import ASSIGNORS, MOST_DEALT, Owned, Partition, assign_consumers
from pipeline.measures.topic_health import TopicCounts, derive_window_seed, measure_topic
from pipeline.model.window import milliseconds_of
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.health import GROUP_BALANCE, TOPIC_HEALTH
from pipeline.transforms.arithmetic import divide

_TOPIC = ("window_start", "topic", "topic_id")
_SUMS = ("under_replicated_count", "below_min_isr_count", "lagging_replica_count", "leaderless_count")
_STATE = (*_SUMS, "reassigning_count", "not_preferred_count")
_INPUTS = ("batch_unit_count", "light_unit_count", "broker_count", "may_have_keys")
_LIVE_CLUSTER = "live_cluster"  # as `pipeline.model.cluster` names it, which a transform may not import


def measure_topic_health(
    *,
    partition_health: pl.DataFrame,
    loads: pl.DataFrame,
    topic_keys: pl.DataFrame,
    replicas: pl.DataFrame,
    brokers: pl.DataFrame,
    consumer_groups: pl.DataFrame,
    fixed_topics: Collection[str],
    cluster: str,
) -> pa.Table:
    """Rows of `gold.topic_health` without cluster, from tables of the same windows; `cluster` seeds what is drawn."""
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
    counts = [field.name for field in fields(TopicCounts) if field.name not in {"seed", "has_fixed_count"}]
    measured = []
    for start, topic, *values in topics.select("window_start", "topic", *counts).iter_rows():
        seed = derive_window_seed(cluster, milliseconds_of(start), topic)
        known = {**dict(zip(counts, values, strict=True)), "has_fixed_count": topic in fixed_topics}
        measured.append(measure_topic(TopicCounts(**known, seed=seed)))
    rows = topics.drop(_INPUTS).to_arrow()
    for column in TOPIC_HEALTH.columns:
        if column.name not in {"cluster", "run_id", *rows.column_names}:
            values = pa.array([of_topic[column.name] for of_topic in measured], ARROW_TYPES[column.type])
            rows = rows.append_column(column.name, values)
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
        # where no record came nobody knows
        (pl.col("keyless_ratio").filter(pl.col("record_count") > 0).fill_null(0.0).min().fill_null(0.0) < 1).alias(
            "may_have_keys"
        ),
    )
    total = pl.col("size_bytes").cast(pl.Float64)
    joined = sums.join(of_loads, on=_TOPIC, maintain_order="left").with_columns(
        divide(total * total, pl.col("squared")).alias("batch_unit_count"),
        divide(pl.col("keyed_bytes"), pl.col("size_bytes")).alias("keyed_ratio"),
        pl.col("may_have_keys").fill_null(value=True),
    )
    return joined.drop("squared", "keyed_bytes")


def match_compacted(state: pa.Table) -> pa.ChunkedArray:
    """Whether `cleanup.policy` holds compact, by row of `bronze.cluster_state`; NULL where brokers do not tell it."""
    return pc.match_substring(_look_up(state, "cleanup.policy", ""), "compact")


def list_fixed_topics(state: pa.Table, own_topics: Collection[str]) -> set[str]:
    """Topics that take no more partitions: compacted ones, whose old records stay where they are, Kafka's and Kafka Streams' own."""
    topic, is_compacted = pl.col("topic"), pl.col("is_compacted").fill_null(value=True)
    of_streams = topic.str.contains("-(changelog|repartition)$")
    topics = pl.DataFrame(state.select(["topic"]).append_column("is_compacted", match_compacted(state)))
    return set(topics.filter(is_compacted | of_streams | topic.is_in(list(own_topics)))["topic"])


def _look_up(state: pa.Table, name: str, default: str) -> pa.ChunkedArray:
    """A topic config by row. Brokers tell defaults, too: of a live cluster it is not known where it lacks."""
    is_live = pc.equal(state["state_source"], _LIVE_CLUSTER)
    told = pc.map_lookup(state["configs"], pa.scalar(name), "first")
    return pc.coalesce(told, pc.if_else(is_live, pa.scalar(None, pa.string()), pa.scalar(default)))


def count_replicas(cluster_state: pa.Table, away: Collection[int] = ()) -> pl.DataFrame:
    """Partitions whose replicas are not as they should be, by window and topic; brokers `away` have none in sync."""
    least = _look_up(cluster_state, "min.insync.replicas", "1")
    plain = ("replica_id", "is_in_sync", "is_leader", "is_preferred_leader", "leader_id", "size_bytes")
    states = cluster_state.select((*_TOPIC, "partition", *plain)).append_column("least", least)
    states = states.append_column("reassignment", cluster_state["reassignment"])
    states = states.append_column("is_compacted", match_compacted(cluster_state))
    size, is_in_sync, reassignment = pl.col("size_bytes"), pl.col("is_in_sync"), pl.col("reassignment")
    is_out = ~is_in_sync | pl.col("replica_id").is_in(list(away))
    partitions = pl.DataFrame(states).group_by(*_TOPIC, "partition").agg(
        pl.len().cast(pl.Int64).alias("replicas"),
        is_out.cast(pl.Int64).sum().alias("out"),
        is_in_sync.is_not_null().any().alias("is_known"),
        pl.col("least").cast(pl.Int64, strict=False).max(),
        pl.col("leader_id").min(),
        reassignment.is_not_null().any().alias("reassigning"),
        (reassignment.eq_missing("adding") & is_out.is_not_null()).sum().alias("adding"),
        reassignment.eq_missing("moving").all().alias("moving"),
        (pl.col("is_leader") & ~pl.col("is_preferred_leader")).any().alias("not_preferred"),
        divide(size.max(), size.min()).alias("spread"),
        pl.col("is_compacted").max(),
    )  # fmt: skip  # a chain on one line, its sums one a line
    out, is_known = pl.col("out"), pl.col("is_known")
    # from 3.7 on Kafka asks for no more in sync than there are replicas: `Partition.effectiveMinIsr`
    least_in_sync = pl.when(pl.col("least") > pl.col("replicas")).then("replicas").otherwise("least")
    counted = {
        # replicas that a running reassignment adds are behind by nature; a tool may not say which it adds
        "under_replicated_count": (out > pl.col("adding")) & ~pl.col("moving"),
        "below_min_isr_count": pl.col("replicas") - out < least_in_sync,  # where nobody knows, none is out
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


_Rows = Iterable[tuple[Any, ...]]
_Loads = Mapping[str, Mapping[Partition, int]]  # by topic
_MOST_LAG = 1 << 62  # a member may commit any offset, and a table holds 64 bits


def measure_groups(described: _Rows, sizes: _Rows, start: datetime) -> pa.Table:
    """Rows of `gold.group_balance` of a window, from rows of `bronze.consumer_groups` of it and the one before."""
    loads: dict[str, dict[Partition, int]] = defaultdict(lambda: defaultdict(int))
    for topic, number, size in sizes:
        loads[topic][topic, number] += size
    # by group, by whether it was in this window and when
    by_group: dict[str, dict[tuple[bool, datetime], list[list[Any]]]] = defaultdict(lambda: defaultdict(list))
    for window_start, at, group_id, *row in described:
        by_group[group_id][window_start == start, at].append(row)
    rows, dealt = [], 0
    for group_id, moments in sorted(by_group.items()):
        last = max(moments)
        if last[0]:
            first = max((moment for moment in moments if not moment[0]), default=min(moments))
            seconds = (last[1] - first[1]).total_seconds()
            # growth of lag in offsets a second, where it is known at both moments
            before = {(topic, number): lag for topic, number, lag, _ in moments[first] if lag is not None}
            growth = {
                (topic, number): (lag - before[topic, number]) / seconds
                for topic, number, lag, _ in moments[last]
                if (topic, number) in before and lag is not None and seconds
            }
            dealt += sum(len(loads[topic]) for topic in {topic for topic, *_ in moments[last]} & loads.keys())
            measured = _measure_topics(moments[last], growth, loads, ASSIGNORS if dealt <= MOST_DEALT else ())
            rows += [{"window_start": start, "group_id": group_id, **of_topic} for of_topic in measured]
    columns = [column for column in GROUP_BALANCE.columns if column.name not in {"cluster", "run_id"}]
    return pa.table({each.name: pa.array([row[each.name] for row in rows], ARROW_TYPES[each.type]) for each in columns})


def _measure_topics(
    rows: Iterable[Sequence[Any]], growth: Mapping[Partition, float], loads: _Loads, assignors: Sequence[str]
) -> Iterator[dict[str, Any]]:
    owned: dict[str, list[Partition]] = defaultdict(list)
    lags: dict[str, list[int | None]] = defaultdict(list)
    for topic, number, lag, member_id in rows:
        lags[topic].append(lag)
        if member_id is not None:
            owned[member_id].append((topic, number))
    growths: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (topic, number), each in sorted(growth.items()):
        growths[topic].append((str(number), each))
    numbers = {topic: sorted(number for _, number in loads[topic]) for topic in lags if topic in loads}
    now, now_to_mean = _find_busiest(owned, loads)
    reading = Counter(topic for parts in owned.values() for topic in {topic for topic, _ in parts})
    # of others the group committed offsets once
    read = {topic: partitions for topic, partitions in numbers.items() if reading[topic]}
    under = {name: _find_busiest(assign_consumers(name, read, owned, owned), loads) for name in assignors}
    to_mean_under = [(name, to_mean) for name, (_, to_mean) in under.items() if to_mean is not None]
    for topic, of_topic in sorted(lags.items()):
        sizes = loads.get(topic, {})
        total = sum(sizes.values())
        known = [lag for lag in of_topic if lag is not None]
        yield {
            "topic": topic,
            "partition_count": len(numbers.get(topic, of_topic)),
            "member_count": reading[topic],
            "idle_member_count": len(owned) - reading[topic],
            "lag_count": max(-_MOST_LAG, min(sum(known), _MOST_LAG)) if known else None,
            "lag_growth": growths[topic],
            "busiest_ratio": now[topic] / total if total and reading[topic] else None,
            "busiest_ratio_under": [
                (name, most[topic] / total) for name, (most, _) in under.items() if total and reading[topic]
            ],
            "useful_member_count": -(-total // max(sizes.values())) if total else None,
            "group_busiest_to_mean": now_to_mean,
            "group_busiest_to_mean_under": to_mean_under,
        }


def _find_busiest(assignment: Owned, loads: _Loads) -> tuple[Counter[str], float | None]:
    """Bytes of each topic's busiest member; and those of the busiest of all over their mean, None without traffic."""
    busiest: Counter[str] = Counter()
    totals = []
    for parts in assignment.values():
        carried: Counter[str] = Counter()
        for part in parts:
            carried[part[0]] += loads.get(part[0], {}).get(part, 0)
        totals.append(carried.total())
        for topic, size_bytes in carried.items():
            busiest[topic] = max(busiest[topic], size_bytes)
    return busiest, max(totals) / (sum(totals) / len(totals)) if sum(totals) else None
