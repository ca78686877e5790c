"""Plans simulations: sessions that share a saturated broker together, else each alone, per candidate and seed.

Plain values, on their way to every task; the arrivals themselves are read where a task runs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pipeline.calibration.service.model import ServiceModel
from pipeline.config.replay import Candidate
from pipeline.errors import ConfigError
from pipeline.measures.outages import SLOW_RATIO, SLOWER_MS
from pipeline.partitioners.registry import find_strategy, list_families
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import MOST_PARTITIONS, MOST_QUEUES, ProducerSession, Recording, SessionKey, TopicWindow
from pipeline.replay.simulated.producers import KEEP, CandidateProducer, resolve_candidate

FAMILY_OF = {strategy: family.name for family in list_families() for strategy in family.strategies}
"""Name of a strategy's family."""


@dataclass(frozen=True)
class GroupTopic:
    """A topic that a group's sessions write to; leaders by partition, -1 for none; no key family is ""."""

    topic: str
    topic_id: str
    leaders: tuple[int, ...]
    key_family: str = ""


@dataclass(frozen=True)
class SessionGroup:
    """Sessions of one window, topics and sessions in order; `services` say how long each broker takes."""

    number: int
    start_ms: int
    sessions: tuple[ProducerSession, ...]  # each for all of its topics
    topics: tuple[GroupTopic, ...]
    services: Mapping[int, ServiceModel]
    racks: Mapping[int, str] = field(default_factory=dict)  # of the window's brokers; "" without one
    # weight of each zone among producers whose zone is not known; all racks alike without any
    zone_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def record_count(self) -> int:
        return sum(session.record_count for session in self.sessions)

    @property
    def is_keyed(self) -> bool:
        return any(session.is_keyed for session in self.sessions)

    def list_sessions(self) -> list[tuple[int, int]]:
        """Producer ids and epochs, each pair once."""
        return list(dict.fromkeys((session.producer_id, session.producer_epoch) for session in self.sessions))

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Brokers that lead a partition or have a service model, ascending."""
        leaders = {leader for topic in self.topics for leader in topic.leaders if leader >= 0}
        return tuple(sorted(leaders | set(self.services)))

    @property
    def middle(self) -> ServiceModel | None:
        """The broker whose delay is in the middle (of two, the faster); None where none is known."""
        by_delay = sorted(self.services.values(), key=lambda one: (one.delay_ms.value, one.broker_id))
        return by_delay[(len(by_delay) - 1) // 2] if by_delay else None

    @property
    def healed(self) -> dict[int, ServiceModel]:
        """The brokers that answer late, each with the service of the one in the middle."""
        middle = self.middle
        if middle is None:
            return {}
        late_ms = max(SLOW_RATIO * middle.delay_ms.value, middle.delay_ms.value + SLOWER_MS)
        slow = [one.broker_id for one in self.services.values() if one.delay_ms.value >= late_ms]
        return {broker_id: replace(middle, broker_id=broker_id) for broker_id in slow}

    @property
    def name(self) -> str:
        """Name its random stream depends on besides the seed; it does not change with what else is replayed."""
        sessions = " ".join(f"{session.producer_id}/{session.producer_epoch}" for session in self.sessions)
        topics = " ".join(f"{topic.topic} {topic.topic_id}" for topic in self.topics)
        return f"{self.start_ms} {sessions} {topics}"

    def topic_window(self, number: int) -> TopicWindow:
        return self.start_ms, self.topics[number].topic, self.topics[number].topic_id


def make_groups(
    recording: Recording,
    sessions: Sequence[ProducerSession],
    metrics: Mapping[SessionKey, SessionMetrics],
    key_families: Mapping[TopicWindow, str],
) -> list[SessionGroup]:
    """Groups of producer sessions, window by window; sessions without a topic that has a leader are left out."""
    by_window: dict[int, dict[SessionKey, list[ProducerSession]]] = defaultdict(lambda: defaultdict(list))
    for session in sessions:
        by_window[session.start_ms][session.key].append(session)
    groups: list[SessionGroup] = []
    for start_ms, by_key in sorted(by_window.items()):
        keys = sorted(by_key)
        # sessions that cannot be replayed do not block the others
        is_known = [any(one.baseline.strategy is not None for one in by_key[key]) for key in keys]
        waits_on = [metrics[key].saturated if known else frozenset() for key, known in zip(keys, is_known, strict=True)]
        for members in join_sessions(waits_on):
            own = [(metrics[keys[member]], by_key[keys[member]]) for member in members]
            topics = _list_topics(recording, start_ms, {one.topic_key for _, each in own for one in each}, key_families)
            led = {(topic.topic, topic.topic_id) for topic in topics}
            most = MOST_QUEUES // max(1, len(members) * sum(len(topic.leaders) for topic in topics))
            made = tuple(
                producer
                for found, each in own
                if (kept := [one for one in each if one.topic_key in led])
                for producer in _join_topics(kept).deal(found.weights[:most])
            )
            if made:
                racks, weights = recording.racks.get(start_ms, {}), recording.zones.weights
                groups.append(SessionGroup(len(groups), start_ms, made, topics, _choose_models(own), racks, weights))
    return groups


def join_sessions(saturated: Sequence[frozenset[int]]) -> list[tuple[int, ...]]:
    """Puts sessions together that wait on one broker, directly or through others: groups of indexes, in order.

    >>> join_sessions([frozenset({1}), frozenset(), frozenset({1, 2}), frozenset({3})])
    [(0, 2), (1,), (3,)]
    """
    groups: list[tuple[frozenset[int], tuple[int, ...]]] = []
    for number, brokers in enumerate(saturated):
        met = [group for group in groups if group[0] & brokers]
        groups = [group for group in groups if not group[0] & brokers]
        members = (number, *(member for _, joined in met for member in joined))
        groups.append((brokers.union(*(joined for joined, _ in met)), tuple(sorted(members))))
    return sorted(members for _, members in groups)


def _choose_models(sessions: Sequence[tuple[SessionMetrics, Sequence[ProducerSession]]]) -> dict[int, ServiceModel]:
    """Of each broker the model of the session that sent it most."""
    chosen: dict[int, tuple[int, ServiceModel]] = {}
    for metrics, topics in sessions:
        for broker_id, model in metrics.models.items():
            sent = sum(topic.bytes_by_broker.get(broker_id, 0) for topic in topics)
            if broker_id not in chosen or sent > chosen[broker_id][0]:
                chosen[broker_id] = sent, model
    return {broker_id: model for broker_id, (_, model) in chosen.items()}


def _list_topics(
    recording: Recording, start_ms: int, topics: set[tuple[str, str]], key_families: Mapping[TopicWindow, str]
) -> tuple[GroupTopic, ...]:
    listed = []
    for topic, topic_id in sorted(topics):
        where = start_ms, topic, topic_id
        leaders = recording.list_leaders(where)
        if max(leaders, default=-1) >= 0:
            listed.append(GroupTopic(topic, topic_id, leaders, key_families.get(where, "")))
    return tuple(listed)


def _join_topics(topics: Sequence[ProducerSession]) -> ProducerSession:
    """One producer has one partitioner: that of the topic where it is surest, of equals the one with most records."""
    surest = max(topics, key=lambda t: (t.baseline.strategy is not None, t.baseline.confidence, t.record_count))
    return replace(
        surest,
        record_count=sum(topic.record_count for topic in topics),
        keyless_count=sum(topic.keyless_count for topic in topics),
        commits_ms=max((topic.commits_ms for topic in topics), key=len),
        zone=next((topic.zone for topic in topics if topic.zone), ""),
    )


class SimulationRun(NamedTuple):
    """Group, candidate and seed; the first two by number in the plan."""

    group: int
    candidate: int
    seed: int


@dataclass(frozen=True)
class GroupVariant:
    """A group under a candidate: its producers, or the reason why it cannot be simulated."""

    producers: tuple[CandidateProducer, ...]
    same_as: int  # number of the first candidate that makes the same run, often its own
    reason: str = ""


@dataclass(frozen=True)
class SimulationPlan:
    groups: tuple[SessionGroup, ...]
    candidates: tuple[Candidate, ...]  # the current setup is the first
    # by group and candidate; None where the candidate is about none of the group's topics
    variants: tuple[tuple[GroupVariant | None, ...], ...]
    seeds: tuple[int, ...]

    def list_runs(self) -> list[SimulationRun]:
        """Every run that differs from those before; runs of a group next to each other."""
        return [
            SimulationRun(group, candidate, seed)
            for group, variants in enumerate(self.variants)
            for candidate, variant in enumerate(variants)
            if variant is not None and variant.producers and variant.same_as == candidate
            for seed in self.seeds
        ]


def plan_simulations(
    groups: Sequence[SessionGroup], candidates: Sequence[Candidate], seeds: Sequence[int]
) -> SimulationPlan:
    everyone = (KEEP, *candidates)
    variants = tuple(tuple(_iter_variants(group, everyone)) for group in groups)
    return SimulationPlan(tuple(groups), everyone, variants, tuple(seeds))


def _iter_variants(group: SessionGroup, candidates: Sequence[Candidate]) -> Iterator[GroupVariant | None]:
    first_of: dict[object, int] = {}
    own_count = sum(len(topic.leaders) for topic in group.topics)
    most = min(MOST_PARTITIONS, MOST_QUEUES // len(group.sessions))
    for number, candidate in enumerate(candidates):
        if not any(candidate.fits(topic.topic) for topic in group.topics):
            yield None
            continue
        new_count = sum(candidate.partition_count(len(topic.leaders)) for topic in group.topics)
        if own_count > most or new_count > 2 * most:  # one that doubles them always fits
            count = max(own_count, new_count)
            told = f"topics of its producers ({len(group.sessions):,}) have {count:,} partitions in all, too many to simulate"
            yield GroupVariant((), number, told)
            continue
        try:
            producers = tuple(
                resolve_candidate(candidate, session.baseline, session.compression, group.racks, zone=session.zone)
                for session in group.sessions
            )
        except ConfigError as error:
            yield GroupVariant((), number, str(error))
            continue
        yield GroupVariant(producers, first_of.setdefault(_describe_run(group, candidate, producers), number))


def _describe_run(group: SessionGroup, candidate: Candidate, producers: Sequence[CandidateProducer]) -> object:
    """Equal for candidates that make the same run."""

    def describe_keys(producer: CandidateProducer, session: ProducerSession) -> str:
        # equal for strategies that put the session's keys, and its records without one, alike
        name = producer.resolved.strategy
        strategy = find_strategy(name)
        if not session.is_keyed:
            return strategy.null_key.value
        of_family = f"{FAMILY_OF.get(name, name)}, {strategy.empty_key.value}, {strategy.null_key.value}"
        return "as in use" if name == session.baseline.strategy else of_family

    counts = tuple(candidate.partition_count(len(topic.leaders)) for topic in group.topics)
    sessions = tuple(
        (
            producer.resolved.family,
            producer.resolved.settings if session.is_keyed else replace(producer.resolved.settings, ignores_keys=False),
            describe_keys(producer, session),
        )
        for producer, session in zip(producers, group.sessions, strict=True)
    )
    healed = tuple(sorted(group.healed)) if candidate.brokers_alike else ()
    return counts, repr(sorted(candidate.brokers.items())), healed, candidate.commit_every, sessions
