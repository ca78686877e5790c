"""A group's recorded arrivals, made ready once for all its runs: when each record is sent, how large, and its key."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.calibration.within_ms import choose_pattern, place_within_ms
from pipeline.model.window import NS_PER_MS
from pipeline.replay.simulated.keys import STAYS
from pipeline.simulator.scenario.traffic import KEYLESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pipeline.calibration.session_traffic import SessionTraffic
    from pipeline.replay.simulated.groups import GroupTopic, SessionGroup
    from pipeline.replay.simulated.keys import AssignKeys

# Where records lie within their milliseconds is the same in all runs: it is not the producer's chance.
_WITHIN_MS_SEED = 0


@dataclass(frozen=True, eq=False)
class TopicArrivals:
    """What a session sends to a topic.

    Attributes:
        topic: By number among the group's topics.
        count: Records.
        keyed: The records with their keys; None where none has one: then nothing else is kept, there may be millions.
    """

    topic: int
    count: int
    keyed: SessionTraffic | None

    def assign(self, topic: GroupTopic, partition_count: int, assign_keys: AssignKeys) -> NDArray[Any]:
        """The partition of each record that its key decides, `KEYLESS` elsewhere."""
        sent = self.keyed
        if sent is None:
            _, no_key = assign_keys(topic, np.zeros(0, np.int64), partition_count)
            return np.broadcast_to(np.int32(no_key), self.count)
        by_key, no_key = assign_keys(topic, sent.keys, partition_count)
        # behind the keys: what has one that is not named, and what has none
        table = np.append(by_key, np.array([STAYS, no_key], np.int32))
        named = np.where(sent.key_index >= 0, sent.key_index, len(by_key))
        assigned: NDArray[Any] = table[np.where(sent.is_keyed, named, len(by_key) + 1)]
        stays = assigned == STAYS
        if stays.any():
            assigned[stays] = np.where(sent.partition[stays] < partition_count, sent.partition[stays], KEYLESS)
        return assigned


@dataclass(frozen=True, eq=False)
class SessionArrivals:
    """What one session sends: an element per record, in order of time.

    Attributes:
        due_ns: After the group's `base_ms`.
        body_bytes: As `simulator.record_size` measures them.
        topic: By number among the group's topics.
        order: For each record, its index among the records of all `parts`, one after another; None for the same order.
        parts: What was recorded, topic by topic.
    """

    due_ns: NDArray[np.int64]
    body_bytes: NDArray[np.int32]
    topic: NDArray[Any]
    order: NDArray[np.int64] | None
    parts: tuple[TopicArrivals, ...]

    def assign(self, topics: Sequence[GroupTopic], counts: Sequence[int], assign_keys: AssignKeys) -> NDArray[Any]:
        """The partition of each record that its key decides, `KEYLESS` elsewhere; recorded ones are never looked at."""
        assigned = [part.assign(topics[part.topic], counts[part.topic], assign_keys) for part in self.parts]
        if len(assigned) == 1:
            return assigned[0]
        together = np.concatenate(assigned)
        return together if self.order is None else together[self.order]


@dataclass(frozen=True, eq=False)
class GroupArrivals:
    """What all sessions of a group send, in the group's order; times count from `base_ms`, epoch milliseconds."""

    base_ms: int
    sessions: tuple[SessionArrivals, ...]


def prepare_arrivals(group: SessionGroup, traffics: Iterable[SessionTraffic]) -> GroupArrivals:
    """Puts a group's records in order of time, whatever topic they are of; other traffic is left out."""
    numbers = {(topic.topic, topic.topic_id): number for number, topic in enumerate(group.topics)}
    parts: dict[object, list[tuple[int, SessionTraffic]]] = defaultdict(list)
    for traffic in traffics:
        topic = numbers.get((traffic.topic, traffic.topic_id))
        if topic is not None and len(traffic):
            pooled = (traffic.topic, traffic.topic_id) if traffic.is_pooled else None
            parts[traffic.producer_id, traffic.producer_epoch, pooled].append((topic, traffic))
    keys = [(session.producer_id, session.producer_epoch, session.pooled_topic) for session in group.sessions]
    sessions = [sorted(parts[key], key=lambda part: part[0]) for key in keys]
    base_ms = min((traffic.start_ms for found in sessions for _, traffic in found), default=group.start_ms)
    return GroupArrivals(base_ms, tuple(_prepare_session(found, base_ms) for found in sessions))


def _prepare_session(found: Sequence[tuple[int, SessionTraffic]], base_ms: int) -> SessionArrivals:
    parts = tuple(
        TopicArrivals(topic, len(traffic), traffic if traffic.is_keyed.any() else None) for topic, traffic in found
    )
    due = [_place_in_time(traffic, base_ms) for _, traffic in found]
    sizes = [traffic.body_bytes for _, traffic in found]
    if len(parts) == 1:
        topic = np.broadcast_to(np.int16(parts[0].topic), len(due[0]))
        return SessionArrivals(due[0], sizes[0], topic, None, parts)
    due_ns = np.concatenate([np.zeros(0, np.int64), *due])
    body_bytes = np.concatenate([np.zeros(0, np.int32), *sizes])
    topic = np.repeat(np.array([part.topic for part in parts], np.int16), [part.count for part in parts])
    order = np.argsort(due_ns, kind="stable")
    return SessionArrivals(due_ns[order], body_bytes[order], topic[order], order, parts)


def _place_in_time(traffic: SessionTraffic, base_ms: int) -> NDArray[np.int64]:
    elapsed_ms = traffic.elapsed_ms
    due_ns = place_within_ms(elapsed_ms, choose_pattern(elapsed_ms), _WITHIN_MS_SEED)
    due_ns += (traffic.start_ms - base_ms + int(elapsed_ms[0])) * NS_PER_MS
    return due_ns
