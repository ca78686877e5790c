"""Recommends another key where no hash can spread the keys, with the floor that the present ones set."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.advice.candidate_effects import REKEY
from pipeline.advice.recommendations import CandidateEffect
from pipeline.model.number_text import format_name, format_percent, format_ratio

_WORTH = 0.01


def find_rekeyings(
    shares: Sequence[Mapping[str, Any]], loads: Sequence[Mapping[str, Any]], topics: Sequence[Mapping[str, Any]]
) -> list[CandidateEffect]:
    """Computes brokers' loads if a topic's heavy keys were split so that their bytes fall evenly.

    Args:
        shares: Rows of `gold.broker_share` of one window.
        loads: Rows of `gold.partition_health` of the window.
        topics: Rows of `gold.topic_health` of the window.

    Returns:
        One per topic whose heavy keys move a hundredth of some broker's share, by topic.
    """
    total = sum(row["size_bytes"] for row in shares)
    by_topic = _heavy_bytes(loads)
    effects = []
    for row in sorted(topics, key=lambda row: (row["topic"], row["topic_id"])):
        heavy = by_topic.get((row["topic"], row["topic_id"]), {})
        if not row["heavy_key_count"] or max(map(abs, heavy.values()), default=0) <= _WORTH * total:
            continue
        ratios = {
            share["broker_id"]: (share["size_bytes"] - heavy.get(share["broker_id"], 0.0))
            / total
            / share["expected_share"]
            for share in shares
        }
        effects.append(_effect(row, ratios))
    return effects


def _heavy_bytes(loads: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[int, float]]:
    """Bytes above an even spread that heavy keys give each broker, by topic and id."""
    heavy: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in loads:
        if row["heavy_keys_bytes"] is not None:
            heavy[row["topic"], row["topic_id"]][row["leader_id"]] += row["heavy_keys_bytes"]
    return heavy


def _effect(topic: Mapping[str, Any], ratios: Mapping[int, float]) -> CandidateEffect:
    name, count = format_name(topic["topic"]), topic["heavy_key_count"]
    keys = "its heaviest key" if count == 1 else f"its {count:,} heaviest keys"
    return CandidateEffect(
        action="rekey",
        topic=topic["topic"],
        title=f"re-key {name}: split {keys}",
        cost=REKEY,
        basis="Their bytes spread evenly put",
        caveat=(
            f"With the present keys no hash and no rebalance brings its fullest partition below "
            f"{format_ratio(topic['best_peak_to_mean'])} the mean: one key holds {format_percent(topic['top_key_ratio'])}. "
            "Records are then in order by the new key only. The figure holds if the new keys spread evenly."
        ),
        ratios={broker_id: (ratio, ratio, ratio) for broker_id, ratio in ratios.items()},
    )
