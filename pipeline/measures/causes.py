"""Why a broker carries more than its share: an exact split into three terms, and the topics behind it.

With n_b partitions led by b, N all led partitions, T_t and P_t load and led partitions of topic t, n_tb those led by b:

    share_b - e_b = (n_b/N - e_b)                           leaders: it leads too many partitions for its capacity
                  + (sum_t n_tb (T_t/P_t) / T - n_b/N)      topic mix: it leads partitions of the busier topics
                  + (share_b - sum_t n_tb (T_t/P_t) / T)    partition skew: its partitions are hotter than their topic's

The terms belong to different owners: a preferred leader election, a rebalance, the producing team. Over all brokers each
term sums to zero, unless a topic lost its last leader within the window (its load then counts as skew).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.model.load import PartitionLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """The three terms of one broker's excess; they sum to `share - expected_share`.

    Attributes:
        leaders_term: Share it has for leading more partitions than its part of the capacity.
        topic_mix_term: Share it has for leading partitions of busier topics.
        partition_skew_term: Share it has because its partitions are hotter than their topics' mean.
    """

    leaders_term: float
    topic_mix_term: float
    partition_skew_term: float


def split_causes(loads: Sequence[PartitionLoad], expected_share: dict[int, float]) -> dict[int, Causes] | None:
    """The three terms for every broker.

    Args:
        loads: Loads of one window whose leader is known.
        expected_share: Fair share of every broker, summing to 1.

    Returns:
        Causes by broker id; None without traffic or where no partition is led at the window's end.
    """
    total = sum(load.size_bytes for load in loads)
    led = {(load.topic, load.topic_id, load.partition, load.leader_id) for load in loads if load.is_leader}
    if total <= 0 or not led:
        return None
    carried: Counter[int] = Counter()
    topic_bytes: Counter[tuple[str, str]] = Counter()
    for load in loads:
        carried[load.leader_id] += load.size_bytes
        topic_bytes[load.topic, load.topic_id] += load.size_bytes
    led_per_topic = Counter((topic, topic_id) for topic, topic_id, _, _ in led)
    led_per_broker = Counter(broker_id for *_, broker_id in led)
    even: Counter[int] = Counter()  # bytes if every topic were even over its partitions
    for (topic, topic_id, broker_id), count in Counter((t, i, b) for t, i, _, b in led).items():
        even[broker_id] += count * topic_bytes[topic, topic_id] / led_per_topic[topic, topic_id]  # type: ignore[assignment]
    return {
        broker_id: Causes(
            leaders_term=led_per_broker[broker_id] / len(led) - fair,
            topic_mix_term=even[broker_id] / total - led_per_broker[broker_id] / len(led),
            partition_skew_term=(carried[broker_id] - even[broker_id]) / total,
        )
        for broker_id, fair in expected_share.items()
    }
