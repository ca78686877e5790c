"""Load that follows its broker: what a plan brings, by a replay with its leaders, and what to look at on a slow broker (Kafka's `RequestMetrics`)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from pipeline.measures.outages import is_slow
from pipeline.measures.window_loads import fair_parts
from pipeline.model.number_text import format_clock, format_ms, format_name, format_percent, format_ratio, join_names
from pipeline.model.placement import Brokers, PartitionMove, Partitions, Place, PlacedPartition
from pipeline.model.promise import Recommendation, Trust

Ends: TypeAlias = tuple[float, float, float]  # low, median, high
_MOST_DOUBTED = 0.25  # part of a window's bytes in topics whose replay is not trusted, beyond which it predicts nothing


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
    wanted = {(move.topic, move.partition): move.new_replicas for move in moves}
    moved = []
    for one in partitions:
        new = wanted.get((one.topic, one.partition))
        moved.append(one if new is None else replace(one, replicas=new, leader_id=new[0], in_sync=new))
    return tuple(moved)


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
    total = sum_carried(partitions, loads, sizes) or 1
    return {
        broker_id: (low / total / part, median / total / part, high / total / part)
        for broker_id, part in parts.items()
        for low, median, high in [loads[broker_id]]
    }


def sum_carried(partitions: Partitions, broker_ids: Collection[int], replayed: Collection[str]) -> int:
    """Bytes of topics that were replayed, and of partitions that these brokers lead: what nobody leads is load of none."""
    return sum(one.load_bytes for one in partitions if one.topic in replayed or one.leader_id in broker_ids)


CHECK_BROKER = "check_broker"
_STAGES = {
    "requestqueue": ("in the request queue", "too few request handlers, or busy ones"),
    "local": ("appending to its log", "its disk, or the page cache"),
    "remote": ("waiting for followers", "followers or the network to them (`acks=all`)"),
    "throttle": ("throttled", "a quota"),
    "responsequeue": ("in the response queue", "its network threads"),
    "responsesend": ("sending responses", "the network to its clients"),
}
_BUSY = 0.3  # idle part of handlers or network threads below which Kafka's documents call them overloaded
_LEAST_SHOWN_MS = 0.005  # less is written as 0.00 ms; brokers round each request's time to whole milliseconds
_MOST_HINTED = 0.5  # part of the broker's time from which a stage names the place to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswers:
    latency_avg_ms: float
    ratio_to_peers: float
    since_ms: int | None = None  # start of the first window of those in a row in which it was slow
    is_since_first: bool = False  # windows before that are not known
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # mean time of its requests by stage
    peer_stages_ms: Mapping[str, float] = field(default_factory=dict)  # median of the other brokers' means
    idle_ratios: Mapping[str, float] = field(default_factory=dict)  # of `request handlers` and `network threads`
    throttled_ms: Mapping[str, float] = field(default_factory=dict)  # clients' quotas, if it is slow to no other client
    changes: tuple[str, ...] = ()  # what else changed when it began, in words

    @property
    def peers_ms(self) -> float:
        return self.latency_avg_ms / self.ratio_to_peers

    @property
    def is_slow(self) -> bool:
        return is_slow(self.latency_avg_ms, self.ratio_to_peers)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotBroker:
    broker_id: int
    window_start_ms: int
    share_ratio: float
    target_ratio: float  # ratio below which incidents resolve
    load_follows: bool  # most of its excess is neither heavy keys nor hash luck, nor how leaders are spread
    keyed: frozenset[str] = frozenset()  # topics placed by keys: their load stays with the partitions
    answers: BrokerAnswers | None = None  # how fast it answers; None where nobody says
    # share ratio of every broker, were this one as fast as the others: low, median, high; empty where nobody knows
    healed: Mapping[int, Ends] = field(default_factory=dict)
    max_moved_bytes: int | None = None  # what its plan may copy; None for no limit
    fair_share: float = 0.0
    peak_ratio: float = 0.0  # of the window's highest broker
    unit_count: float | None = None  # batches of the window that were placed independently; None where nobody counted
    replayed: LeaderReplay | None = None  # the window under the leaders of `plan_following`, if somebody replayed it


def describe_ratios(ratios: Mapping[int, Ends], hot: HotBroker) -> dict[str, Any]:
    """Fields of a recommendation for a broker about share ratios: its own and the highest one, now and as predicted."""
    low, ratio, high = ratios.get(hot.broker_id, (None, None, None))
    peak = max((median for _, median, _ in ratios.values()), default=None)
    return {
        "window_start_ms": hot.window_start_ms,
        "subject": f"broker {hot.broker_id}",
        "share_ratio": hot.share_ratio,
        "predicted_ratio": ratio,
        "predicted_ratio_low": low,
        "predicted_ratio_high": high,
        "predicted_peak_ratio": peak,
        "is_enough": peak is not None and peak <= hot.target_ratio + 1e-9,
        "broker_ratios": {one: median for one, (_, median, _) in ratios.items()},
    }


def check_broker(hot: HotBroker) -> Recommendation:
    broker_id, answers = hot.broker_id, hot.answers
    is_slow = answers is not None and answers.is_slow
    predicted = describe_ratios(hot.healed if is_slow else {}, hot)
    if answers is not None and is_slow:
        title = f"broker {broker_id} is slow: look at its disk, network, neighbours"
        if answers.throttled_ms:
            names = _name_throttled(answers)
            title = f"broker {broker_id} is slow to producers that a quota delays: raise it for {names}"
        text = describe_answers(broker_id, answers)
        if (peak := predicted["predicted_peak_ratio"]) is not None:
            text += f" Were it as fast as the others, the replay puts the highest broker at {format_ratio(peak)}."
    else:
        title = f"find out why broker {broker_id} gets more: how fast it answers, and its producers' batching"
        waits = "How long its clients wait is not known: scrape their metrics."
        if answers is not None:
            own, others = format_ms(answers.latency_avg_ms), format_ms(answers.peers_ms)
            waits = f"It is not slow: producers wait {own} for it, {others} for the others."
        text = f"Load follows this broker: no key that is known explains it, nor do leaders. {waits}"
    return Recommendation(action=CHECK_BROKER, title=title, text=text, topic="", **predicted)


def _name_throttled(answers: BrokerAnswers) -> str:
    return "client " + join_names([format_name(name, 40) for name in sorted(answers.throttled_ms)], 2)


def describe_answers(broker_id: int, answers: BrokerAnswers) -> str:
    own, others = format_ms(answers.latency_avg_ms), format_ms(answers.peers_ms)
    ratio = format_ratio(answers.ratio_to_peers)
    said = [f"Producers wait {own} for broker {broker_id}, {others} for the others ({ratio})."]
    hint, stages = _describe_stages(answers)
    if answers.throttled_ms:
        longest, clients = format_ms(max(answers.throttled_ms.values())), _name_throttled(answers)
        hint = f"A quota delays produce requests of {clients} by up to {longest}, and the broker is slow to no other client."
    said += [hint] if hint else []  # what to look at comes first: the first screen of a mail has no room for all of it
    before = " or longer" if answers.is_since_first else ""
    if answers.since_ms is not None:
        said.append(f"It has been slow since {format_clock(answers.since_ms)}{before}.")
    said.append(stages)
    busy = {name: idle for name, idle in answers.idle_ratios.items() if idle < _BUSY}
    said += [f"Its {name} are idle {format_percent(idle)} of the time." for name, idle in busy.items()]
    if answers.changes:
        said.append(f"When it began: {'; '.join(answers.changes)}.")
    elif answers.since_ms is not None and not answers.is_since_first:
        said.append("When it began, leaders and brokers were as before.")
    grow = (
        "Batches for a slow broker grow while they wait, so sticky producers give it more of the records without keys."
    )
    return " ".join([*said, grow])


def _describe_stages(answers: BrokerAnswers) -> tuple[str, str]:
    known = {name: ms for name, ms in answers.stages_ms.items() if name in _STAGES}
    if not known:
        return "", "The stages of its requests are not scraped (`RequestMetrics`)."
    inside = answers.stages_ms.get("total", sum(known.values()))
    parts = [
        f"{format_ms(ms)} {_STAGES[name][0]}"
        + (f" ({format_ms(answers.peer_stages_ms[name])})" if name in answers.peer_stages_ms else "")
        for name, ms in sorted(known.items(), key=lambda entry: -entry[1])
        if ms >= 0.05 * inside
    ]
    others = " (in brackets: the other brokers)" if answers.peer_stages_ms else ""
    timed = {name: ms for name, ms in known.items() if name != "throttle"}  # brokers answer first, then delay (KIP-219)
    most = max(timed, key=lambda name: timed[name], default="")
    hint = f"Most of its time points to {_STAGES[most][1]}." if timed and timed[most] >= _MOST_HINTED * inside else ""
    if inside < _MOST_HINTED * answers.latency_avg_ms:
        hint = "Clients wait longer than the broker needs: look at the network between them, and what shares its host."
    if inside < _LEAST_SHOWN_MS:
        return hint, "On the broker itself a request takes less than 0.5 ms in each stage."
    return hint, f"On the broker itself a request spends {', '.join(parts)}{others}."
