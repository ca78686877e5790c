"""Everything a mail about a broker's share needs, as values: jobs fill them from tables, messages only read them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.model.incident import IncidentChange
    from pipeline.model.load import BrokerLoad
    from pipeline.model.recommendation import Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A change of an incident, and whose it is.

    Attributes:
        cluster: Name in the configuration.
        change: The state change: id, since, value, peak, limit.
        window_ms: Length of a window.
        limits_at: Where the configuration holds its limit, such as `rules.topic_peak`.
        owner: Who looks after it; may be empty.
        time_zone: The owner's, an IANA name.
    """

    cluster: str
    change: IncidentChange
    window_ms: int
    limits_at: str
    owner: str = ""
    time_zone: str = "UTC"

    @property
    def window(self) -> TimeWindow:
        """The window that brought the state."""
        return TimeWindow(self.change.window_start_ms, self.change.window_start_ms + self.window_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictEvidence(Standing):
    """What a mail about a rule needs that judges one number: a missing source, a disk, a topic.

    Attributes:
        reason: The verdict in words.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What a source brought of what was expected. From `bronze.window_status`.

    Attributes:
        source: Source kind.
        arrived_count: Items that arrived.
        expected_count: Items expected.
    """

    source: str
    arrived_count: int
    expected_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExcess:
    """What one topic adds to a broker's excess.

    Attributes:
        topic: The topic.
        size_bytes: Its bytes on the broker.
        fair_bytes: Its bytes in the cluster times the broker's fair share.
        excess_bytes: `size_bytes - fair_bytes`; negative where the topic relieves the broker.
        excess_share: Part of the cluster's bytes, so that the topics' parts sum to `share - expected_share`.
    """

    topic: str
    size_bytes: int
    fair_bytes: float
    excess_bytes: float
    excess_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPartition:
    """A partition the broker leads. From `gold.partition_health`.

    Attributes:
        topic: Its topic.
        partition: Its number.
        size_bytes: Bytes appended in the window.
        ratio_to_mean: Over the mean of the topic's partitions.
        heavy_keys_bytes: Of what is above the mean, from keys that no hash can spread; None where it was not split.
        hash_luck_bytes: Of it, what chance does to so many keys; None likewise.
        remainder_bytes: The rest of it; None likewise.
    """

    topic: str
    partition: int
    size_bytes: int
    ratio_to_mean: float
    heavy_keys_bytes: float | None = None
    hash_luck_bytes: float | None = None
    remainder_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A heavy key on a partition that the broker leads. From `gold.hot_keys`.

    Attributes:
        key: First 8 hex digits of its id: a pseudonym.
        topic: Its topic.
        partition: Where most of it is.
        size_bytes: Its bytes in the window.
        topic_ratio: Part of the topic's bytes.
        is_heavy: More than a partition's part: no hash can spread it.
    """

    key: str
    topic: str
    partition: int
    size_bytes: int
    topic_ratio: float
    is_heavy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseTerms:
    """Why the broker is above its fair share: three terms that sum to `share - expected_share`.

    Attributes:
        leaders: From leading more partitions than its capacity's part.
        topic_mix: From leading partitions of busier topics.
        partition_skew: From its partitions being hotter than their topics' mean.
        heavy_keys: Of the skew, from keys that no hash can spread; None where it was not split.
        hash_luck: Of the skew, what chance does to so many keys; None likewise.
        remainder: The rest of the skew; None likewise.
    """

    leaders: float
    topic_mix: float
    partition_skew: float
    heavy_keys: float | None = None
    hash_luck: float | None = None
    remainder: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceLatency:
    """What producers wait for the broker, all clients together. From `gold.latency`, client `*`.

    Attributes:
        broker_avg_ms: Mean request latency of the broker.
        peers_avg_ms: The same of the other brokers (their median).
        broker_max_ms: Largest latency of the broker, or None.
    """

    broker_avg_ms: float
    peers_avg_ms: float
    broker_max_ms: float | None = None

    @property
    def ratio_to_peers(self) -> float | None:
        """Broker over peers; None where the peers' is 0."""
        return self.broker_avg_ms / self.peers_avg_ms if self.peers_avg_ms > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShareEvidence(Standing):
    """An incident of the rule `broker_share` entered a state: what to say of it.

    Attributes:
        broker_id: The broker.
        brokers: Every broker of the window, the one concerned included. From `gold.broker_share`.
        topics: Topics by excess on this broker, largest first, see `excess_by_topic`.
        partitions: Partitions the broker leads, hottest first.
        causes: The exact split, or None where it is not known.
        above_count: Windows above among the last n.
        k: Windows above that make a failure.
        n: Windows looked at.
        resolves_at: Ratio below which a window counts as calm.
        chance_ratio: Ratio that chance alone exceeds once in a thousand windows, or None.
        latency: Latency beside peers, or None without producer metrics.
        earlier: Every broker of windows before this one, for the picture of how it came; may be empty.
        partitioners: Strategy in use by topic, as far as the replay knows it.
        hot_keys: Heaviest keys on partitions that the broker leads; may be empty.
        recommendations: What to do, by rank; may be empty.
        arrivals: What the sources brought into the window, of those that know what to expect.
        peak_ratio: Its largest load within the window over its fair part of the mean one, or None.
        idle_ratio: Part of the time its request handlers were idle, 0..1, or None.
        hours_to_full: Until its fullest disk is full at the pace of the last windows, or None.
    """

    broker_id: int
    brokers: tuple[BrokerLoad, ...]
    topics: tuple[TopicExcess, ...]
    partitions: tuple[HotPartition, ...]
    causes: CauseTerms | None
    above_count: int
    k: int
    n: int
    resolves_at: float
    chance_ratio: float | None
    latency: ProduceLatency | None = None
    earlier: tuple[BrokerLoad, ...] = ()
    partitioners: Mapping[str, str] = field(default_factory=dict)
    hot_keys: tuple[HotKey, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    peak_ratio: float | None = None
    idle_ratio: float | None = None
    hours_to_full: float | None = None

    @property
    def broker(self) -> BrokerLoad:
        """The broker concerned.

        Raises:
            ValueError: if `brokers` does not hold it.
        """
        for load in self.brokers:
            if load.broker_id == self.broker_id:
                return load
        raise ValueError(f"broker {self.broker_id} is not among the window's brokers")


def excess_by_topic(
    loads: Mapping[tuple[str, int], int], *, broker_id: int, expected_share: float
) -> tuple[TopicExcess, ...]:
    """Ranks topics by what they add to a broker's excess.

    With T_t a topic's bytes in the cluster, b the broker and e_b its fair share, a topic adds `bytes_tb - e_b * T_t`.
    These sum to `L_b - e_b * L`, the broker's excess, exactly.

    Args:
        loads: Bytes per (topic, leader) in the window, all topics and brokers. Negative leaders (unknown) are left
            out, as they are of every share.
        broker_id: The broker.
        expected_share: e_b, 0 to 1.

    Returns:
        All topics, largest excess first, then by name.

    >>> [(t.topic, t.excess_bytes) for t in excess_by_topic(
    ...     {("a", 1): 80, ("a", 2): 20, ("b", 1): 40, ("b", 2): 60}, broker_id=1, expected_share=0.5)]
    [('a', 30.0), ('b', -10.0)]
    """
    topic_bytes: defaultdict[str, int] = defaultdict(int)
    for (topic, leader_id), size_bytes in loads.items():
        if leader_id >= 0:
            topic_bytes[topic] += size_bytes
    cluster_bytes = sum(topic_bytes.values())
    rows = []
    for topic, in_cluster_bytes in topic_bytes.items():
        size_bytes = loads.get((topic, broker_id), 0)
        fair_bytes = expected_share * in_cluster_bytes
        rows.append(
            TopicExcess(
                topic=topic,
                size_bytes=size_bytes,
                fair_bytes=fair_bytes,
                excess_bytes=size_bytes - fair_bytes,
                excess_share=(size_bytes - fair_bytes) / cluster_bytes if cluster_bytes else 0.0,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.excess_bytes, row.topic)))
