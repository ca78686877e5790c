"""Why a broker is hot, in words."""

from enum import StrEnum

from pipeline.advice.candidate_effects import describe_partitioner
from pipeline.evidence.incident import BrokerShareEvidence, ShareCauses
from pipeline.model.number_text import format_bytes, format_name, format_ratio
from pipeline.partitioners.clients.java import RACK_AWARE

_MOST_PARTITIONS = 5
NAME_LENGTH = 48


class Cause(StrEnum):
    """A part of what a broker has above its share, as a mail names it."""

    LEADERS = "leaders"
    TOPIC_MIX = "topic mix"
    PARTITION_SKEW = "partition skew"
    HEAVY_KEYS = "heavy keys"
    HASH_LUCK = "hash luck"
    REMAINDER = "remainder"
    RACK_AWARE = "rack-aware producers"


_MEANINGS = {
    Cause.LEADERS: "it leads more partitions than its part; elect preferred leaders, or move some",
    Cause.TOPIC_MIX: "it leads partitions of busier topics; spread these over the brokers",
    Cause.PARTITION_SKEW: "its partitions get more than their topics' mean; look at keys, partitioner and batching of the producers",
    Cause.HEAVY_KEYS: "single keys hold more than a partition's part; no hash and no rebalance spreads them, split or re-key them",
    Cause.HASH_LUCK: "chance gives this to so many keys: real and lasting load, no fault of the partitioner; move partitions to other brokers now, more partitions or other keys even it out for good",
    Cause.REMAINDER: "its partitions get more than their topics' mean; look at partitioner and batching of the producers, and at how fast the broker answers",
    Cause.RACK_AWARE: "its topic's producers keep to leaders in their own rack, and its rack sends more than its part; give each rack leaders and capacity as it has producers, or set partitioner.rack.aware=false on them",
}
_PLACING = frozenset({Cause.PARTITION_SKEW, Cause.REMAINDER, Cause.HASH_LUCK, Cause.RACK_AWARE})
"""What follows from how producers place records."""
_NAMES = {Cause.REMAINDER: "neither heavy keys nor hash luck"}
_IN_SHORT = {
    Cause.LEADERS: "it leads more partitions than its part",
    Cause.TOPIC_MIX: "it leads partitions of busier topics",
    Cause.PARTITION_SKEW: "its partitions get more than others of their topics",
    Cause.HEAVY_KEYS: "its partitions hold heavy keys",
    Cause.HASH_LUCK: "by chance many keys hash to its partitions",
    Cause.REMAINDER: "producers send more to its partitions, whatever the keys",
    Cause.RACK_AWARE: "rack-aware producers keep to their own rack",
}
"""The first screen's words, for a reader who does not know the terms."""


def _skew_terms(causes: ShareCauses) -> dict[Cause, float]:
    parts = {
        Cause.HEAVY_KEYS: causes.heavy_keys_term,
        Cause.HASH_LUCK: causes.hash_luck_term,
        Cause.REMAINDER: causes.remainder_term,
    }
    known = {name: points for name, points in parts.items() if points is not None}
    if len(known) < len(parts):
        return {}
    racks = causes.rack_aware_term
    return known if not racks else {**known, Cause.RACK_AWARE: racks, Cause.REMAINDER: known[Cause.REMAINDER] - racks}


def _largest(causes: ShareCauses, evidence: BrokerShareEvidence) -> tuple[Cause, Cause]:
    """The largest term, and of partition skew its largest part, as far as that is known, or what the producers do."""
    terms = {
        Cause.LEADERS: causes.leaders_term,
        Cause.TOPIC_MIX: causes.topic_mix_term,
        Cause.PARTITION_SKEW: causes.partition_skew_term,
    }
    parts = _skew_terms(causes)
    largest = max(terms, key=lambda name: terms[name])
    part = max(parts, key=lambda name: parts[name]) if largest is Cause.PARTITION_SKEW and parts else largest
    partitioner = evidence.partitioners.get(evidence.topics[0]) if evidence.topics else None
    is_split = evidence.causes is not None and evidence.causes.rack_aware_term is not None
    is_by_racks = not is_split and partitioner == RACK_AWARE and part in {Cause.PARTITION_SKEW, Cause.REMAINDER}
    return largest, Cause.RACK_AWARE if is_by_racks else part


def name_cause(evidence: BrokerShareEvidence) -> str:
    """The largest part of the excess and the topic with most of it, in a few words; "" where unknown."""
    if evidence.causes is None:
        return ""
    meaning = Cause.HASH_LUCK if evidence.is_hash_luck else _largest(evidence.causes, evidence)[1]
    topic = _find_topic(evidence, meaning)
    return f"{_IN_SHORT[meaning]}" + (f", most in topic {format_name(topic, NAME_LENGTH)}" if topic else "")


def _find_topic(evidence: BrokerShareEvidence, meaning: Cause) -> str:
    """The topic with most of the excess; where that is for rack-aware producers, of the topics that they send to."""
    aware = [topic for topic in evidence.topics if evidence.partitioners.get(topic) == RACK_AWARE]
    return next(iter((aware if meaning is Cause.RACK_AWARE else ()) or evidence.topics), "")


def advise_cause(evidence: BrokerShareEvidence) -> str:
    """Names what to check where no action is recommended; "" where the cause is unknown."""
    if evidence.causes is None:
        return ""
    meaning = Cause.HASH_LUCK if evidence.is_hash_luck else _largest(evidence.causes, evidence)[1]
    return _MEANINGS[meaning].partition("; ")[2]


def explain_cause(evidence: BrokerShareEvidence) -> tuple[str, ...]:
    """Paragraphs on what the largest term means, on hash luck, and on the partitioner where it matters; none where unknown."""
    if evidence.causes is None:
        return ()
    largest, meaning = _largest(evidence.causes, evidence)
    of_that = "what is " if meaning in _NAMES else ""
    part = f", of that {of_that}{_NAMES.get(meaning, meaning)}" if meaning != largest else ""
    topic = _find_topic(evidence, meaning)
    is_placing = meaning in _PLACING and topic in evidence.partitioners
    return (
        f"Most of it is {largest}{part}: {_MEANINGS[meaning]}.",
        *((_describe_luck(evidence),) if evidence.is_hash_luck else ()),
        *((describe_partitioner(topic, evidence.partitioners[topic]),) if is_placing else ()),
    )


def _describe_luck(evidence: BrokerShareEvidence) -> str:
    lucky = [row for row in evidence.partitions if (row.hash_luck_bytes or 0.0) > 0]
    lucky.sort(key=lambda row: -(row.hash_luck_bytes or 0.0))
    shown = ", ".join(
        f"{format_name(row.topic, NAME_LENGTH)}-{row.partition} ({format_bytes(round(row.hash_luck_bytes or 0.0), sign=True)}"
        f" of {format_bytes(row.size_bytes)})"
        for row in lucky[:_MOST_PARTITIONS]
    )
    more = f" and {len(lucky) - _MOST_PARTITIONS} more" if len(lucky) > _MOST_PARTITIONS else ""
    text = (
        f"It is hot by hash luck: without it it would be at {format_ratio(evidence.broker.ratio_without_luck or 0.0)}, "
        f"below the limit of {format_ratio(evidence.change.limit_value)}."
    )
    if shown:
        total = format_bytes(round(sum(row.hash_luck_bytes or 0.0 for row in lucky)))
        text += f" Keys that happen to hash together bring {total} more than an even spread to {shown}{more}."
    return (
        f"{text} No producer does anything wrong, and waiting does not help: the same keys come back. Move one of these "
        "partitions to a broker with room; with more partitions, or keys that split further, less is left to luck."
    )
