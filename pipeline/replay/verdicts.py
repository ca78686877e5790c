"""Which hash placed a topic's keys: the row of `gold.hash_verdicts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.measures.hash_verdicts import Explained, HashVerdict, judge_hash
from pipeline.replay import buckets
from pipeline.replay import placement_kernels as kernels
from pipeline.replay.plan import FAMILIES
from pipeline.replay.topic_results import recorded_loads

if TYPE_CHECKING:
    from pipeline.replay.topic_results import TopicWindow

_FAMILY_STRATEGIES = {family.name: family.strategies for family in FAMILIES}


def explain(facts: TopicWindow) -> tuple[dict[str, Explained], Explained]:
    """What each family explains of the recorded keys, and what there is to explain: all keys but the empty one."""
    keyed = facts.keyed
    explained = {}
    judged = Explained(0, 0)
    for number, placing in enumerate(facts.topic.placings):
        if placing.candidate or number not in facts.sums:
            continue
        totals = facts.sums[number].totals
        keys = int(keyed[buckets.KEY_COUNT] - totals[kernels.KEPT_KEYS])
        records = int(keyed[buckets.KEYED_RECORDS] - totals[kernels.KEPT_RECORDS])
        # Families of texts keep more than the empty key: bytes that are no text.
        judged = Explained(max(judged.key_count, keys), max(judged.record_count, records))
        explained[placing.family] = Explained(
            keys - int(totals[kernels.MOVED_KEYS]), records - int(totals[kernels.MOVED_RECORDS])
        )
    return explained, judged


def judge_topic(facts: TopicWindow) -> HashVerdict:
    """Which family placed the topic's keys."""
    explained, judged = explain(facts)
    return judge_hash(explained, judged.key_count, judged.record_count, facts.partition_count)


def verdict_row(facts: TopicWindow, verdict: HashVerdict) -> dict[str, Any]:
    """The row of `gold.hash_verdicts`."""
    explained, judged = explain(facts)
    return {
        "partition_count": facts.partition_count,
        "verdict": verdict.verdict,
        "strategies": ", ".join(_FAMILY_STRATEGIES.get(verdict.best, ())),
        "tied_with": ", ".join(verdict.tied_with) if verdict.best else "",
        "explained_ratio": verdict.explained_ratio,
        "chance_ratio": verdict.chance_ratio,
        "chance_p_value": verdict.chance_p_value,
        "key_count": judged.key_count,
        "record_count": judged.record_count,
        "unjudged_record_count": int(recorded_loads(facts)[:, kernels.CELL_RECORDS].sum()) - judged.record_count,
        "explained_key_counts": {family: found.key_count for family, found in explained.items()},
        "explained_record_counts": {family: found.record_count for family, found in explained.items()},
        "reason": verdict.reason,
    }
