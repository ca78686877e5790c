"""Who led what in some windows, from the tables."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.model.window import milliseconds_of
from pipeline.replay.results import ClusterFacts
from pipeline.storage.rows import load_rows
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The brokers name the partition of each of their records: no partitioner is asked."""


def load_cluster_facts(run: RunContext, windows: Sequence[TimeWindow]) -> ClusterFacts:
    """Leaders and brokers, window by window; internal topics left out."""
    leaders: dict[tuple[int, str, str], dict[int, int]] = defaultdict(dict)
    state = load_rows(run.warehouse, CLUSTER_STATE, cluster=run.cluster_name, windows=windows)
    for row in state.select(["window_start", "topic", "topic_id", "partition", "leader_id"]).to_pylist():
        if row["topic"] not in INTERNAL_TOPICS:
            start_ms = milliseconds_of(row["window_start"])
            leaders[start_ms, row["topic"], row["topic_id"]][row["partition"]] = row["leader_id"]
    brokers: dict[int, list[int]] = defaultdict(list)
    known = load_rows(run.warehouse, BROKERS, cluster=run.cluster_name, windows=windows)
    for row in known.select(["window_start", "broker_id"]).to_pylist():
        brokers[milliseconds_of(row["window_start"])].append(row["broker_id"])
    return ClusterFacts(leaders, brokers)


def count_partitions(cluster: ClusterFacts) -> dict[tuple[str, str], dict[int, int]]:
    """Partitions by topic and topic id, then by start of the window."""
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for (start_ms, topic, topic_id), by_partition in cluster.leaders.items():
        counts[topic, topic_id][start_ms] = max(by_partition) + 1
    return dict(counts)
