"""Evidence on a change of an incident, as values."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.config.rules import Gate
from pipeline.model.incident import IncidentChange
from pipeline.model.promise import Promise, Recommendation
from pipeline.model.verdict import BrokerLoad, Verdict, Verdicts
from pipeline.model.window import TimeWindow, Windows
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.runs import RunContext
from pipeline.storage.predicates import format_datafusion_text
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH
from pipeline.tables.health import PROMISES, RECOMMENDATIONS, RULE_MEASURES
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.replay import SCENARIO_COMPARISON
from pipeline.tables.silver import PARTITION_TRAFFIC
from pipeline.tables.values import tuples_of
from pipeline.verdicts.rules import list_events


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentEvidence:
    cluster: str
    change: IncidentChange
    window_ms: int
    limits_at: str  # where the configuration holds its limit, such as `rules.topic_peak`
    as_of_ms: int = 0  # the run's now
    command: Callable[[str], str] = "partition-health {}".format  # writes a command of ours by its name
    reason: str = ""  # the verdict in words
    events: tuple[str, ...] = ()  # what happened in its window
    owner: str = ""
    time_zone: str = "UTC"
    report: str = ""  # where the report about its window lies
    merged: tuple[str, ...] = ()  # ids of incidents that were merged into it

    @property
    def window(self) -> TimeWindow:
        return TimeWindow(self.change.window_start_ms, self.change.window_start_ms + self.window_ms)

    @property
    def next_end_ms(self) -> int:
        """When the first window after it ends that has not ended yet."""
        missed = max(0, self.as_of_ms - self.window.end_ms) // self.window_ms
        return self.window.end_ms + (missed + 1) * self.window_ms

    @property
    def span(self) -> TimeWindow:
        return TimeWindow(min(self.change.since_ms, self.change.window_start_ms), self.window.end_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPartition:
    """A partition the broker leads: columns of `gold.partition_health`; luck is None where it was not split."""

    topic: str
    partition: int
    size_bytes: int
    hash_luck_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCauses:
    """Why the broker is above its fair share: three terms of `share - expected_share`, three of its skew, None where not split."""

    leaders_term: float
    topic_mix_term: float
    partition_skew_term: float
    heavy_keys_term: float | None = None
    hash_luck_term: float | None = None
    remainder_term: float | None = None
    rack_aware_term: float | None = None  # of the remainder; None where it was not measured

    @property
    def is_of_known_keys(self) -> bool:
        return max(self.heavy_keys_term or 0.0, self.hash_luck_term or 0.0) > (self.remainder_term or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceLatency:
    """Produce latency of the broker over all clients: columns of `gold.latency`."""

    window_start_ms: int
    broker_id: int
    request_latency_avg_ms: float
    ratio_to_peers: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShareEvidence(IncidentEvidence):
    """Evidence on a broker whose incident entered a state; what is not known is None or empty."""

    broker_id: int
    brokers: tuple[BrokerLoad, ...]  # every broker of the window, the one concerned included
    topics: tuple[str, ...]  # by excess on this broker, largest first, see `rank_topics`
    partitions: tuple[HotPartition, ...]  # that the broker leads
    causes: ShareCauses | None
    above_count: int  # windows above among the last n
    gate: Gate
    latency: ProduceLatency | None = None
    partitioners: Mapping[str, str] = field(default_factory=dict)  # by topic, as far as the replay knows them
    recommendations: tuple[Recommendation, ...] = ()  # what to do, by rank
    promises: tuple[Promise, ...] = ()  # what became of the incident's earlier advice, in its windows

    @property
    def broker(self) -> BrokerLoad:
        for load in self.brokers:
            if load.broker_id == self.broker_id:
                return load
        raise ValueError(f"broker {self.broker_id} is not among the window's brokers")

    @property
    def is_hash_luck(self) -> bool:
        return self.broker.is_hash_luck(self.change.limit_value)

    @property
    def share(self) -> tuple[float, float]:
        if self.broker.share is None or self.broker.share_ratio is None:
            raise ValueError(f"broker {self.broker_id} has no share in window {self.window}")
        return self.broker.share, self.broker.share_ratio


def rank_topics(loads: Mapping[tuple[str, int], int], *, broker_id: int, expected_share: float) -> tuple[str, ...]:
    """Topics by what they add to a broker's excess (`bytes - expected_share * topic's bytes`, exact in sum), largest first."""
    excess: defaultdict[str, float] = defaultdict(float)
    for (topic, leader_id), size_bytes in loads.items():
        if leader_id >= 0:
            excess[topic] += size_bytes * ((leader_id == broker_id) - expected_share)
    return tuple(sorted(excess, key=lambda topic: (-excess[topic], topic)))


ALL_CLIENTS = "*"
_KNOWN_RATIO = 0.98
_KEYS = """
    SELECT sum(CASE WHEN kind IN ('key', 'no_key') THEN record_count END) AS known, sum(record_count) AS record_count
    FROM keys WHERE topic = {topic}"""
KNOWN_LATENCY = f"client_id = '{ALL_CLIENTS}' AND request_latency_avg_ms IS NOT NULL AND ratio_to_peers <> 0"


def gather_evidence(run: RunContext, change: IncidentChange, verdicts: Verdicts) -> IncidentEvidence:
    """Gathers the evidence on a change; the verdict of its window, or the last before it, is among `verdicts`."""
    own = [v for v in verdicts if (v.rule, v.subject) == (change.rule, change.subject)]
    verdict = max((v for v in own if v.window_start_ms <= change.window_start_ms), key=lambda v: v.window_start_ms)
    others = (v for v in verdicts if v.window_start_ms == change.window_start_ms and v is not verdict)
    # ids that were merged into the incident since it began: they ended in a window of its span
    span = TimeWindow(min(change.since_ms, change.window_start_ms), change.window_start_ms + run.window_ms)
    changes = run.tuples(INCIDENTS, (span,), "incident_id", "merged_into")
    common: dict[str, Any] = {
        "cluster": run.cluster_name,
        "change": change,
        "window_ms": run.window_ms,
        "as_of_ms": run.as_of_ms,
        "command": run.config.command,
        "reason": verdict.reason,
        "events": tuple(text for _, text in list_events(others)),
        "owner": run.cluster.owner,
        "time_zone": run.cluster.time_zone,
        "report": run.config.report_link(run.cluster_name, change.window_start_ms),
        "merged": tuple(sorted({one for one, merged_into in changes if merged_into == change.incident_id})),
    }
    if change.rule == SOURCE_ARRIVAL:
        return IncidentEvidence(**common, limits_at="freshness")
    if change.rule in run.cluster.rules:
        at = (run.window_at(verdict.window_start_ms),)
        measured = f"rule = '{change.rule}' AND subject = {format_datafusion_text(change.subject)}"
        topics = [topic for (topic,) in run.tuples(RULE_MEASURES, at, "topic", where=measured)]
        rule = run.cluster.rules[change.rule].of_topic((*topics, change.subject.removeprefix("topic "))[0])
        return IncidentEvidence(**common | {"owner": rule.owner or run.cluster.owner}, limits_at=f"rules.{change.rule}")
    return _gather(run, common, verdict)


def _gather(run: RunContext, common: dict[str, Any], verdict: Verdict) -> BrokerShareEvidence:
    change, broker_id = common["change"], int(verdict.subject.removeprefix("broker "))
    windows = (run.window_at(verdict.window_start_ms),)
    brokers = sorted(run.values(BrokerLoad, BROKER_SHARE, windows), key=lambda one: one.broker_id)
    own = next(one for one in brokers if one.broker_id == broker_id)
    gate = run.cluster.gate.of_broker(own)
    is_split = f"broker_id = {broker_id} AND leaders_term IS NOT NULL"
    is_own = f"{KNOWN_LATENCY} AND broker_id = {broker_id}"
    causes = run.values(ShareCauses, BROKER_SHARE, windows, where=is_split)
    loads: Counter[tuple[str, int]] = Counter()
    for topic, leader_id, size in run.tuples(PARTITION_TRAFFIC, windows, "topic", "leader_id", "size_bytes"):
        loads[topic, leader_id] += size
    led = run.values(HotPartition, PARTITION_HEALTH, windows, where=f"leader_id = {broker_id}")
    span = TimeWindow(min(change.since_ms, change.window_start_ms), windows[0].end_ms)
    promises = run.values(Promise, PROMISES, (span,))
    topics = rank_topics(loads, broker_id=broker_id, expected_share=own.expected_share)
    if topics and not _are_keys_known(run, windows, topics[0]):  # what is left may be theirs
        unknown: dict[str, Any] = dict.fromkeys(("heavy_keys_term", "hash_luck_term", "remainder_term"))
        causes = [one if one.is_of_known_keys else replace(one, **unknown) for one in causes]
    advice = [
        replace(one, broker_ratios={int(broker): ratio for broker, ratio in dict(one.broker_ratios or ()).items()})
        for one in run.values(Recommendation, RECOMMENDATIONS, windows)
        if one.subject == verdict.subject
    ]
    compared = run.tuples(SCENARIO_COMPARISON, windows, "topic", "baseline", "is_baseline", "baseline_source")
    return BrokerShareEvidence(
        **common | {"owner": gate.owner or run.cluster.owner},
        broker_id=broker_id,
        limits_at="gate.limit_ratio (gate.topics for one topic)",
        brokers=tuple(brokers),
        topics=topics,
        partitions=tuple(led),
        causes=next(iter(causes), None),
        above_count=verdict.above_count,
        gate=gate,
        latency=next(iter(run.values(ProduceLatency, LATENCY, windows, where=is_own)), None),
        partitioners={topic: name for topic, name, is_baseline, source in compared if is_baseline and source != "none"},
        recommendations=tuple(sorted(advice, key=lambda one: one.rank)),
        promises=tuple(one for one in promises if one.subject == change.subject and one.promised_ms >= change.since_ms),
    )


def _are_keys_known(run: RunContext, windows: Windows, topic: str) -> bool:
    """Whether all but a few of a topic's records are known to have no key, or one that is stored."""
    counted = run.query(_KEYS.format(topic=format_datafusion_text(topic)), windows, keys=KEY_TRAFFIC)
    ((known, count),) = tuples_of(counted, "known", "record_count")
    return bool(count) and (known or 0) >= _KNOWN_RATIO * count
