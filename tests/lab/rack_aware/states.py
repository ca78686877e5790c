"""Cluster states for the built-in partitioner, drawn from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.simulator.distributions import derive_stream, draw_bits

SEED = 1123
STATE_COUNT = 12_000
NOT_MADE = -1  # a queue that was never asked for
_RACKS = ("a", "b", "c", "")


@dataclass(frozen=True)
class State:
    """What a producer knows when it is about to draw a partition of a topic."""

    is_adaptive: bool
    timeout_ms: int  # `partitioner.availability.timeout.ms`
    client_rack: str  # "" is not rack-aware
    racks: tuple[str, ...]  # by broker; "" without one
    leaders: tuple[int, ...]  # by partition; -1 without one
    listed: tuple[int, ...]  # all partitions in the order of the metadata
    queue_sizes: tuple[int, ...]  # batches by partition, or NOT_MADE
    waits_ms: tuple[int, ...]  # by broker: between its last readiness and its last drain
    randoms: tuple[
        int, ...
    ]  # the first ones of 31 bits that the simulator draws for a topic, by the state's number as seed

    def format(self) -> str:
        """The state as `RackAware.java` reads it."""
        flags = f"{self.is_adaptive:d} {self.timeout_ms} {self.client_rack or '-'}"
        racks = ",".join(rack or "-" for rack in self.racks)
        numbers = (self.leaders, self.listed, self.queue_sizes, self.waits_ms, self.randoms)
        return " ".join([flags, racks, *(",".join(map(str, each)) for each in numbers)])


def draw_states() -> Iterator[State]:
    """The states that the answers are about."""
    rng = random.Random(SEED)
    for number in range(STATE_COUNT):
        stream = derive_stream(number, "partition", 0)
        broker_count, partition_count = rng.randint(1, 5), rng.randint(1, 12)
        racks = _RACKS[: rng.randint(1, 3)] + ("",) * rng.randint(0, 1)
        leaders = [rng.randrange(broker_count) for _ in range(partition_count)]
        for _ in range(rng.choice((0, 0, 1, partition_count))):
            leaders[rng.randrange(partition_count)] = -1
        longest = rng.choice((0, 1, 3, 8))
        sizes = [rng.randint(0, longest) for _ in range(partition_count)]
        if rng.random() < 0.1:
            sizes[rng.randrange(partition_count)] = NOT_MADE
        yield State(
            is_adaptive=rng.random() < 0.8,
            timeout_ms=rng.choice((0, 5)),
            client_rack=rng.choice(("a", "a", "b", "c", "nowhere", "")),
            racks=tuple(rng.choice(racks) for _ in range(broker_count)),
            leaders=tuple(leaders),
            listed=tuple(rng.sample(range(partition_count), partition_count)),
            queue_sizes=tuple(sizes),
            waits_ms=tuple(rng.choice((0, 0, 5, 6, 50)) for _ in range(broker_count)),
            randoms=tuple(draw_bits(stream, count) >> 33 for count in range(6)),
        )
