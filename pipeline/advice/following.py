"""What a plan brings where load follows the broker: by a replay of the window with the plan's leaders."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from pipeline.measures.window_loads import fair_parts
from pipeline.model.number_text import format_name
from pipeline.model.placement import Brokers, PartitionMove, Partitions, Place, PlacedPartition
from pipeline.model.trust import Trust

Ends: TypeAlias = tuple[float, float, float]  # low, median, high
_MOST_DOUBTED = 0.25
"""Part of a window's bytes in topics whose replay is not trusted beyond which nothing is predicted from it."""


class Doubts(NamedTuple):
    """By topic how far its replayed shares may be off beyond their ranges; and why nothing can be predicted, or ""."""

    errors: Mapping[str, float]
    reason: str = ""


def weigh_doubts(
    topics: Iterable[str], trust: Mapping[str, str | None], tested: Mapping[str, float | None], sizes: Mapping[str, int]
) -> Doubts:
    """Small replays that are not trusted count with ranges widened by what the back-test was off; larger ones predict nothing."""
    doubted = sorted(topic for topic in topics if trust.get(topic) != Trust.TRUSTED)
    errors = {topic: tested.get(topic) for topic in doubted}
    unknown = next((topic for topic in doubted if errors[topic] is None), None)
    if unknown is not None:
        return Doubts({}, f"the replay of {format_name(unknown)} is {trust.get(unknown) or 'not there'}")
    if sum(sizes.get(topic, 0) for topic in doubted) > _MOST_DOUBTED * sum(sizes.values()):
        largest = max(doubted, key=lambda topic: sizes.get(topic, 0))
        return Doubts({}, f"the replay of {format_name(largest)} is {trust.get(largest)}")
    return Doubts({topic: points / 100 for topic, points in errors.items() if points is not None})


def widen(ends: Ends, error: float) -> Ends:
    """A share's range, further by an error to both sides.

    >>> widen((0.2, 0.25, 0.3), 0.5)
    (0.0, 0.25, 0.8)
    """
    low, median, high = ends
    return max(0.0, low - error), median, min(1.0, high + error)


class LeaderReplay(NamedTuple):
    """Of topics their share by broker; and why that is not known of all that were asked about, "" where it is."""

    shares: Mapping[str, Mapping[int, Ends]]
    reason: str = ""


def move_partitions(partitions: Partitions, moves: Iterable[PartitionMove]) -> tuple[PlacedPartition, ...]:
    """The partitions after a plan: its replicas are in sync, and the first of them leads."""
    wanted = {(move.topic, move.partition): move.new_replicas for move in moves}
    return tuple(
        one
        if (new := wanted.get((one.topic, one.partition))) is None
        else replace(one, replicas=new, leader_id=new[0], in_sync=new)
        for one in partitions
    )


def describe_ratios(ratios: Mapping[int, Ends], broker_id: int, target_ratio: float) -> dict[str, Any]:
    """Fields of a recommendation about share ratios by broker: its own and the highest one; none where nothing is predicted."""
    low, ratio, high = ratios.get(broker_id, (None, None, None))
    peak = max((median for _, median, _ in ratios.values()), default=None)
    return {
        "predicted_ratio": ratio,
        "predicted_ratio_low": low,
        "predicted_ratio_high": high,
        "predicted_peak_ratio": peak,
        "is_enough": peak is not None and peak <= target_ratio + 1e-9,
        "broker_ratios": {one: median for one, (_, median, _) in ratios.items()},
    }


def list_new_leaders(before: Partitions, after: Partitions, keyed: Collection[str]) -> dict[Place, int]:
    led = {(one.topic, one.partition): one.leader_id for one in before}
    return {
        (one.topic, one.partition): one.leader_id
        for one in after
        if one.topic not in keyed and one.leader_id != led.get((one.topic, one.partition), one.leader_id)
    }


def predict_following(
    partitions: Partitions, brokers: Brokers, shares: Mapping[str, Mapping[int, Ends]]
) -> dict[int, Ends]:
    """Low, median, high share ratio of live brokers: replayed topics by `shares`, the others by their partitions' leaders."""
    parts = fair_parts(brokers)
    loads = {broker_id: [0.0, 0.0, 0.0] for broker_id in parts}
    sizes = dict.fromkeys(shares, 0)
    for one in partitions:
        if one.topic in sizes:
            sizes[one.topic] += one.load_bytes
        elif one.leader_id in loads:
            loads[one.leader_id] = [end + one.load_bytes for end in loads[one.leader_id]]
    for topic, size in sizes.items():
        for broker_id, ends in shares[topic].items():
            if broker_id in loads:
                loads[broker_id] = [load + end * size for load, end in zip(loads[broker_id], ends, strict=True)]
    total = sum(one.load_bytes for one in partitions) or 1
    return {
        broker_id: (low / total / part, median / total / part, high / total / part)
        for broker_id, part in parts.items()
        for low, median, high in [loads[broker_id]]
    }
