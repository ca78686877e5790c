"""One window's rows of `gold.partition_health`, from its partition loads: each partition compared with its topic's mean."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.measures.causes import fair_loads, split_excess
from pipeline.measures.window_loads import WindowLoads, sum_by


def measure_partition_columns(loads: WindowLoads) -> dict[str, Any]:
    """Each partition compared with its topic's mean, in one window; loads of several leaders of a partition are summed.

    From loads with partitions without traffic. Returns the table's columns without cluster, window and run, shape
    (partitions,), by topic, id and partition; NaN where a value is not known.
    """
    whole = sum_leaders(loads)
    topic, sizes = whole.topic, whole.size_bytes.astype(np.float64)
    of_topic = _measure_topics(whole, sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        share, ratio = sizes / of_topic["total"][topic], sizes / of_topic["mean"][topic]
    excess = split_excess(whole, fair_loads(whole))
    return {
        "topic": [whole.topics[place][0] for place in topic.tolist()],
        "topic_id": [whole.topics[place][1] for place in topic.tolist()],
        "partition": whole.partition,
        "leader_id": whole.leader_id,
        "size_bytes": whole.size_bytes,
        "record_count": whole.record_count,
        "batch_count": whole.batch_count,
        "topic_share": share,
        "ratio_to_mean": ratio,
        "topic_partition_count": of_topic["count"].astype(np.int64)[topic],
        "topic_peak_to_mean": of_topic["peak"][topic],
        "topic_cv": of_topic["cv"][topic],
        "topic_effective_partitions": of_topic["effective"][topic],
        "topic_chance_cv": of_topic["chance_cv"][topic],
        "excess_bytes": np.rint(sizes - of_topic["mean"][topic]).astype(np.int64),
        "heavy_keys_bytes": excess.heavy_keys,
        "hash_luck_bytes": excess.hash_luck,
        "remainder_bytes": excess.remainder,
    }


def _measure_topics(whole: WindowLoads, sizes: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Measures that a topic's partitions share, by topic; NaN where it had no traffic."""
    topics, topic = len(whole.topics), whole.topic
    count = np.bincount(topic, minlength=topics).astype(np.float64)
    total = np.bincount(topic, sizes, topics)
    mean = total / np.maximum(count, 1)
    peak = np.zeros(topics)
    np.maximum.at(peak, topic, sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = np.sqrt(np.bincount(topic, (sizes - mean[topic]) ** 2, topics) / count) / mean
        units = total**2 / np.bincount(topic, whole.batch_bytes_squared, topics)
        chance_cv = np.sqrt((count - 1) / units)
        measured = {
            "peak": peak / mean,
            "cv": cv,
            "effective": count / (1 + cv**2),
            "chance_cv": np.where(np.isfinite(chance_cv), chance_cv, np.nan),
        }
    silent = total <= 0
    blanked = {name: np.where(silent, np.nan, values) for name, values in measured.items()}
    return {"count": count, "total": total, "mean": mean, **blanked}


def sum_leaders(loads: WindowLoads) -> WindowLoads:
    """One load per topic-partition, of the broker that leads it at the window's end (-1: none); all count as led."""
    places = loads.topic_partition
    count = int(places[-1]) + 1 if len(places) else 0
    first = np.searchsorted(places, np.arange(count))
    leader = np.full(count, -1, np.int64)
    leader[places[loads.is_leader]] = loads.leader_id[loads.is_leader]
    return WindowLoads(
        topics=loads.topics,
        topic=loads.topic[first],
        partition=loads.partition[first],
        leader_id=leader,
        size_bytes=sum_by(places, loads.size_bytes, count),
        record_count=sum_by(places, loads.record_count, count),
        batch_count=sum_by(places, loads.batch_count, count),
        batch_bytes_squared=np.bincount(places, loads.batch_bytes_squared, count).astype(np.float64),
        is_leader=np.ones(count, np.bool_),
        heavy_ratio=loads.heavy_ratio[first],
        light_ratio=loads.light_ratio[first],
        light_unit_count=loads.light_unit_count,
    )
