"""The brief, which opens mail and report: what, since when, why, what to do first and what that changes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.advice.candidate_effects import WITH_CARE, describe_partitioner
from pipeline.config.section import is_record_source
from pipeline.evidence.incident import BrokerShareEvidence, IncidentEvidence, ShareCauses
from pipeline.model.number_text import (
    format_bytes,
    format_clock,
    format_ms,
    format_name,
    format_percent,
    format_ratio,
    format_span,
    join_names,
)
from pipeline.model.promise import Recommendation
from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.rules import RULES, SOURCE_ARRIVAL, format_measure

_MOST_PARTITIONS = 5
NAME_LENGTH = 48


class Cause(StrEnum):
    """A part of what a broker has above its share, as a mail names it."""

    LEADERS = "leaders"
    TOPIC_MIX = "topic mix"
    PARTITION_SKEW = "partition skew"
    HEAVY_KEYS = "heavy keys"
    HASH_LUCK = "hash luck"
    REMAINDER = "neither heavy keys nor hash luck"
    RACK_AWARE = "rack-aware producers"


_MEANINGS = {
    Cause.LEADERS: "it leads more than its part of the partitions; elect preferred leaders, or move some",
    Cause.TOPIC_MIX: "it leads partitions of busier topics; spread these over the brokers",
    Cause.PARTITION_SKEW: "its partitions get more than their topics' mean; look at keys, partitioner and batching of the producers",
    Cause.HEAVY_KEYS: "single keys have more bytes than a partition's fair part; split them or use other keys: no hash and no rebalance can spread a single key",
    Cause.HASH_LUCK: "many keys hash to its partitions by chance, which is real and lasting load and no mistake of the partitioner; move partitions to other brokers now; more partitions, or other keys, even the load out for good",
    Cause.REMAINDER: "its partitions get more than their topics' mean; look at partitioner and batching of the producers, and at how fast the broker answers",
    Cause.RACK_AWARE: "the topic's producers send to leaders in their own rack, and its rack has more than its part of the producers; give each rack leaders and capacity in proportion to its producers, or set partitioner.rack.aware=false on the producers",
}
_PLACING = frozenset({Cause.PARTITION_SKEW, Cause.REMAINDER, Cause.HASH_LUCK, Cause.RACK_AWARE})
"""What follows from how producers place records."""
_IN_SHORT = {
    Cause.LEADERS: "it leads more than its part of the partitions",
    Cause.TOPIC_MIX: "it leads partitions of busier topics",
    Cause.PARTITION_SKEW: "its partitions get more than others of their topics",
    Cause.HEAVY_KEYS: "its partitions hold heavy keys",
    Cause.HASH_LUCK: "by chance many keys hash to its partitions",
    Cause.REMAINDER: "producers send more to its partitions, not because of keys",
    Cause.RACK_AWARE: "rack-aware producers send to leaders in their own rack",
}  # the first screen's words, for a reader who does not know the terms


def _largest(causes: ShareCauses, evidence: BrokerShareEvidence) -> tuple[Cause, Cause]:
    """The largest term, and of partition skew its largest part, as far as that is known, or what the producers do."""
    terms = {Cause.LEADERS: causes.leaders_term, Cause.TOPIC_MIX: causes.topic_mix_term}
    terms[Cause.PARTITION_SKEW] = causes.partition_skew_term
    largest = part = max(terms, key=lambda name: terms[name])
    keys, luck, rest = causes.heavy_keys_term, causes.hash_luck_term, causes.remainder_term
    if largest is Cause.PARTITION_SKEW and keys is not None and luck is not None and rest is not None:
        racks = causes.rack_aware_term or 0.0
        parts = {Cause.HEAVY_KEYS: keys, Cause.HASH_LUCK: luck, Cause.REMAINDER: rest - racks}
        parts |= {Cause.RACK_AWARE: racks} if racks else {}
        part = max(parts, key=lambda name: parts[name])
    partitioner = evidence.partitioners.get(evidence.topics[0]) if evidence.topics else None
    is_by_racks = partitioner == RACK_AWARE and part in {Cause.PARTITION_SKEW, Cause.REMAINDER}
    return largest, Cause.RACK_AWARE if is_by_racks and causes.rack_aware_term is None else part


def _find_topic(evidence: BrokerShareEvidence, meaning: Cause) -> str:
    """The topic with most of the excess; where that is for rack-aware producers, of the topics that they send to."""
    aware = [topic for topic in evidence.topics if evidence.partitioners.get(topic) == RACK_AWARE]
    return next(iter((aware if meaning is Cause.RACK_AWARE else ()) or evidence.topics), "")


def explain_cause(evidence: BrokerShareEvidence) -> tuple[str, ...]:
    """Paragraphs on what the largest term means, on hash luck, and on the partitioner where it matters; none where unknown."""
    if evidence.causes is None:
        return ()
    largest, meaning = _largest(evidence.causes, evidence)
    part = f", and most of that is {meaning}" if meaning != largest else ""
    topic = _find_topic(evidence, meaning)
    is_placing = meaning in _PLACING and topic in evidence.partitioners
    return (
        f"Most of the excess is {largest}{part}: {_MEANINGS[meaning]}.",
        *((_describe_luck(evidence),) if evidence.is_hash_luck else ()),
        *((describe_partitioner(topic, evidence.partitioners[topic]),) if is_placing else ()),
    )


def _describe_luck(evidence: BrokerShareEvidence) -> str:
    lucky = [row for row in evidence.partitions if (row.hash_luck_bytes or 0.0) > 0]
    lucky.sort(key=lambda row: -(row.hash_luck_bytes or 0.0))
    named = [
        f"{format_name(row.topic, NAME_LENGTH)}-{row.partition} ({format_bytes(round(row.hash_luck_bytes or 0.0), sign=True)}"
        f" of {format_bytes(row.size_bytes)})"
        for row in lucky
    ]
    text = (
        f"It is hot by hash luck: without hash luck it would be at {format_ratio(evidence.broker.ratio_without_luck or 0.0)}, "
        f"below the limit of {format_ratio(evidence.change.limit_value)}."
    )
    if named:
        total = format_bytes(round(sum(row.hash_luck_bytes or 0.0 for row in lucky)))
        text += f" Keys that happen to hash together bring {total} more than an even spread to {join_names(named, _MOST_PARTITIONS)}."
    return (
        f"{text} No producer does anything wrong, and waiting does not help: the same keys come back. Move one of these "
        "partitions to a broker with room; with more partitions, or keys that split further, less is left to luck."
    )


_REASON_LENGTH = 600
_MOST_MERGED = 3
_BASIS_LENGTH = 100
_SENTENCES = re.compile(r"(?<=[.?!])\s+(?=[A-Z0-9])")
_SAID_ELSEWHERE = ("the highest broker", "producers wait")  # by `Predicted` and `Effect`
_EVEN = 0.005  # a predicted range narrower than this is shown as one number
WITHDRAWN = "withdrawn: by the windows and limits known now there was no incident"
EXCUSED = "withdrawn: it is above the limit by hash luck alone, which gate.hash_luck excuses"
NOT_JUDGED_ANY_MORE = "no window of its subject is judged any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    headline: str
    facts: tuple[tuple[str, str], ...]


def describe_brief(evidence: IncidentEvidence) -> Brief:
    change = evidence.change
    if isinstance(evidence, BrokerShareEvidence):
        brief = _describe_share(evidence)
    elif change.rule == SOURCE_ARRIVAL:
        brief = _describe_source(evidence)
    else:
        brief = _describe_rule(evidence)
    happened = [("Happened", format_name(event, _REASON_LENGTH)) for event in evidence.events]
    if evidence.merged:
        names = ", ".join(evidence.merged[:_MOST_MERGED])
        happened.insert(0, ("Before", f"it was reported as {names}; late windows show that this is the same incident"))
    place = next((at for at, (question, _) in enumerate(brief.facts) if question.startswith("Do")), len(brief.facts))
    return Brief(headline=brief.headline, facts=(*brief.facts[:place], *happened, *brief.facts[place:]))


def _since(evidence: IncidentEvidence, counted: str = "") -> str:
    change = evidence.change
    text = f"{format_clock(change.since_ms)} ({format_span(evidence.window.end_ms - change.since_ms)}){counted}"
    if change.moved_from_ms is not None:
        text += f"; {format_clock(change.moved_from_ms)} was reported before late windows came"
    return text


def _over(evidence: IncidentEvidence) -> tuple[tuple[str, str], ...]:
    change = evidence.change
    if change.state == "withdrawn":
        is_luck = (
            isinstance(evidence, BrokerShareEvidence) and evidence.is_hash_luck and evidence.gate.hash_luck == "warn"
        )
        over = EXCUSED if is_luck else WITHDRAWN
        return (("Over", over), ("Reported", f"since {_since(evidence)}"), ("Do", "nothing"))
    facts = [("Over", f"since {format_clock(evidence.window.end_ms)}"), ("Began", _since(evidence))]
    if change.peak_value is not None:
        limit = format_measure(change.rule, change.limit_value)
        facts.append(("Peak", f"{format_measure(change.rule, change.peak_value)}, limit {limit}"))
    return (*facts, ("Do", "nothing"))


def _describe_share(evidence: BrokerShareEvidence) -> Brief:
    (share, ratio), fair, change = evidence.share, evidence.broker.expected_share, evidence.change
    shares = f"{format_percent(share, 1)} of the bytes, {format_percent(fair, 1)} would be fair"
    if not change.is_open:
        recovered = "" if change.state == "withdrawn" else " recovered"
        headline = f"Broker {evidence.broker_id}{recovered}: {shares} ({format_ratio(ratio)})"
        return Brief(headline=headline, facts=_over(evidence))
    facts = [("Since", _since(evidence, f", in {evidence.above_count} of the last {evidence.gate.n} windows"))]
    cause: Cause | None = None
    if evidence.causes is not None:
        cause = Cause.HASH_LUCK if evidence.is_hash_luck else _largest(evidence.causes, evidence)[1]
        topic = _find_topic(evidence, cause)
        in_topic = f", most in topic {format_name(topic, NAME_LENGTH)}" if topic else ""
        facts.append(("Why", f"{_IN_SHORT[cause]}{in_topic}"))
    if (latency := evidence.latency) is not None:
        own_ms = latency.request_latency_avg_ms
        peers_ms = own_ms / latency.ratio_to_peers
        waits = f"{format_ms(own_ms)} for it, {format_ms(peers_ms)} for the others"
        facts.append(("Effect", f"{'' if own_ms > peers_ms else 'none yet: '}producers wait {waits}"))
    if evidence.recommendations:
        facts += _describe_first(evidence.recommendations, fair)
    elif cause is not None:
        advice = _MEANINGS[cause].partition("; ")[2]
        facts.append(("Do first", f"{advice} (no action was found whose effect can be predicted)"))
    limit = format_ratio(change.limit_value)
    headline = f"Broker {evidence.broker_id} carries {shares} ({format_ratio(ratio)}, limit {limit})"
    return Brief(headline=headline, facts=tuple(facts))


def _describe_first(recommendations: Sequence[Recommendation], fair: float) -> list[tuple[str, str]]:
    first, *others = recommendations
    facts = [("Do first", first.title.replace("`", ""))]
    if first.predicted_ratio is None:
        facts.append(("Predicted", "no figure: it depends on what you find"))
    else:
        enough = "enough to resolve it" if first.is_enough else _fall_short(first)
        copied = format_bytes(first.moved_bytes) if first.moved_bytes else "nothing"
        copies = f"; copies {copied}" if first.moved_bytes or first.election_json is not None else ""
        doubted = ", by a replay that is not trusted" if WITH_CARE in first.text else ""
        ends = (first.predicted_ratio_low, first.predicted_ratio, first.predicted_ratio_high)
        facts.append(("Predicted", f"share then {format_predicted(fair, *ends)}, {enough}{copies}{doubted}"))
    said = ""
    for sentence in _SENTENCES.split(first.text.replace("`", "")):
        if any(known in sentence.lower() for known in _SAID_ELSEWHERE):
            continue
        if len(said) + len(sentence) > _BASIS_LENGTH and said:
            break
        said = f"{said} {sentence}".strip()
    facts.append(("Basis", said))
    other = next((one for one in others if one.predicted_ratio is not None), None)
    if other is not None:
        title = other.title.replace("`", "")
        enough = "enough" if other.is_enough else _fall_short(other)
        enough += "; its replay is not trusted" if WITH_CARE in other.text else ""
        facts.append(("Or", f"{title} (then {format_percent((other.predicted_ratio or 0.0) * fair, 1)}, {enough})"))
    return facts


def _fall_short(row: Recommendation) -> str:
    """Why an action does not end the incident: the broker stays above, or another one comes to be."""
    peak, own = row.predicted_peak_ratio, row.predicted_ratio
    if peak is None or own is None or peak < own + _EVEN:
        return "not enough alone"
    return f"not enough: another broker is then at {format_ratio(peak)}"


def _describe_source(evidence: IncidentEvidence) -> Brief:
    source = format_name(evidence.change.subject)
    if not evidence.change.is_open:
        *over, _ = _over(evidence)
        do = ("Do", f"judge the windows in between: {evidence.command('run')} --window {evidence.span}")
        return Brief(headline=f"Source {source} is complete again", facts=(*over, do))
    effect = "brokers' shares of these windows are not judged"
    if not is_record_source(evidence.change.subject):
        effect = "shares are judged without it; numbers that only it reports are unknown"
    return Brief(
        headline=f"Source {source} is incomplete or late",
        facts=(
            ("Since", _since(evidence)),
            ("Missing", format_name(evidence.reason, _REASON_LENGTH)),
            ("Effect", effect),
            ("Do first", f"{evidence.command('doctor')} tries every source and says why one cannot be reached"),
        ),
    )


def _describe_rule(evidence: IncidentEvidence) -> Brief:
    change, rule, name = (evidence.change, RULES[evidence.change.rule], format_name(evidence.change.subject, 120))
    subject = f"{name[:1].upper()}{name[1:]}"
    if not change.is_open:
        recovered = "" if change.state == "withdrawn" else " recovered,"
        return Brief(headline=f"{subject}{recovered} no longer: {rule.meaning}", facts=_over(evidence))
    value = "" if change.value is None else f"{format_measure(change.rule, change.value)}, "
    headline = f"{subject}: {rule.meaning} ({value}limit {format_measure(change.rule, change.limit_value)})"
    why = ("Why", format_name(evidence.reason, _REASON_LENGTH))
    return Brief(headline=headline, facts=(("Since", _since(evidence)), why, ("Do first", rule.advice)))


def format_predicted(fair: float, low: float | None, ratio: float | None, high: float | None) -> str:
    """Predicted share, and its range where chance or unknown keys leave one; "" where none was predicted."""
    share = "" if ratio is None else format_percent(ratio * fair, 1)
    if low is None or high is None or high - low <= _EVEN:
        return share
    least, most = (format_percent(end * fair, 1).removesuffix(" %") for end in (low, high))
    return f"{share} [{least}, {most}]"
