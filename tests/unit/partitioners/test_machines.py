"""Partitions picked without a key; oracles: the clients' own tests and the rules in their sources, by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from pipeline.errors import InputError
from pipeline.partitioners.batch_machines import LeastBackup, LeastBytes, NeighbourSticky, StickyCache, UniformBytes
from pipeline.partitioners.clock_machines import RefreshedRandom, TimedSticky, TimeSlot
from pipeline.partitioners.keyless import Scope
from pipeline.partitioners.machines import (
    Arrival,
    Pool,
    RandomPick,
    RandomPickTwice,
    RoundRobin,
    SkippingRoundRobin,
    TwoTurnRoundRobin,
)
from pipeline.partitioners.registry import STRATEGIES, find_strategy


def topic(count, available=None, **more):
    return Arrival(count, tuple(range(count)) if available is None else available, **more)


def follow(machine, arrivals, seed=1):
    rng, found = Random(seed), []
    for arrival in arrivals:
        partition, machine = machine.choose(arrival, rng)
        found.append(partition)
    return found


class Scripted(Random):
    """Draws what it is told."""

    def __init__(self, *draws):
        super().__init__(0)
        self.draws = list(draws)

    def randrange(self, *_):
        return self.draws.pop(0)

    def choice(self, items):
        return items[self.draws.pop(0)]


@pytest.mark.parametrize(
    ("machine", "arrival", "partitions"),
    [
        (RoundRobin(0), topic(3), [0, 1, 2, 0]),
        (RoundRobin(0), topic(3, (2, 0)), [2, 0, 2, 0]),
        (RoundRobin(0), topic(3, ()), [0, 1, 2, 0]),
        (RoundRobin(2**31 - 1), topic(3), [1, 0, 1, 2]),
        (RoundRobin(0, chunk=2), topic(3), [0, 0, 1, 1]),
        (RoundRobin(2**32 - 1, Pool.ALL, mask=0xFFFFFFFF), topic(4), [3, 0, 1, 2]),
        (RoundRobin(0, Pool.ALL), topic(3, (2,)), [0, 1, 2, 0]),
        (SkippingRoundRobin(0), topic(4, (0, 2)), [0, 2, 0, 2]),
        (SkippingRoundRobin(1), topic(4, (0, 3)), [3, 0, 3, 0]),
        (SkippingRoundRobin(0), topic(2, ()), [0, 1, 0, 1]),
        (LeastBytes(), topic(3, record_bytes=5), [0, 1, 2, 0]),
        (LeastBytes((9, 3, 3)), topic(3, record_bytes=5), [1, 2, 1, 2]),
        (LeastBytes((9, 3)), topic(3, record_bytes=5), [0, 1, 2, 0]),
    ],
)
def test_in_turn(machine, arrival, partitions):
    assert follow(machine, [arrival] * 4) == partitions


def test_kafkas_round_robin_test():
    """Kafka's RoundRobinPartitionerTest: 30 calls on 3 partitions; 100 with partition 1 leaderless."""
    assert Counter(follow(RoundRobin(0), [topic(3)] * 30)) == {0: 10, 1: 10, 2: 10}
    assert Counter(follow(RoundRobin(0), [topic(3, (0, 2))] * 100)) == {0: 50, 2: 50}


def produce(machine, count, records, room):
    """Partitions of a producer whose batches take `room` records each and are never sent."""
    rng, left, found = Random(1), {}, []
    for _ in range(records):
        open_batches = frozenset(partition for partition, free in left.items() if free)
        partition, machine = machine.choose(topic(count, open_batches=open_batches), rng)
        left[partition] = (left[partition] if partition in open_batches else room) - 1
        found.append(partition)
    return found


def test_the_two_turns_of_round_robin():
    """KAFKA-9965: an even count leaves half of the partitions empty; an odd one is used evenly; the mended one too."""
    assert set(produce(TwoTurnRoundRobin(), 6, 600, room=1)) == {1, 3, 5}
    assert Counter(produce(TwoTurnRoundRobin(), 5, 600, room=1)) == dict.fromkeys(range(5), 120)
    assert set(produce(find_strategy("java-round-robin-3.9.2").keyless.start(Random(1)), 6, 600, room=1)) == set(
        range(6)
    )


def test_sticky_cache_never_draws_the_same_again():
    """KIP-480: a run of one partition per batch, and no two runs alike."""
    found = produce(StickyCache(), 4, 400, room=4)
    runs = [found[start : start + 4] for start in range(0, 400, 4)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(a[0] != b[0] for a, b in pairwise(runs))
    assert set(found) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("before", "arrival", "draws", "after"),
    [
        (2, topic(4, open_batches=frozenset({2})), [], 2),
        (2, topic(4), [2, 2, 3], 3),
        (2, topic(4, (2,)), [0], 2),
        (2, topic(4, (1,)), [0], 1),
        (2, topic(4, ()), [2], 2),
        (2, topic(4, (1, 3), open_batches=frozenset({2})), [], 2),
        (None, topic(4), [1, 1, 0], 0),
        (None, topic(4, open_batches=frozenset({1})), [1], 1),
    ],
)
def test_draws_of_the_sticky_cache(before, arrival, draws, after):
    """By `StickyPartitionCache.nextPartition`: kept, drawn until different, the only one, none available, at first."""
    rng = Scripted(*draws)
    assert StickyCache(before).choose(arrival, rng)[0] == after
    assert rng.draws == []


def test_kafka_python_gives_up_a_partition_that_lost_its_leader():
    arrival = topic(4, (1, 3), open_batches=frozenset({1, 2}))
    assert StickyCache(2, gives_up_leaderless=True).choose(arrival, Scripted(0))[0] == 1


def test_a_keyed_record_moves_the_sticky_partition_if_it_opens_a_batch_there():
    cache = StickyCache(2)
    assert cache.open_batch(1, topic(4), Scripted()) == cache
    assert cache.open_batch(2, topic(4), Scripted(2, 0)) == StickyCache(0)


@pytest.mark.parametrize(("place", "draw", "after"), [(0, 2, 2), (1, 1, 2), (3, 3, 0), (-1, 3, 3)])
def test_a_draw_of_the_same_takes_the_neighbour(place, draw, after):
    assert NeighbourSticky(place).move(4, Scripted(draw)).place == after


def test_neighbour_sticky_keeps_an_open_batch():
    arrival = topic(4, (3, 1), open_batches=frozenset({1}))
    assert NeighbourSticky(1).choose(arrival, Scripted())[0] == 1
    assert NeighbourSticky(0).choose(arrival, Scripted(1))[0] == 1


def test_least_backup():
    """The fewest buffered records, ties drawn, pinned while the batch has room."""
    arrival = topic(3, buffered_records={0: 2, 1: 1, 2: 1})
    assert set(follow(LeastBackup(), [arrival] * 30)) == {1, 2}
    assert LeastBackup(0).choose(replace(arrival, open_batches=frozenset({0})), Scripted())[0] == 0


def test_uniform_bytes_counts_before_it_moves():
    """A run of 100 bytes holds three records of 30: the fourth begins the next, and counts for it."""
    machine, rng, used = UniformBytes(run_bytes=100, is_adaptive=False), Random(3), []
    for _ in range(8):
        _, machine = machine.choose(topic(4, record_bytes=30), rng)
        used.append(machine.used_bytes)
    assert used == [30, 60, 90, 30, 60, 90, 30, 60]
    places = follow(UniformBytes(run_bytes=100, is_adaptive=False), [topic(4, record_bytes=30)] * 300)
    assert all(len(set(places[start : start + 3])) == 1 for start in range(0, 300, 3))


def test_uniform_bytes_weighs_by_backlog():
    """Weights 1/1 and 1/4: four fifths go to the idle partition, within four standard deviations."""
    arrival = topic(2, record_bytes=100, buffered_records={1: 3})
    share = follow(UniformBytes(run_bytes=100), [arrival] * 2000).count(0) / 2000
    assert abs(share - 0.8) < 4 * (0.8 * 0.2 / 2000) ** 0.5


def test_timed_sticky():
    """librdkafka: kept for 10 ms after the draw, given up for a lost leader, drawn by record where it is off."""
    at = [topic(4, now_ms=now_ms) for now_ms in (0, 5, 10, 11, 21, 22)]
    rng, machine, found = Scripted(3, 1, 1), TimedSticky(10), []
    for arrival in at:
        partition, machine = machine.choose(arrival, rng)
        found.append(partition)
    assert found == [3, 3, 3, 1, 1, 1]
    assert rng.draws == []
    lost = topic(4, (0, 1, 2))
    assert TimedSticky(10, 3, 0).choose(lost, Scripted(2)) == (2, TimedSticky(10, 2, 0))
    assert len(set(follow(TimedSticky(0), [topic(4)] * 50))) == 4


@pytest.mark.parametrize(("draws", "partition"), [([1], 1), ([3, 0], 0), ([3, 3], 3)])
def test_a_leaderless_draw_is_drawn_once_more(draws, partition):
    assert RandomPickTwice().choose(topic(4, (0, 1)), Scripted(*draws))[0] == partition


def test_scala_keeps_its_draw_until_the_metadata_is_read_again():
    at = [topic(9, now_ms=now_ms) for now_ms in (5, 600_004, 600_005)]
    rng = Scripted(4, 7)
    first, machine = RefreshedRandom().choose(at[0], rng)
    second, machine = machine.choose(at[1], rng)
    third, _ = machine.choose(at[2], rng)
    assert (first, second, third) == (4, 4, 7)


def test_time_slots():
    """Pulsar's router test: the slots 12345x and 12346x of 100 partitions."""
    at = [topic(100, now_ms=now_ms) for now_ms in (123450, 123459, 123460, 123469)]
    assert follow(TimeSlot(), at) == [45, 45, 46, 46]


@pytest.mark.parametrize("machine", [RoundRobin(0, Pool.AVAILABLE), RandomPick(Pool.AVAILABLE), NeighbourSticky()])
def test_no_leader_anywhere(machine):
    with pytest.raises(InputError, match="no partition has a leader"):
        machine.choose(topic(3, ()), Random(1))


@pytest.mark.parametrize(
    "strategy", [s for s in STRATEGIES.values() if s.keyless and s.keyless.start], ids=lambda s: s.name
)
def test_every_machine_begins_and_goes_on(strategy):
    arrivals = [topic(5, (0, 1, 3, 4), now_ms=now_ms, record_bytes=900) for now_ms in range(0, 1000, 10)]
    first = follow(strategy.keyless.start(Random(7)), arrivals)
    assert first == follow(strategy.keyless.start(Random(7)), arrivals), "chance is an argument"
    assert set(first) <= set(range(5))


def test_one_counter_for_all_topics_in_old_clients():
    shared = {s.name for s in STRATEGIES.values() if s.keyless and s.keyless.scope is Scope.PRODUCER}
    assert shared == {"java-murmur2-0.8.2", "java-murmur2-0.9", "rust-kafka"}
