"""What to look at on a broker that load follows: how fast it answers, and in which of Kafka's `RequestMetrics` time goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.advice.following import Ends, LeaderReplay, describe_ratios
from pipeline.measures import slow_brokers
from pipeline.model.number_text import format_clock, format_ms, format_percent, format_ratio
from pipeline.model.promise import Recommendation

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
_MOST_HINTED = 0.5  # part of the broker's time from which a stage names the place to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswers:
    latency_avg_ms: float
    ratio_to_peers: float
    latency_max_ms: float | None = None
    since_ms: int | None = None  # start of the first window of those in a row in which it was slow
    is_since_first: bool = False  # windows before that are not known
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # mean time of its requests by stage
    peer_stages_ms: Mapping[str, float] = field(default_factory=dict)  # median of the other brokers' means
    idle_ratios: Mapping[str, float] = field(default_factory=dict)  # of `request handlers` and `network threads`
    changes: tuple[str, ...] = ()  # what else changed when it began, in words

    @property
    def peers_ms(self) -> float:
        return self.latency_avg_ms / self.ratio_to_peers

    @property
    def is_slow(self) -> bool:
        """Whether it answers so late that producers would notice."""
        return slow_brokers.is_slow(self.latency_avg_ms, self.ratio_to_peers)


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
    unit_count: float | None = None  # batches of the window that were placed independently; None where nobody counted
    replayed: LeaderReplay | None = None  # the window under the leaders of `plan_following`, if somebody replayed it


def check_broker(hot: HotBroker) -> Recommendation:
    broker_id, answers = hot.broker_id, hot.answers
    is_slow = answers is not None and answers.is_slow
    predicted = describe_ratios(hot.healed if is_slow else {}, broker_id, hot.target_ratio)
    if answers is not None and is_slow:
        title = f"broker {broker_id} is slow: look at its disk, network, neighbours"
        text = describe_answers(broker_id, answers)
        if (peak := predicted["predicted_peak_ratio"]) is not None:
            text += f" Were it as fast as the others, the replay puts the highest broker at {format_ratio(peak)}."
    else:
        title = f"find out why broker {broker_id} gets more: how fast it answers, and its producers' batching"
        text = "Load follows this broker, and neither keys nor leaders explain it. "
        text += (
            "How long its clients wait is not known: scrape their metrics."
            if answers is None
            else f"It is not slow: producers wait {format_ms(answers.latency_avg_ms)} for it, {format_ms(answers.peers_ms)} "
            "for the others."
        )
    return Recommendation(
        window_start_ms=hot.window_start_ms,
        subject=f"broker {broker_id}",
        action=CHECK_BROKER,
        title=title,
        text=text,
        topic="",
        share_ratio=hot.share_ratio,
        **predicted,
    )


def describe_answers(broker_id: int, answers: BrokerAnswers) -> str:
    """What the metrics show of a slow broker: how slow, since when, where the time goes, what else changed."""
    said = [
        f"Producers wait {format_ms(answers.latency_avg_ms)} for broker {broker_id}, {format_ms(answers.peers_ms)} for the "
        f"others ({format_ratio(answers.ratio_to_peers)})."
    ]
    hint, stages = _describe_stages(answers)
    said += [hint] if hint else []  # what to look at comes first: the first screen of a mail has no room for all of it
    if answers.since_ms is not None:
        before = " or longer" if answers.is_since_first else ""
        said.append(f"It is slow since {format_clock(answers.since_ms)}{before}.")
    said.append(stages)
    busy = {name: idle for name, idle in answers.idle_ratios.items() if idle < _BUSY}
    said += [f"Its {name} are idle {format_percent(idle)} of the time." for name, idle in busy.items()]
    if answers.changes:
        said.append(f"When it began: {'; '.join(answers.changes)}.")
    elif answers.since_ms is not None and not answers.is_since_first:
        said.append("When it began, leaders and brokers were as before.")
    said.append(
        "Batches for a slow broker grow while they wait, so sticky producers give it more of the records without keys."
    )
    return " ".join(said)


def _describe_stages(answers: BrokerAnswers) -> tuple[str, str]:
    """What to look at, if that can be told, and where requests spend their time on the broker."""
    known = {name: ms for name, ms in answers.stages_ms.items() if name in _STAGES}
    if not known:
        return "", "Where requests spend their time on it is not scraped (`RequestMetrics`)."
    inside = answers.stages_ms.get("total", sum(known.values()))
    parts = [
        f"{format_ms(ms)} {_STAGES[name][0]}"
        + (f" ({format_ms(answers.peer_stages_ms[name])})" if name in answers.peer_stages_ms else "")
        for name, ms in sorted(known.items(), key=lambda entry: -entry[1])
        if ms >= 0.05 * inside
    ]
    others = ", those of the others in brackets" if answers.peer_stages_ms else ""
    most = max(known, key=lambda name: known[name])
    hint = f"Most of its time points to {_STAGES[most][1]}." if known[most] >= _MOST_HINTED * inside else ""
    if inside < _MOST_HINTED * answers.latency_avg_ms:
        hint = "Clients wait longer than the broker needs: look at the network between them, and what shares its host."
    return hint, f"Of its own time a request spends {', '.join(parts)}{others}."
