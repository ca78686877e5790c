"""Machines that move on with batches, bytes or backlog: the `Arrival` has to tell them what a producer holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.partitioners.machines import Arrival, Pool

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True)
class StickyCache:
    """Java's `StickyPartitionCache`, KIP-480.

    1. Keep the partition while it has a batch with room.
    2. Else draw from those with a leader until it is another one, and put the record there. One with a leader: that one.
       None: any.

    Every record that opens a batch counts, keyed ones too: see `open_batch`. A partition that loses its leader is kept
    until then; kafka-python's gives it up at once.
    """

    partition: int | None = None
    gives_up_leaderless: bool = False

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, StickyCache]:
        """The partition for a record without a key, and the state after it."""
        partition = self.partition
        if partition is None or self._is_lost(arrival):
            partition = _draw_another(partition, arrival, rng)
        if partition not in arrival.open_batches:
            partition = _draw_another(partition, arrival, rng)
        return partition, replace(self, partition=partition)

    def open_batch(self, partition: int, arrival: Arrival, rng: Random) -> StickyCache:
        """The state after any record found no batch with room on a partition."""
        if self.partition not in {None, partition}:
            return self
        return replace(self, partition=_draw_another(self.partition, arrival, rng))

    def _is_lost(self, arrival: Arrival) -> bool:
        return self.gives_up_leaderless and self.partition not in arrival.available


def _draw_another(partition: int | None, arrival: Arrival, rng: Random) -> int:
    partitions = Pool.AVAILABLE_OR_ALL.list_partitions(arrival)
    drawn = rng.choice(partitions)
    while len(arrival.available) > 1 and drawn == partition:
        drawn = rng.choice(partitions)
    return drawn


@dataclass(frozen=True)
class NeighbourSticky:
    """franz-go's `StickyPartitioner`, after KIP-480; places are indexes into the writable partitions.

    A draw that hits the last place again takes its neighbour, so that one is twice as likely: not Java's second draw.
    """

    place: int = -1

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, NeighbourSticky]:
        """The partition for a record, and the state after it."""
        partitions = Pool.AVAILABLE.list_partitions(arrival)
        sticky = self if 0 <= self.place < len(partitions) else self.move(len(partitions), rng)
        if partitions[sticky.place] not in arrival.open_batches:
            sticky = sticky.move(len(partitions), rng)
        return partitions[sticky.place], sticky

    def move(self, place_count: int, rng: Random) -> NeighbourSticky:
        """The state after a new batch."""
        drawn = rng.randrange(place_count)
        return NeighbourSticky((drawn + 1) % place_count if drawn == self.place else drawn)


@dataclass(frozen=True)
class LeastBackup:
    """franz-go's `LeastBackupPartitioner`: pinned until a new batch, then the fewest buffered records; ties are drawn."""

    partition: int = -1

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, LeastBackup]:
        """The partition for a record, and the state after it."""
        partitions = Pool.AVAILABLE.list_partitions(arrival)
        if self.partition in partitions and self.partition in arrival.open_batches:
            return self.partition, self
        fewest = min(arrival.buffered_records.get(partition, 0) for partition in partitions)
        best = [partition for partition in partitions if arrival.buffered_records.get(partition, 0) == fewest]
        partition = rng.choice(best)
        return partition, LeastBackup(partition)


@dataclass(frozen=True)
class UniformBytes:
    """franz-go's `UniformBytesPartitioner`, its default since 1.5.3.

    1. Add the record's bytes to the run's. Where that reaches `run_bytes`, this record begins the next run.
    2. A run draws a writable partition: uniformly, or if adaptive with weights 1 / (buffered records + 1).

    Unlike KIP-794 it counts records, not batches, weighs harmonically, and does not wait for a batch to be full.
    """

    run_bytes: int = 65_536
    is_adaptive: bool = True
    used_bytes: int = 0
    place: int = -1

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, UniformBytes]:
        """The partition for a record, and the state after it."""
        partitions = Pool.AVAILABLE.list_partitions(arrival)
        used_bytes = self.used_bytes + arrival.record_bytes
        if used_bytes < self.run_bytes and 0 <= self.place < len(partitions):
            return partitions[self.place], replace(self, used_bytes=used_bytes)
        if used_bytes >= self.run_bytes:
            used_bytes = arrival.record_bytes
        weights = [1 / (arrival.buffered_records.get(p, 0) + 1) if self.is_adaptive else 1.0 for p in partitions]
        place = rng.choices(range(len(partitions)), weights)[0]
        return partitions[place], replace(self, used_bytes=used_bytes, place=place)


@dataclass(frozen=True)
class LeastBytes:
    """kafka-go's `LeastBytes`: the fewest bytes so far, the first of equals; begins anew when the count changes."""

    sums_bytes: tuple[int, ...] = ()

    def choose(self, arrival: Arrival, rng: Random) -> tuple[int, LeastBytes]:
        """The partition for a record, and the state after it."""
        sums = list(self.sums_bytes)
        if len(sums) != arrival.partition_count:
            sums = [0] * arrival.partition_count
        partition = sums.index(min(sums))
        sums[partition] += arrival.record_bytes
        return partition, LeastBytes(tuple(sums))
