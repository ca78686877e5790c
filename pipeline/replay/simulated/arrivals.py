"""A group's recorded arrivals, made ready once for all its runs: when each record is sent, how large, where its key goes.

Keys are put by their stored hashes, in the tasks that simulate.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.calibration.session_traffic import SessionTraffic
from pipeline.partitioners.hashes import place_hashes
from pipeline.partitioners.registry import HASH_COLUMNS, choose_for_no_key, find_strategy, key_function_of
from pipeline.partitioners.strategy import KeyRule, Strategy
from pipeline.replay.keyed.tasks import parse_key_ids
from pipeline.replay.simulated.plan import FAMILY_OF, GroupTopic, SessionGroup
from pipeline.simulator.clients.producer_settings import ResolvedProducer
from pipeline.simulator.scenario.scenario import KEYLESS

KeyPartitions = tuple[NDArray[np.int32], int]
"""Of each key a partition, `KEYLESS` or `STAYS`; and of records without one a partition, or `KEYLESS`."""
AssignKeys = Callable[[GroupTopic, NDArray[np.int64], int], KeyPartitions]
"""Topic, numbers of keys and partition count to where they go."""

STAYS = -2  # in place of a key's partition: its records stay where they were recorded
_UNKNOWN = -1  # in place of a hash: it is not stored, or the key has none
KEY_HASH_COLUMNS = ("key_id", "is_empty", *HASH_COLUMNS.values())


@dataclass(frozen=True, eq=False)
class KeyHashes:
    """Stored hashes of keys, by their numbers in arrivals, which rise; by column int64[k], unsigned 32 bits or -1."""

    keys: NDArray[np.int64]
    is_empty: NDArray[np.bool_]
    hashes: Mapping[str, NDArray[np.int64]]

    def assigning(self, resolved: ResolvedProducer, *, is_in_use: bool) -> AssignKeys:
        """How a producer assigns keys; one in use is the one that assigned the recorded keys."""
        strategy = find_strategy(resolved.strategy)

        def assign(topic: GroupTopic, keys: NDArray[np.int64], partition_count: int) -> KeyPartitions:
            if resolved.settings.ignores_keys or strategy.hash is None:
                return np.full(len(keys), KEYLESS, np.int32), KEYLESS
            to_partition = choose_for_no_key(strategy, partition_count)
            no_key = KEYLESS if to_partition is None else to_partition
            is_same = is_in_use or (topic.key_family != "" and topic.key_family == FAMILY_OF.get(strategy.name))
            if is_same and partition_count == len(topic.leaders):
                return np.full(len(keys), STAYS, np.int32), no_key
            return self._hash(strategy, keys, partition_count), no_key

        return assign

    def _hash(self, strategy: Strategy, keys: NDArray[np.int64], partition_count: int) -> NDArray[np.int32]:
        function = key_function_of(strategy)
        stored = self.hashes.get(function.hash_column)
        if stored is None or not len(self.keys):
            return np.full(len(keys), STAYS, np.int32)
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hashes = np.where(self.keys[index] == keys, stored[index], _UNKNOWN)
        is_known = hashes >= 0
        assigned = place_hashes(np.where(is_known, hashes, 0).astype(np.uint32), function.mask, partition_count)
        assigned[~is_known] = STAYS
        if strategy.empty_key is not KeyRule.HASHED:
            assigned[is_known & self.is_empty[index]] = 0 if strategy.empty_key is KeyRule.FIRST else KEYLESS
        return assigned


NO_HASHES = KeyHashes(np.zeros(0, np.int64), np.zeros(0, np.bool_), {})
"""Nothing is stored about keys: they stay where they were recorded."""


def index_hashes(batches: Iterable[pa.RecordBatch], wanted: NDArray[np.int64]) -> KeyHashes:
    """Rows of `silver.key_hashes` about the `wanted` keys, numbers that rise; a key may come several times."""
    read, kept = [NO_HASHES.keys], []
    for batch in batches:
        numbers = parse_key_ids(batch["key_id"].cast(pa.string())).view(np.int64)
        is_wanted = np.isin(numbers, wanted)
        read.append(numbers[is_wanted])
        kept.append(batch.select(KEY_HASH_COLUMNS[1:]).filter(pa.array(is_wanted)))
    keys, first = np.unique(np.concatenate(read), return_index=True)
    if not len(keys):
        return NO_HASHES
    rows = pa.Table.from_batches(kept)
    stored = {name: pc.fill_null(rows[name], _UNKNOWN).to_numpy()[first] for name in HASH_COLUMNS.values()}
    hashes = {name: values.astype(np.int64) for name, values in stored.items()}
    return KeyHashes(keys, rows["is_empty"].to_numpy(zero_copy_only=False)[first], hashes)


_WITHIN_MS_SEED = 0  # the same in all runs: where records lie within their milliseconds is not the producer's chance


@dataclass(frozen=True, eq=False)
class TopicArrivals:
    """Arrivals of a session in a topic."""

    topic: int  # its number in the group
    count: int
    keyed: SessionTraffic | None  # the records with their keys; None where none has one: there may be millions

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
    """Arrivals of one session: an element per record, in order of time; topics by number in the group."""

    due_ns: NDArray[np.int64]  # after the group's `base_ms`
    body_bytes: NDArray[np.int32]  # as `simulator.engine.batches` measures them
    topic: NDArray[Any]
    # for each record, its index among the records of all `parts`, one after another; None for the same order
    order: NDArray[np.int64] | None
    parts: tuple[TopicArrivals, ...]  # what was recorded, topic by topic

    def assign(self, topics: Sequence[GroupTopic], counts: Sequence[int], assign_keys: AssignKeys) -> NDArray[Any]:
        """The partition of each record that its key decides, `KEYLESS` elsewhere; recorded ones are never looked at."""
        assigned = [part.assign(topics[part.topic], counts[part.topic], assign_keys) for part in self.parts]
        if len(assigned) == 1:
            return assigned[0]
        together = np.concatenate(assigned)
        return together if self.order is None else together[self.order]


@dataclass(frozen=True, eq=False)
class GroupArrivals:
    """Arrivals of all sessions of a group, in its order; times count from `base_ms`, epoch milliseconds."""

    base_ms: int
    sessions: tuple[SessionArrivals, ...]


def prepare_arrivals(group: SessionGroup, traffics: Iterable[SessionTraffic]) -> GroupArrivals:
    """Puts a group's records in order of time; other traffic is left out."""
    numbers = {(topic.topic, topic.topic_id): number for number, topic in enumerate(group.topics)}
    parts: dict[object, list[tuple[int, SessionTraffic]]] = defaultdict(list)
    keys = [one.key[1:] for one in group.sessions]
    weights = {key: session.weights for key, session in zip(keys, group.sessions, strict=True)}
    for traffic in traffics:
        topic = numbers.get((traffic.topic, traffic.topic_id))
        if topic is not None:
            pooled = (traffic.topic, traffic.topic_id) if traffic.is_pooled else ("", "")
            key = traffic.producer_id, traffic.producer_epoch, *pooled
            of_key = weights.get(key)
            for number, own in enumerate(traffic.deal(of_key) if of_key else [traffic]):
                if len(own):
                    parts[key, number].append((topic, own))
    numbered = zip(keys, (session.number for session in group.sessions), strict=True)
    sessions = [sorted(parts[place], key=itemgetter(0)) for place in numbered]
    base_ms = min((traffic.start_ms for found in sessions for _, traffic in found), default=group.start_ms)
    return GroupArrivals(base_ms, tuple(_prepare_session(found, base_ms) for found in sessions))


def _prepare_session(traffics: Sequence[tuple[int, SessionTraffic]], base_ms: int) -> SessionArrivals:
    parts = tuple(
        TopicArrivals(topic, len(traffic), traffic if traffic.is_keyed.any() else None) for topic, traffic in traffics
    )
    due = [traffic.place_records(base_ms, _WITHIN_MS_SEED) for _, traffic in traffics]
    sizes = [traffic.body_bytes for _, traffic in traffics]
    if len(parts) == 1:
        topic = np.broadcast_to(np.int16(parts[0].topic), len(due[0]))
        return SessionArrivals(due[0], sizes[0], topic, None, parts)
    due_ns = np.concatenate([np.zeros(0, np.int64), *due])
    body_bytes = np.concatenate([np.zeros(0, np.int32), *sizes])
    topic = np.repeat(np.array([part.topic for part in parts], np.int16), [part.count for part in parts])
    order = np.argsort(due_ns, kind="stable")
    return SessionArrivals(due_ns[order], body_bytes[order], topic[order], order, parts)
