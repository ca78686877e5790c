"""What rack-aware producers (KIP-1123) add to each broker: `rack_aware_term` of `gold.broker_share`."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

_TOPIC = ["topic", "topic_id"]
_SESSION = [*_TOPIC, "producer_id"]


def sum_rack_aware_bytes(
    sent: pl.DataFrame,
    sessions: Sequence[Mapping[str, Any]],
    led: Sequence[tuple[str, str, int]],
    racks: Mapping[int, str],
) -> dict[int, float]:
    """Bytes that a broker has more, or less, than if these producers' keyless records went to all leaders of their topics.

    A producer in zone z with B keyless bytes of a topic gives each of the n_z partitions that z leads B / n_z, and without
    racks it gives each of all n partitions B / n: the difference is due to racks, exactly. What it spreads unevenly within
    its zone has other reasons and is left out. The sum over all brokers is 0.

    Args:
        sent: Bytes by topic, producer id and epoch.
        sessions: Rows of `silver.producer_sessions`, of rack-aware producers alone.
        led: Topic, topic id and leader of each partition that has one.
        racks: Of brokers, "" without one.
    """
    by_epoch: Counter[tuple[str, str, int, int]] = Counter()
    every: Counter[tuple[str, str, int]] = Counter()
    for topic, topic_id, producer_id, epoch, size in sent.select(*_SESSION, "producer_epoch", "size_bytes").iter_rows():
        by_epoch[topic, topic_id, producer_id, epoch] += size
        every[topic, topic_id, producer_id] += size
    by_topic: dict[tuple[str, str], list[int]] = defaultdict(list)
    for topic, topic_id, leader in led:
        by_topic[topic, topic_id].append(leader)
    added: Counter[int] = Counter()
    for session in sessions:
        zone = dict(session["settings"] or ()).get("client.rack")
        if not zone or not session["record_count"]:
            continue
        key = session["topic"], session["topic_id"], session["producer_id"]
        epoch = session["producer_epoch"]  # -1: one session of all epochs
        size = every[key] if epoch < 0 else by_epoch[*key, epoch]
        keyless = size * session["keyless_record_count"] / session["record_count"]
        leaders = by_topic[key[0], key[1]]
        near = [leader for leader in leaders if racks.get(leader) == zone]
        for leader in near:
            added[leader] += keyless / len(near)
        for leader in leaders if near else ():
            added[leader] -= keyless / len(leaders)
    return dict(added)
