"""The older partitioners, record by record; oracles: Kafka's rules, worked out by hand, and its known defect."""

import collections
from itertools import pairwise

import pytest

from pipeline.simulator.clients.client import MS, ClientFamily, Settings
from pipeline.simulator.distributions import Distribution
from pipeline.simulator.engine.batches import measure_body_bytes
from pipeline.simulator.scenario.scenario import Gaps, Producer, Scenario, SimulatedBroker, Topic, Traffic
from tests.oracles.simulator.accumulator import Accumulator
from tests.oracles.simulator.append import Appender
from tests.oracles.simulator.batch import Record
from tests.oracles.simulator.chance import Stream
from tests.oracles.simulator.kip_480 import NONE, rotate_sticky

BODY_BYTES = measure_body_bytes(-1, 512)


class Client:
    """A producer whose batches are sent when the test says so."""

    def __init__(self, placement: str, leaders: tuple[int, ...], **settings: object) -> None:
        family = ClientFamily.LIBRDKAFKA if placement in {"TIMED_STICKY", "RANDOM"} else ClientFamily.JAVA
        traffic = Traffic(Gaps(Distribution.constant(MS)), record_count=1)
        producer = Producer("", (traffic,), family, settings=Settings(placement=placement, **settings))
        self.accumulator = Accumulator(Scenario("", (SimulatedBroker(0),), (Topic("topic", leaders),), (producer,)), 0)
        self.appender = Appender(self.accumulator, 0, Stream(1, "partition", 0))

    def send(self, partition: int = -1, now_ns: int = 0) -> int:
        return self.appender.append(Record(0, 0, partition, BODY_BYTES, now_ns, now_ns), now_ns).partition

    def drain(self) -> None:
        for queue in self.accumulator.queues:
            queue.batches.clear()


def test_sticky_stays_while_its_batch_has_room_and_never_repeats_after():
    client = Client("STICKY", (0,) * 3)
    last = None
    for _ in range(50):
        run = {client.send() for _ in range(31)}  # 31 records of 512 bytes fill a batch
        assert len(run) == 1
        assert run != last
        last = run
        client.drain()


def test_sticky_moves_on_when_its_batch_was_sent():
    client = Client("STICKY", (0,) * 5)
    partitions = []
    for _ in range(200):
        partitions.append(client.send())
        client.drain()
    assert all(first != second for first, second in pairwise(partitions))
    assert set(partitions) == set(range(5))


def test_a_keyed_record_that_opens_the_sticky_partitions_batch_moves_it():
    client = Client("STICKY", (0,) * 9)
    for partition in range(9):
        client.send(partition)
    for _ in range(100):
        sticky = client.send()
        assert client.send() == sticky
        client.accumulator.queues[sticky].batches.clear()
        assert client.send(partition=sticky) == sticky
        assert client.send() != sticky
        for partition in range(9):  # keyed records that find room move nothing
            client.accumulator.queues[partition].batches[-1].records.clear()
            client.accumulator.queues[partition].batches[-1].record_bytes = 0
        other = client.send()
        assert client.send(partition=sticky) == sticky
        assert client.send() == other


def test_the_sticky_partition_is_drawn_among_those_with_a_leader():
    client = Client("STICKY", (-1, 0, -1, 0))
    seen = set()
    for _ in range(20):
        seen.add(client.send())
        client.drain()
    assert seen == {1, 3}
    assert rotate_sticky(4, 4, (4,), 9, lambda _: pytest.fail("nothing to draw")) == 4
    assert rotate_sticky(2, 5, (0, 1), 9, lambda _: pytest.fail("not its batch")) == 2
    assert rotate_sticky(NONE, NONE, (), 9, lambda length: length - 1) == 8


@pytest.mark.parametrize("partition_count", [2, 4, 6, 48])
def test_the_defect_leaves_half_of_an_even_count_of_partitions_empty(partition_count):
    client = Client("ROUND_ROBIN_TWO_TURN", (0,) * partition_count)
    used = collections.Counter(client.send() for _ in range(100 * partition_count))
    assert set(used) == set(range(1, partition_count, 2))


@pytest.mark.parametrize("partition_count", [3, 5, 47])
def test_the_defect_uses_all_of_an_odd_count(partition_count):
    client = Client("ROUND_ROBIN_TWO_TURN", (0,) * partition_count)
    used = collections.Counter(client.send() for _ in range(1000 * partition_count))
    assert set(used) == set(range(partition_count))
    assert max(used.values()) <= 1.1 * min(used.values())


@pytest.mark.parametrize("placement", ["ROUND_ROBIN", "ROUND_ROBIN_OLD"])
def test_round_robin_without_the_defect_takes_all_in_turn(placement):
    client = Client(placement, (0, 0, -1, 0))
    partitions = [client.send() for _ in range(300)]
    assert collections.Counter(partitions) == {0: 100, 1: 100, 3: 100}
    assert partitions[:3] == partitions[3:6]
    if placement == "ROUND_ROBIN":
        assert partitions[0] == 0


def test_librdkafka_stays_for_a_time_whatever_its_batches_do():
    client = Client("TIMED_STICKY", (0,) * 50, sticky_linger_ns=10 * MS)
    runs = [
        {client.send(now_ns=start_ms * MS), client.send(now_ns=start_ms * MS + 10 * MS)}
        for start_ms in range(0, 990, 11)
    ]
    assert all(len(run) == 1 for run in runs)
    assert len(set.union(*runs)) > 30


def test_at_random_every_record_draws_and_a_leaderless_partition_is_drawn_once_more():
    client = Client("RANDOM", (0, -1))
    assert collections.Counter(client.send() for _ in range(4000))[1] / 4000 == pytest.approx(0.25, abs=0.03)
