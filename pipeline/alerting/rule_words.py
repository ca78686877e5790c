"""The rules in words, and their measures in the units they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.model.number_text import format_count, format_percent, format_ratio

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class RuleWords:
    """A rule, as a mail tells it.

    Attributes:
        meaning: What is so where the limit is broken.
        advice: What to do first.
        format: Writes its measure.
    """

    meaning: str
    advice: str
    format: Callable[[float], str]


def _hours(hours: float) -> str:
    return f"{hours:.0f} h"


RULES = {
    "topic_peak": RuleWords("a partition carries far more than its topic's mean", "Look at the topic's keys in `gold.hot_keys`, and at its producers' partitioner.", format_ratio),
    "under_replicated": RuleWords("partitions are under-replicated", "Look for a broker that is down or slow: `gold.topic_health`, `bronze.cluster_state`.", format_count),
    "below_min_isr": RuleWords("partitions refuse acks=all", "Bring the missing replicas back; lower `min.insync.replicas` only if losing records is worse than waiting.", format_count),
    "leaderless": RuleWords("partitions have no leader", "No in-sync replica is alive: bring a broker of theirs back before an unclean election.", format_count),
    "lagging_replicas": RuleWords("replicas are out of the in-sync set", "Look at disk and network of the followers' brokers.", format_count),
    "replica_size_spread": RuleWords("replicas of one partition differ in size", "A replica that was cleaned late or copied twice: compare `kafka-log-dirs`.", format_ratio),
    "preferred_leader": RuleWords("partitions are not led by their preferred leaders", "`kafka-leader-election --election-type preferred --all-topic-partitions` copies nothing.", format_percent),
    "latency_to_peers": RuleWords("producers wait longer for a broker than for its peers", "Look at its disk, its network, and the share it carries.", format_ratio),
    "latency_to_history": RuleWords("producers wait longer for a broker than they did", "Look at what changed on it.", format_ratio),
    "segments_past_retention": RuleWords("segments lie on although their retention is over", "Look at the broker's log cleaner and its log for failed deletions.", format_count),
    "disk_hours_to_full": RuleWords("a disk will be full soon", "Shorten retention, move replicas, or add disks.", _hours),
    "assignment_skew": RuleWords("a consumer reads far more than the others of its group", "Try the assignor with the lowest figure.", format_ratio),
}  # fmt: skip
_OTHERS: dict[str, Callable[[float], str]] = {"broker_share": format_ratio, "source_arrival": format_percent}


def format_measure(rule: str, value: float) -> str:
    """Writes a measure, or a limit on it, as its rule is told.

    >>> [format_measure(rule, 12.0) for rule in ("broker_share", "leaderless", "disk_hours_to_full")]
    ['12.0x', '12', '12 h']
    """
    return (_OTHERS.get(rule) or RULES[rule].format)(value)
