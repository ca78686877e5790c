"""Evidence on a change of an incident, as values."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipeline.config.rules import Gate
from pipeline.model.incident import IncidentChange
from pipeline.model.promise import Promise, Recommendation
from pipeline.model.verdict import BrokerLoad
from pipeline.model.window import TimeWindow


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
        """The window that brought the state."""
        return TimeWindow(self.change.window_start_ms, self.change.window_start_ms + self.window_ms)

    @property
    def next_end_ms(self) -> int:
        """When the first window after it ends that has not ended yet."""
        missed = max(0, self.as_of_ms - self.window.end_ms) // self.window_ms
        return self.window.end_ms + (missed + 1) * self.window_ms

    @property
    def span(self) -> TimeWindow:
        """From the first window above the limit to the end of the window that brought the state."""
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
    """Why the broker is above its fair share: columns of `gold.broker_share`.

    The first three terms sum to `share - expected_share`, the last three to the skew; these are None where it was not split.
    """

    leaders_term: float
    topic_mix_term: float
    partition_skew_term: float
    heavy_keys_term: float | None = None
    hash_luck_term: float | None = None
    remainder_term: float | None = None
    rack_aware_term: float | None = None  # of the remainder; None where it was not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceLatency:
    """Produce latency of the broker over all clients: columns of `gold.latency`."""

    window_start_ms: int
    broker_id: int
    request_latency_avg_ms: float
    ratio_to_peers: float
    request_latency_max_ms: float | None = None


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
        """The broker concerned; `ValueError` if `brokers` does not hold it."""
        for load in self.brokers:
            if load.broker_id == self.broker_id:
                return load
        raise ValueError(f"broker {self.broker_id} is not among the window's brokers")

    @property
    def is_hash_luck(self) -> bool:
        """Whether only the luck of its keys takes the broker to the limit."""
        return self.broker.is_hash_luck(self.change.limit_value)

    @property
    def share(self) -> tuple[float, float]:
        """Share and share ratio of the broker concerned; `ValueError` if it has none."""
        if self.broker.share is None or self.broker.share_ratio is None:
            raise ValueError(f"broker {self.broker_id} has no share in window {self.window}")
        return self.broker.share, self.broker.share_ratio


def rank_topics(loads: Mapping[tuple[str, int], int], *, broker_id: int, expected_share: float) -> tuple[str, ...]:
    """Topics by what they add to a broker's excess, largest first, then by name.

    With T_t a topic's bytes in the cluster, b the broker and e_b its `expected_share`, a topic adds `bytes_tb - e_b * T_t`.
    These sum to `L_b - e_b * L`, the broker's excess, exactly.
    `loads`: bytes per (topic, leader), all topics and brokers; negative leaders (unknown) are left out.
    """
    excess: defaultdict[str, float] = defaultdict(float)
    for (topic, leader_id), size_bytes in loads.items():
        if leader_id >= 0:
            excess[topic] += size_bytes * ((leader_id == broker_id) - expected_share)
    return tuple(sorted(excess, key=lambda topic: (-excess[topic], topic)))
