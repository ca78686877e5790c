"""State machines of clients that pick partitions without a key: a state and a record give a partition and a new state.

States are frozen; chance is an argument. Nothing here knows batches beyond what the `Arrival` says of them.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a default is one
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from pipeline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

_NOTHING: Mapping[int, int] = {}


@dataclass(frozen=True)
class Arrival:
    """A record that reaches a producer, and what the producer sees at that moment.

    Attributes:
        partition_count: Partitions of the topic.
        available: Those with a leader, in the order of the metadata.
        now_ms: The clock.
        record_bytes: The record's size as the client counts it.
        open_batches: Partitions whose newest batch has room for the record.
        buffered_records: Records waiting, by partition.
    """

    partition_count: int
    available: tuple[int, ...]
    now_ms: int = 0
    record_bytes: int = 0
    open_batches: frozenset[int] = frozenset()
    buffered_records: Mapping[int, int] = field(default_factory=lambda: _NOTHING)


class Machine(Protocol):
    """A state that chooses."""

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, Machine]:
        """The partition for a record, and the state after it."""
        ...


class Pool(Enum):
    """The list of partitions a pick is an index into."""

    ALL = "all"
    AVAILABLE = "available"
    AVAILABLE_OR_ALL = "available, or all where none is"

    def list_partitions(self, arrival: Arrival) -> Sequence[int]:
        """The partitions to pick from.

        Raises:
            InputError: None is available, and the client has no other rule.
        """
        if self is Pool.ALL or (self is Pool.AVAILABLE_OR_ALL and not arrival.available):
            return range(arrival.partition_count)
        if not arrival.available:
            raise InputError("no partition has a leader; expected at least one")
        return arrival.available


@dataclass(frozen=True)
class RoundRobin:
    """The next of the list, `chunk` records each: Kafka's, KafkaJS's, kafka-go's and more, by pool and first count.

    Of the count the bits of `mask` decide: 31 in Java and JavaScript, 32 where counters are unsigned.
    """

    count: int = 0
    pool: Pool = Pool.AVAILABLE_OR_ALL
    chunk: int = 1
    mask: int = 0x7FFFFFFF

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, RoundRobin]:
        """The partition for a record, and the state after it."""
        partitions = self.pool.list_partitions(arrival)
        place = (self.count & self.mask) // self.chunk % len(partitions)
        return partitions[place], replace(self, count=self.count + 1)


@dataclass(frozen=True)
class SkippingRoundRobin:
    """The next of all partitions, leaderless ones skipped by counting on: Java 0.8.2."""

    count: int = 0

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, SkippingRoundRobin]:
        """The partition for a record, and the state after it; a leaderless one where every one is."""
        count = self.count
        for _ in range(arrival.partition_count):
            partition = (count & 0x7FFFFFFF) % arrival.partition_count
            count += 1
            if partition in arrival.available:
                return partition, SkippingRoundRobin(count)
        return (count & 0x7FFFFFFF) % arrival.partition_count, SkippingRoundRobin(count + 1)


@dataclass(frozen=True)
class TwoTurnRoundRobin:
    """Java's `RoundRobinPartitioner` from 2.4 to 3.9.1, with its defect (KAFKA-9965, mended by KAFKA-17632).

    1. The next of the partitions with a leader, or of all where none has one.
    2. Where that one has no batch with room the producer gives up, tells the partitioner, and asks again: the record
       goes to the one after it.

    So one producer with an even count of partitions never uses half of them.
    """

    count: int = 0

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, TwoTurnRoundRobin]:
        """The partition for a record, and the state after it."""
        partitions = Pool.AVAILABLE_OR_ALL.list_partitions(arrival)
        count = self.count
        if partitions[(count & 0x7FFFFFFF) % len(partitions)] not in arrival.open_batches:
            count += 1
        return partitions[(count & 0x7FFFFFFF) % len(partitions)], TwoTurnRoundRobin(count + 1)


@dataclass(frozen=True)
class RandomPick:
    """Uniform over the list, anew for every record."""

    pool: Pool = Pool.AVAILABLE_OR_ALL

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, RandomPick]:
        """The partition for a record, and the state after it."""
        return rng.choice(self.pool.list_partitions(arrival)), self


@dataclass(frozen=True)
class RandomPickTwice:
    """Uniform over all; a leaderless one is drawn once more, and that stands: librdkafka's `random`."""

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, RandomPickTwice]:
        """The partition for a record, and the state after it."""
        return draw_twice(arrival, rng), self


def draw_twice(arrival: Arrival, rng: Random) -> int:
    """A random partition as librdkafka draws it."""
    partition = rng.randrange(arrival.partition_count)
    return partition if partition in arrival.available else rng.randrange(arrival.partition_count)
