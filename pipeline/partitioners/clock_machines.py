"""Machines that stay with a partition for a time: librdkafka's, the Scala producer's, Pulsar's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.partitioners.machines import Arrival, Pool, draw_twice

if TYPE_CHECKING:
    from random import Random

_MAX_STICKY_LINGER_MS = 900_000


def derive_sticky_linger_ms(linger_ms: float) -> int:
    """What `sticky.partitioning.linger.ms` is in librdkafka where not set: twice `linger.ms`; 0 is off.

    >>> [derive_sticky_linger_ms(linger_ms) for linger_ms in (0, 0.5, 5)]
    [0, 1, 10]
    """
    return min(_MAX_STICKY_LINGER_MS, int(2 * linger_ms))


@dataclass(frozen=True)
class TimedSticky:
    """librdkafka's sticky partition, since 1.6.

    1. Keep the partition until more than `linger_ms` passed since it was drawn, or it has no leader.
    2. Then draw at random, the same one again perhaps.

    Unlike KIP-480, which it is named after, it knows nothing of batches and bytes. With 0 every record draws.
    """

    linger_ms: int
    partition: int = -1
    drawn_at_ms: int = 0

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, TimedSticky]:
        """The partition for a record, and the state after it."""
        is_kept = (
            self.linger_ms > 0
            and arrival.now_ms - self.drawn_at_ms <= self.linger_ms
            and self.partition in arrival.available
        )
        if is_kept:
            return self.partition, self
        partition = draw_twice(arrival, rng)
        return partition, replace(self, partition=partition, drawn_at_ms=arrival.now_ms)


@dataclass(frozen=True)
class RefreshedRandom:
    """The Scala producer's: one random partition with a leader, until the metadata is read again."""

    refresh_ms: int = 600_000
    partition: int = -1
    drawn_at_ms: int = 0

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, RefreshedRandom]:
        """The partition for a record, and the state after it."""
        if self.partition >= 0 and arrival.now_ms - self.drawn_at_ms < self.refresh_ms:
            return self.partition, self
        partition = rng.choice(Pool.AVAILABLE.list_partitions(arrival))
        return partition, replace(self, partition=partition, drawn_at_ms=arrival.now_ms)


@dataclass(frozen=True)
class TimeSlot:
    """Pulsar's with batching: the number of the clock's slot, plus a start; a slot is ten publish delays."""

    start: int = 0
    slot_ms: int = 10

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, TimeSlot]:
        """The partition for a record, and the state after it."""
        return (arrival.now_ms // self.slot_ms + self.start) % arrival.partition_count, self
