"""Section of a mail about why a broker is hot: the exact split, whose job its largest part is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.advice.candidate_effects import describe_partitioner
from pipeline.alerting.content import Column, Section, Table
from pipeline.model.number_text import format_bytes, format_name, format_percent, format_points, format_ratio

if TYPE_CHECKING:
    from pipeline.alerting.evidence import BrokerShareEvidence, CauseTerms

MOST_PARTITIONS = 5
MOST_KEYS = 5
_NAME = 48
_INDENT = "· "
_OF_TOPIC = "Mean: of its topic's partitions."
_MEANINGS = {
    "leaders": "it leads more partitions than its part; elect preferred leaders, or move some",
    "topic mix": "it leads partitions of busier topics; spread these over the brokers",
    "partition skew": "its partitions get more than their topics' mean; look at keys, partitioner and batching of the producers",
    "heavy keys": "single keys hold more than a partition's part; no hash and no rebalance spreads them, split or re-key them",
    "hash luck": "what chance does to so many keys: real and lasting load, no fault of the partitioner; more partitions or other keys even it out",
    "remainder": "its partitions get more than their topics' mean; look at partitioner and batching of the producers, and at how fast the broker answers",
}
_NAMES = {"remainder": "neither heavy keys nor hash luck"}


def causes_section(evidence: BrokerShareEvidence) -> Section | None:
    """The exact split of the excess, and what its largest term means; None where unknown."""
    causes = evidence.causes
    if causes is None:
        return None
    terms, below = _terms(causes), _below_skew(causes)
    largest, meaning = _largest(causes)
    total = sum(points for _, points in terms)
    part = f"what is {_NAMES[meaning]}" if meaning in _NAMES else meaning
    of_it = f", of that {part}" if meaning != largest else ""
    rows = [(name, format_points(points)) for name, points in terms]
    rows += [(f"{_INDENT}{name}", format_points(points)) for name, points in below]
    return Section(
        title="Why it is hot",
        text=(
            f"The {format_points(total)} points above its fair share split exactly into three. "
            f"Most of it is {largest}{of_it}: {_MEANINGS[meaning]}.",
            *_partitioner(evidence, meaning),
        ),
        table=Table(
            columns=(Column(title="cause"), Column(title="points", is_number=True)),
            rows=tuple(rows),
            marked=frozenset({[name for name, _ in terms].index(largest)}),
            note="Partition skew splits on into the three rows below it." if below else "",
        ),
    )


def name_cause(evidence: BrokerShareEvidence) -> str:
    """The largest part of the excess and the topic with most of it, in a few words; "" where unknown."""
    if evidence.causes is None:
        return ""
    largest, meaning = _largest(evidence.causes)
    topic = f", most in topic {format_name(evidence.topics[0].topic, _NAME)}" if evidence.topics else ""
    part = f" ({_NAMES.get(meaning, meaning)})" if meaning != largest else ""
    return f"{largest}{topic}{part}"


def _terms(causes: CauseTerms) -> list[tuple[str, float]]:
    return [("leaders", causes.leaders), ("topic mix", causes.topic_mix), ("partition skew", causes.partition_skew)]


def _largest(causes: CauseTerms) -> tuple[str, str]:
    """The largest term, and of partition skew, where it is split, the largest part."""
    largest, below = max(_terms(causes), key=lambda term: term[1])[0], _below_skew(causes)
    meaning = max(below, key=lambda term: term[1])[0] if largest == "partition skew" and below else largest
    return largest, meaning


def _partitioner(evidence: BrokerShareEvidence, meaning: str) -> tuple[str, ...]:
    """Who places the records of the topic with most excess, where placing is what matters."""
    topic = evidence.topics[0].topic if evidence.topics else ""
    if meaning not in {"partition skew", "remainder", "hash luck"} or topic not in evidence.partitioners:
        return ()
    return (describe_partitioner(topic, evidence.partitioners[topic]),)


def _below_skew(causes: CauseTerms) -> list[tuple[str, float]]:
    if causes.heavy_keys is None or causes.hash_luck is None or causes.remainder is None:
        return []
    return [("heavy keys", causes.heavy_keys), ("hash luck", causes.hash_luck), ("remainder", causes.remainder)]


def partitions_section(evidence: BrokerShareEvidence) -> Section | None:
    """The hottest partitions the broker leads, each split by what makes it so; None where unknown."""
    shown = evidence.partitions[:MOST_PARTITIONS]
    if not shown:
        return None
    columns: tuple[Column, ...] = (
        Column(title="partition it leads"),
        Column(title="bytes", is_number=True),
        Column(title="over mean", is_number=True),
    )
    rows = [
        (
            f"{format_name(row.topic, _NAME)}-{row.partition}",
            format_bytes(row.size_bytes),
            format_ratio(row.ratio_to_mean),
        )
        for row in shown
    ]
    splits = [(row.heavy_keys_bytes, row.hash_luck_bytes, row.remainder_bytes) for row in shown]
    if any(part is None for split in splits for part in split):
        return Section(title="Its hottest partitions", table=Table(columns=columns, rows=tuple(rows), note=_OF_TOPIC))
    columns += tuple(Column(title=name, is_number=True) for name in ("heavy keys", "luck", "rest"))
    split_rows = [
        (*row, *(format_bytes(round(part or 0), sign=True) for part in split))
        for row, split in zip(rows, splits, strict=True)
    ]
    note = f"{_OF_TOPIC} The last three add up to what is above it."
    return Section(title="Its hottest partitions", table=Table(columns=columns, rows=tuple(split_rows), note=note))


def keys_section(evidence: BrokerShareEvidence) -> Section | None:
    """The heaviest keys on partitions the broker leads, by their pseudonyms; None where none is heavy."""
    shown = evidence.hot_keys[:MOST_KEYS]
    if not any(row.is_heavy for row in shown):
        return None
    columns = (
        Column(title="key"),
        Column(title="partition"),
        Column(title="bytes", is_number=True),
        Column(title="of its topic", is_number=True),
    )
    rows = tuple(
        (
            row.key,
            f"{format_name(row.topic, _NAME)}-{row.partition}",
            format_bytes(row.size_bytes),
            format_percent(row.topic_ratio, 1),
        )
        for row in shown
    )
    return Section(
        title="Its heaviest keys",
        table=Table(
            columns=columns,
            rows=rows,
            marked=frozenset(place for place, row in enumerate(shown) if row.is_heavy),
            note="Marked: more than a partition's part, no hash spreads it. Keys are shown by pseudonym.",
        ),
    )
