"""What is simulated together: a unit, the producer sessions of a window that meet on a saturated broker, else one alone.

Plain values, on their way to every task; the arrivals themselves are read where a task runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pipeline.calibration.partitioner.baseline import Baseline
    from pipeline.calibration.service.model import ServiceModel
    from pipeline.simulator.clients.client import Compression


@dataclass(frozen=True)
class UnitTopic:
    """A topic that a unit's sessions write to.

    Attributes:
        topic: Its name.
        topic_id: Its id, or "".
        leaders: Id of each partition's leader, or -1.
        key_family: Family of strategies that put its keys where they are, or "" where none is known.
    """

    topic: str
    topic_id: str
    leaders: tuple[int, ...]
    key_family: str = ""


@dataclass(frozen=True)
class UnitSession:
    """A producer session.

    Attributes:
        producer_id: Kafka's; -1 where all producers without idempotence are pooled.
        producer_epoch: Kafka's, or -1.
        pooled_topic: Name and id of its topic where producers are pooled: they are told apart by that at least.
        record_count: What it sent in the window.
        is_keyed: Some of its records have a key.
        baseline: What it uses.
        compression: What its codec does to its records, or None.
    """

    producer_id: int
    producer_epoch: int
    pooled_topic: tuple[str, str] | None
    record_count: int
    is_keyed: bool
    baseline: Baseline
    compression: Compression | None


@dataclass(frozen=True)
class ReplayUnit:
    """A unit of one window.

    Attributes:
        number: Its place among all.
        start_ms: The window's, epoch milliseconds.
        sessions: In order of producer id and epoch.
        topics: In order of their names and ids.
        services: How long brokers take, by id.
    """

    number: int
    start_ms: int
    sessions: tuple[UnitSession, ...]
    topics: tuple[UnitTopic, ...]
    services: Mapping[int, ServiceModel]

    @property
    def record_count(self) -> int:
        """Records of all sessions."""
        return sum(session.record_count for session in self.sessions)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Brokers that lead a partition or have a service model, ascending."""
        leaders = {leader for topic in self.topics for leader in topic.leaders if leader >= 0}
        return tuple(sorted(leaders | set(self.services)))

    @property
    def name(self) -> str:
        """What its chance depends on besides the seed: nothing that could change with what else is replayed."""
        sessions = " ".join(f"{session.producer_id}/{session.producer_epoch}" for session in self.sessions)
        topics = " ".join(f"{topic.topic} {topic.topic_id}" for topic in self.topics)
        return f"{self.start_ms} {sessions} {topics}"


def group_sessions(brokers_by_session: Sequence[Collection[int]], saturated: Collection[int]) -> list[tuple[int, ...]]:
    """Puts sessions together that meet on a saturated broker, directly or through others.

    Args:
        brokers_by_session: Brokers each session writes to.
        saturated: Brokers whose requests wait for one another.

    Returns:
        Groups of places in `brokers_by_session`, each rising, in order of their first.

    >>> group_sessions([{0, 1}, {2}, {1, 2}, {0}], saturated={1})
    [(0, 2), (1,), (3,)]
    """
    group_of = list(range(len(brokers_by_session)))
    first_on: dict[int, int] = {}
    for place, brokers in enumerate(brokers_by_session):
        for broker in sorted(set(brokers) & set(saturated)):
            _join(group_of, place, first_on.setdefault(broker, place))
    groups: dict[int, list[int]] = {}
    for place in range(len(group_of)):
        groups.setdefault(_find(group_of, place), []).append(place)
    return [tuple(group) for group in groups.values()]


def _find(group_of: list[int], place: int) -> int:
    while group_of[place] != place:
        place = group_of[place]
    return place


def _join(group_of: list[int], one: int, other: int) -> None:
    first, second = sorted((_find(group_of, one), _find(group_of, other)))
    group_of[second] = first


def deal(costs: Sequence[int], task_count: int) -> list[tuple[int, ...]]:
    """Deals pieces of work out to tasks of about equal cost, each a run of neighbours.

    Args:
        costs: Of each piece, above 0.
        task_count: How many tasks are wanted; more where single pieces cost more than a task's part.

    Returns:
        The pieces of each task, by number; no task is empty.

    >>> deal([1, 1, 1, 5, 1], 3)
    [(0, 1, 2), (3,), (4,)]
    """
    limit = max(1, -(-sum(costs) // max(1, task_count)))
    tasks: list[list[int]] = []
    filled = limit
    for piece, cost in enumerate(costs):
        if filled + cost > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(piece)
        filled += cost
    return [tuple(task) for task in tasks]
