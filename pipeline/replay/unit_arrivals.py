"""A unit's recorded arrivals, made ready once for all its runs: when each record is sent, how large, and its key."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.calibration.within_ms import choose_pattern, place_within_ms
from pipeline.replay.key_places import AS_RECORDED
from pipeline.simulator.scenario.traffic import KEYLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from pipeline.calibration.session_traffic import SessionTraffic
    from pipeline.replay.key_places import PlacedKeys
    from pipeline.replay.units import ReplayUnit, UnitTopic

    PlaceKeys = Callable[[UnitTopic, NDArray[np.int64], int], PlacedKeys]
    """Topic, numbers of keys and partition count to where they go."""

_NS_PER_MS = 1_000_000
_PLACING_SEED = 0
"""Where records lie within their milliseconds is the same in all runs: it is no chance of the producer's."""


@dataclass(frozen=True, eq=False)
class RecordedKeys:
    """What decides where a session's records in a topic may go: a row per record, in order of time.

    Attributes:
        count: Records.
        keyed: The records with their keys; None where none has one: then nothing else is kept, there may be millions.
    """

    count: int
    keyed: SessionTraffic | None

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, eq=False)
class SessionArrivals:
    """What one session sends: a row per record, in order of time.

    Attributes:
        due_ns: After the unit's `base_ms`.
        body_bytes: As `simulator.record_size` measures them.
        topic: By number among the unit's topics.
        order: For each record, its place among the records of all `parts`, one after another; None for the same order.
        parts: What was recorded, topic by topic.
        topics: Number of each part's topic.
    """

    due_ns: NDArray[np.int64]
    body_bytes: NDArray[np.int32]
    topic: NDArray[Any]
    order: NDArray[np.int64] | None
    parts: tuple[RecordedKeys, ...]
    topics: tuple[int, ...]

    def parts_of(self, topic: int) -> list[RecordedKeys]:
        """What it sends to one topic, by number."""
        return [part for part, number in zip(self.parts, self.topics, strict=True) if number == topic]

    def place(self, topics: Sequence[UnitTopic], counts: Sequence[int], place_keys: PlaceKeys) -> NDArray[Any]:
        """The partition of each record that its key decides, `KEYLESS` elsewhere.

        The recorded partition of a record without a key is never looked at.

        Args:
            topics: Of the unit.
            counts: Their partition counts.
            place_keys: Where keys go.
        """
        placed = [
            _place_part(part, topics[topic], counts[topic], place_keys)
            for part, topic in zip(self.parts, self.topics, strict=True)
        ]
        if len(placed) == 1:
            return placed[0]
        together = np.concatenate(placed)
        return together if self.order is None else together[self.order]


@dataclass(frozen=True, eq=False)
class UnitArrivals:
    """What all sessions of a unit send.

    Attributes:
        base_ms: Epoch milliseconds that times count from.
        sessions: In the unit's order.
    """

    base_ms: int
    sessions: tuple[SessionArrivals, ...]


def prepare_arrivals(unit: ReplayUnit, traffics: Iterable[SessionTraffic]) -> UnitArrivals:
    """Puts a unit's records in order of time, whatever topic they are of.

    Args:
        unit: The unit.
        traffics: Of its sessions and topics, in any order; others are left out.
    """
    places = {(topic.topic, topic.topic_id): number for number, topic in enumerate(unit.topics)}
    parts: dict[object, list[tuple[int, SessionTraffic]]] = defaultdict(list)
    for traffic in traffics:
        topic = places.get((traffic.topic, traffic.topic_id))
        if topic is not None and len(traffic):
            pooled = (traffic.topic, traffic.topic_id) if traffic.is_pooled else None
            parts[traffic.producer_id, traffic.producer_epoch, pooled].append((topic, traffic))
    named = [(session.producer_id, session.producer_epoch, session.pooled_topic) for session in unit.sessions]
    sessions = [sorted(parts[name], key=lambda part: part[0]) for name in named]
    base_ms = min((traffic.start_ms for found in sessions for _, traffic in found), default=unit.start_ms)
    return UnitArrivals(base_ms, tuple(_prepare_session(found, base_ms) for found in sessions))


def _prepare_session(found: Sequence[tuple[int, SessionTraffic]], base_ms: int) -> SessionArrivals:
    topics = tuple(topic for topic, _ in found)
    parts = tuple(RecordedKeys(len(traffic), traffic if traffic.is_keyed.any() else None) for _, traffic in found)
    due = [_place_in_time(traffic, base_ms) for _, traffic in found]
    sizes = [traffic.body_bytes for _, traffic in found]
    if len(parts) == 1:
        topic = np.broadcast_to(np.int16(topics[0]), len(due[0]))
        return SessionArrivals(due[0], sizes[0], topic, None, parts, topics)
    due_ns = np.concatenate(due) if due else np.zeros(0, np.int64)
    body_bytes = np.concatenate(sizes) if sizes else np.zeros(0, np.int32)
    topic = np.repeat(np.array(topics, np.int16), [len(part) for part in parts])
    order = np.argsort(due_ns, kind="stable")
    return SessionArrivals(due_ns[order], body_bytes[order], topic[order], order, parts, topics)


def _place_in_time(traffic: SessionTraffic, base_ms: int) -> NDArray[np.int64]:
    elapsed_ms: NDArray[Any] = traffic.elapsed_ms
    due_ns = place_within_ms(elapsed_ms, choose_pattern(elapsed_ms), _PLACING_SEED)
    due_ns += (traffic.start_ms - base_ms + int(elapsed_ms[0])) * _NS_PER_MS
    return due_ns


def _place_part(part: RecordedKeys, topic: UnitTopic, count: int, place_keys: PlaceKeys) -> NDArray[Any]:
    sent = part.keyed
    by_key, no_key = place_keys(topic, np.zeros(0, np.int64) if sent is None else sent.keys, count)
    if sent is None:
        return np.broadcast_to(np.int32(no_key), len(part))
    # behind the keys: what has one that is not named, and what has none
    table = np.append(by_key, np.array([AS_RECORDED, no_key], np.int32))
    is_named = sent.key_index >= 0
    place = np.where(sent.is_keyed, np.where(is_named, sent.key_index, len(by_key)), len(by_key) + 1)
    placed: NDArray[Any] = table[place]
    stays = placed == AS_RECORDED
    if stays.any():
        placed[stays] = np.where(sent.partition[stays] < count, sent.partition[stays], KEYLESS)
    return placed
