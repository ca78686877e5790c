"""KIP-794: when the built-in partitioner moves on, and where to; oracles: Kafka's own tests, KAFKA-14156's example."""

import collections

import pytest

from pipeline.simulator.clients.client import MS, SECOND, Settings
from pipeline.simulator.distributions import Distribution
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES, measure_body_bytes, measure_record_bytes
from pipeline.simulator.scenario.scenario import Gaps, Producer, Scenario, SimulatedBroker, Topic, Traffic
from tests.oracles.simulator.accumulator import Accumulator
from tests.oracles.simulator.append import Appender
from tests.oracles.simulator.batch import Record
from tests.oracles.simulator.chance import Stream
from tests.oracles.simulator.kip_794 import draw_partition, is_run_over, weigh_queues
from tests.oracles.simulator.run import simulate_reference

MANY = 1009  # partitions: two runs on one after the other are then too rare to matter


def make_accumulator(settings: Settings, partition_count: int) -> Accumulator:
    traffic = Traffic(Gaps(Distribution.constant(MS)), record_count=1)
    topic = Topic("topic", (0,) * partition_count)
    return Accumulator(Scenario("", (SimulatedBroker(0),), (topic,), (Producer("", (traffic,), settings=settings),)), 0)


def measure_runs(value_bytes: int, *, records_per_batch: int, record_count: int) -> list[tuple[int, int]]:
    """Bytes and batches of each run; batches are sent after so many records, 0: never."""
    accumulator = make_accumulator(Settings(is_adaptive=False, buffer_memory_bytes=1 << 40), MANY)
    appender = Appender(accumulator, 0, Stream(1, "partition", 0))
    record = Record(0, 0, -1, measure_body_bytes(-1, value_bytes), 0, 0)
    sent: dict[int, list[int]] = collections.defaultdict(list)
    for _ in range(record_count):
        partition = appender.append(record, 0).partition
        queue = accumulator.queues[partition]
        if records_per_batch and len(queue.batches[-1].records) == records_per_batch:
            sent[partition].append(queue.batches.pop().plain_bytes)
    for partition, queue in enumerate(accumulator.queues):
        sent[partition] += [batch.plain_bytes for batch in queue.batches]
    return [(sum(sizes), len(sizes)) for sizes in sent.values() if sizes]


def test_queue_sizes_become_the_frequencies_of_kafkas_own_test():
    stats = weigh_queues([5, 0, 3, 0, 1], range(5), 5)
    assert stats.frequencies == (1, 7, 10, 16, 21)
    drawn = [draw_partition(stats, (0, 1, 2, 3, 4), 5, lambda _, weight=weight: weight) for weight in range(21)]
    assert [drawn.count(partition) for partition in range(5)] == [1, 6, 3, 6, 5]


def test_no_table_where_nothing_is_to_be_told_apart():
    assert weigh_queues([2, 2, 2], range(3), 3) is None
    assert weigh_queues([7], [0], 1) is None
    assert weigh_queues([], [], 3) is None
    assert weigh_queues([2, 2], [0, 2], 3).frequencies == (1, 2)  # one is left out: even then, by the table


def test_a_sticky_batch_size_of_three_is_left_after_the_third_byte():
    over = [is_run_over(produced_bytes, 3, may_switch=True, is_draft=False) for produced_bytes in (1, 2, 3)]
    assert over == [False, False, True]
    held = [is_run_over(produced_bytes, 3, may_switch=False, is_draft=False) for produced_bytes in (3, 5, 6)]
    assert held == [False, False, True]
    assert is_run_over(3, 3, may_switch=False, is_draft=True)
    assert is_run_over(1, 0, may_switch=True, is_draft=False)  # batch.size 0


@pytest.mark.parametrize(
    ("value_bytes", "run_bytes", "batch_count"),
    [(100, 32_554, 2), (512, 32_424, 2), (1000, 32_410, 2), (4096, 24_752, 2), (8000, 32_158, 2), (20_000, 20_072, 1)],
)
def test_a_saturated_run_is_two_batches(value_bytes, run_bytes, batch_count):
    runs = measure_runs(value_bytes, records_per_batch=0, record_count=15 * run_bytes // value_bytes)
    counts = collections.Counter(runs[:-1])
    (usual, count), *_ = counts.most_common(1)
    assert usual == (run_bytes, batch_count)
    assert count >= 0.9 * len(runs) - 1  # a partition drawn twice counts twice; the last run is cut


@pytest.mark.parametrize(("records_per_batch", "run_bytes", "batch_count"), [(1, 16_878, 29), (4, 17_160, 8)])
def test_a_run_whose_batches_are_sent_at_once_counts_each_header(records_per_batch, run_bytes, batch_count):
    runs = measure_runs(512, records_per_batch=records_per_batch, record_count=2000)
    assert collections.Counter(runs).most_common(1)[0][0] == (run_bytes, batch_count)


def count_batch_sizes(placement: str) -> dict[int, int]:
    """KAFKA-14156: linger 500 ms, 12 records of 1 KiB within it, batch.size 16 KiB."""
    settings = Settings(placement=placement, is_adaptive=False, linger_ns=500 * MS)
    traffic = Traffic(Gaps(Distribution.constant(42 * MS)), Distribution.constant(1011), record_count=24 * 40)
    producer = Producer("", (traffic,), settings=settings)
    brokers = tuple(
        SimulatedBroker(number) for number in range(101)
    )  # of its own each: a request takes along what else waits
    scenario = Scenario("", brokers, (Topic("topic", tuple(range(101))),), (producer,))
    trace = simulate_reference(scenario, 1, traces=True).batch_trace
    return dict(collections.Counter(trace["record_count"].to_pylist()))


def test_the_draft_alternates_large_and_small_batches_where_the_release_does_not():
    draft = count_batch_sizes("BUILT_IN_DRAFT")
    assert draft[12] == 60
    assert draft[4] >= 50  # but where a partition is drawn again at once
    assert count_batch_sizes("BUILT_IN") == {12: 80}


def test_appended_bytes_are_counted_with_the_header():
    assert BATCH_HEADER_BYTES + measure_record_bytes(measure_body_bytes(-1, 512), 0, 0) == 582
    assert 29 * 582 == 16_878


def make_queues(lengths: list[int], availability_timeout_ms: int, late_partition: int) -> Accumulator:
    """Queues of so many batches, a partition on a broker each; one broker has kept its data waiting."""
    settings = Settings(availability_timeout_ns=availability_timeout_ms * MS, batch_bytes=100, linger_ns=SECOND)
    traffic = Traffic(Gaps(Distribution.constant(MS)), record_count=1)
    topic = Topic("topic", tuple(range(len(lengths))))
    brokers = tuple(SimulatedBroker(number) for number in range(len(lengths)))
    accumulator = Accumulator(Scenario("", brokers, (topic,), (Producer("", (traffic,), settings=settings),)), 0)
    record = Record(0, 0, -1, measure_body_bytes(-1, 200), 0, 0)
    for partition, length in enumerate(lengths):
        accumulator.queues[partition].is_made = True
        for _ in range(length):
            accumulator.open_batch(partition, record, 0, 300)
    accumulator.note_node(late_partition, 0, can_drain=True)
    accumulator.note_node(late_partition, 6 * MS, can_drain=False)
    accumulator.find_ready(6 * MS)
    return accumulator


def test_a_partition_kept_waiting_is_left_out_and_the_next_empty_one_inherits_its_length():
    stats = make_queues([0, 3, 0, 1], 5, 1).load_stats[0]
    assert stats.partitions == (0, 2, 3)
    assert stats.frequencies == (4, 5, 8)  # 2 has nothing queued, but weighs as if it had 3


def test_a_partition_with_nothing_queued_is_not_left_out():
    assert make_queues([1, 0], 5, 1).load_stats[0].partitions == (0, 1)


def test_without_a_timeout_nothing_is_left_out():
    assert make_queues([0, 3, 0, 1], 0, 1).load_stats[0].frequencies == (4, 5, 9, 12)


def test_if_all_are_left_out_all_are_drawn_alike():
    assert make_queues([3], 5, 0).load_stats[0] is None


def test_no_table_before_every_partition_had_a_batch():
    accumulator = make_queues([0, 3, 0, 1], 0, 1)
    accumulator.queues[2].is_made = False
    accumulator.find_ready(7 * MS)
    assert accumulator.load_stats[0] is None
