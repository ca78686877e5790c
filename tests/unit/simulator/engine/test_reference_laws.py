"""What holds in every run, whatever happens in it; and what each setting does; oracles: conservation, hand-made cases."""

import dataclasses
import functools

import numpy as np
import pytest

from pipeline.simulator.clients.client import MS, SECOND, ClientFamily, Compression, Settings, ThreadCosts
from pipeline.simulator.distributions import Distribution, Steps
from pipeline.simulator.engine.batches import measure_body_bytes
from pipeline.simulator.engine.result import ConnectionCounter, ProducerCounter, QueueCounter, SimulationResult
from pipeline.simulator.scenario.measured import (
    MEASURED_COSTS,
    MEASURED_OVERSLEEP,
    MEASURED_PERF_TEST_OVERSLEEP,
    MEASURED_SERVICE,
)
from pipeline.simulator.scenario.scenario import (
    ErrorWindow,
    Gaps,
    OnOff,
    PerfTest,
    Producer,
    Recorded,
    Scenario,
    Service,
    SimulatedBroker,
    Target,
    Topic,
    Traffic,
)
from tests.oracles.simulator.run import simulate_reference

VALUE = Distribution.constant(512)
PERF_TEST = Traffic(PerfTest(4096, MEASURED_PERF_TEST_OVERSLEEP), VALUE, record_count=4000)
FLAT_OUT = Traffic(PerfTest(0), VALUE, record_count=4000)
POISSON = Traffic(Gaps(Distribution.exponential(MS // 2)), VALUE, end_ns=SECOND)
ON_OFF = Traffic(
    OnOff(Distribution.exponential(MS // 4), Distribution.constant(20 * MS), Distribution.constant(30 * MS)),
    Distribution(((0.0, 10), (0.9, 400), (1.0, 30_000))),
    end_ns=SECOND,
)
MIXED = dataclasses.replace(
    POISSON,
    targets=(Target(weight=2), Target(weight=1, partition=1, key_bytes=8), Target(partition=2, is_explicit=True)),
)
RECORDED = Traffic(
    Recorded(
        np.arange(2000, dtype=np.int64) // 3 * MS,
        np.full(2000, measure_body_bytes(-1, 300), np.int64),
        np.where(np.arange(2000) % 5 == 0, 3, -1).astype(np.int64),
        np.zeros(2000, np.int64),
    )
)
SLOW = SimulatedBroker(0, MEASURED_SERVICE, delay_ns=Steps.constant(20 * MS), oversleep_ns=MEASURED_OVERSLEEP)
FAILING = dataclasses.replace(SLOW, errors=(ErrorWindow(100 * MS, 800 * MS, 400_000),))
THROTTLED = dataclasses.replace(SLOW, quota_bytes_per_s=100_000)
HANDLERS = dataclasses.replace(SLOW, handler_count=1, service=Service(Distribution.exponential(3 * MS)))
DEAF = dataclasses.replace(SLOW, delay_ns=Steps((0, 200 * MS, 800 * MS), (0, 3 * SECOND, 0)))
LIMITED = {"buffer_memory_bytes": 10 * 16_384, "max_block_ns": 5 * MS}


def make_scenario(
    *traffic: Traffic, broker: SimulatedBroker = SLOW, family: ClientFamily = ClientFamily.JAVA, **settings: object
) -> Scenario:
    brokers = (broker, SimulatedBroker(1, MEASURED_SERVICE), SimulatedBroker(2, MEASURED_SERVICE))
    producer = Producer("", traffic, family, settings=Settings(**settings), costs=MEASURED_COSTS)
    return Scenario("", brokers, (Topic("topic", (0, 1, 2, 0, 1, 2)),), (producer,))


def make_joint() -> Scenario:
    one = make_scenario(PERF_TEST, broker=HANDLERS)
    other = dataclasses.replace(one.producers[0], settings=Settings(placement="STICKY", linger_ns=5 * MS))
    return dataclasses.replace(one, producers=(one.producers[0], other), topics=(*one.topics, Topic("t", (2, -1, 0))))


SCENARIOS = {
    "built-in": make_scenario(PERF_TEST),
    "uniform": make_scenario(PERF_TEST, is_adaptive=False),
    "draft": make_scenario(PERF_TEST, placement="BUILT_IN_DRAFT"),
    "availability": make_scenario(FLAT_OUT, availability_timeout_ns=5 * MS),
    "sticky": make_scenario(PERF_TEST, placement="STICKY", drains_from_shared_index=True),
    "round robin": make_scenario(MIXED, placement="ROUND_ROBIN_TWO_TURN", ignores_keys=True, linger_ns=5 * MS),
    "old round robin": make_scenario(RECORDED, placement="ROUND_ROBIN_OLD"),
    "linger and mix": make_scenario(MIXED, ON_OFF, linger_ns=20 * MS),
    "ignores keys": make_scenario(MIXED, ignores_keys=True),
    "memory": make_scenario(FLAT_OUT, FLAT_OUT, MIXED, **LIMITED),
    "memory, sticky": make_scenario(FLAT_OUT, FLAT_OUT, placement="STICKY", **LIMITED),
    "compression": make_scenario(FLAT_OUT, compression=Compression(300_000, 20), max_request_bytes=20_000),
    "errors": make_scenario(PERF_TEST, broker=FAILING),
    "errors, not idempotent": make_scenario(PERF_TEST, broker=FAILING, is_idempotent=False, retry_count=1),
    "one in flight": make_scenario(PERF_TEST, broker=FAILING, max_in_flight_count=1),
    "expiry": make_scenario(FLAT_OUT, delivery_timeout_ns=150 * MS),
    "request timeout": make_scenario(POISSON, broker=DEAF, request_timeout_ns=400 * MS, delivery_timeout_ns=SECOND),
    "acks 0": make_scenario(PERF_TEST, acks=0),
    "quota": make_scenario(PERF_TEST, broker=THROTTLED),
    "quota, old client": make_scenario(PERF_TEST, broker=THROTTLED, throttles_itself=False),
    "librdkafka": make_scenario(
        MIXED, FLAT_OUT, family=ClientFamily.LIBRDKAFKA, placement="TIMED_STICKY", linger_ns=MS
    ),
    "librdkafka, random": make_scenario(
        FLAT_OUT, family=ClientFamily.LIBRDKAFKA, placement="RANDOM", batch_record_count=7, buffer_memory_bytes=50_000
    ),
    "joint": make_joint(),
}


WAITS_FOR_MEMORY = ("memory", "memory, sticky", "librdkafka, random")
SENDS_AGAIN = ("errors", "errors, not idempotent", "one in flight", "expiry", "request timeout")


@functools.cache
def run(name: str) -> SimulationResult:
    result = simulate_reference(SCENARIOS[name], 7, traces=True)
    assert result.queues[:, QueueCounter.DONE_RECORDS].sum() > 1000
    return result


def test_a_small_batch_is_stored_in_no_more_bytes_than_its_records_have():
    """Else its client would take records for larger than they are, so close batches early, which are small again."""
    scenario = make_scenario(POISSON, linger_ns=MS, compression=Compression(300_000, 3_000))
    totals = simulate_reference(scenario, 7).queues.sum(axis=0)
    assert totals[QueueCounter.DONE_BYTES] <= totals[QueueCounter.PLAIN_BYTES]


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in WAITS_FOR_MEMORY])
def test_littles_law_holds_to_the_nanosecond(name):
    """Records in the system summed over time = the time each spent in it: both sides counted on their own."""
    result = run(name)
    assert not result.producers[:, ProducerCounter.BLOCKED_RECORDS].any()  # a latency begins before a wait for memory
    records = result.record_trace.to_pylist()
    first_sent_ns = result.producers[:, ProducerCounter.FIRST_SENT_AT_NS]
    for queue, row in enumerate(result.queues):
        own = [r for r in records if r["producer"] * len(result.leaders) + r["partition"] == queue]
        metadata_ns = int(first_sent_ns[queue // len(result.leaders)]) + MEASURED_COSTS.metadata_ns
        spent_ns = sum(r["done_at_ns"] - max(r["sent_at_ns"], metadata_ns) for r in own)
        assert row[QueueCounter.IN_SYSTEM_NS] == spent_ns


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in SENDS_AGAIN])
def test_a_partition_keeps_its_order_where_nothing_fails_for_good(name):
    result = run(name)
    assert not result.queues[:, QueueCounter.RETRIES].any()
    numbers: dict[tuple[int, int], int] = {}
    for row in result.batch_trace.to_pylist():
        queue = (row["producer"], row["partition"])
        assert row["batch_number"] == numbers.get(queue, -1) + 1
        numbers[queue] = row["batch_number"]


def test_the_same_seed_gives_the_same_run_and_another_one_does_not():
    first, again = (simulate_reference(SCENARIOS["built-in"], 3, traces=True) for _ in range(2))
    assert first.record_trace.equals(again.record_trace)
    assert not first.record_trace.equals(simulate_reference(SCENARIOS["built-in"], 4, traces=True).record_trace)


def test_an_idempotent_producer_keeps_the_order_through_errors():
    result = run("errors")
    assert result.queues[:, QueueCounter.RETRIES].sum() > 5
    assert result.queues[:, QueueCounter.FAILED_RECORDS].sum() == 0
    for partition in (0, 3):
        own = [r["batch_number"] for r in result.batch_trace.to_pylist() if r["partition"] == partition]
        assert own == sorted(own)


def test_without_idempotence_errors_reorder_and_retries_end():
    result = run("errors, not idempotent")
    own = [r["batch_number"] for r in result.batch_trace.to_pylist() if r["partition"] == 0]
    assert own != sorted(own)
    assert result.queues[:, QueueCounter.FAILED_BATCHES].sum() > 0


def test_full_memory_blocks_and_then_refuses():
    producers = run("memory").producers[0]
    assert producers[ProducerCounter.MAX_BUFFER_BYTES] == LIMITED["buffer_memory_bytes"]
    assert producers[ProducerCounter.REFUSED_RECORDS] > 0
    assert producers[ProducerCounter.BLOCKED_NS] > 0
    patient = dataclasses.replace(SCENARIOS["memory"].producers[0].settings, max_block_ns=60 * SECOND)
    producer = dataclasses.replace(SCENARIOS["memory"].producers[0], settings=patient)
    result = simulate_reference(dataclasses.replace(SCENARIOS["memory"], producers=(producer,)), 7)
    assert result.producers[0, ProducerCounter.REFUSED_RECORDS] == 0


def test_old_batches_expire():
    result = run("expiry")
    ages_ns = [r["done_at_ns"] - r["created_at_ns"] for r in result.batch_trace.to_pylist() if r["is_failed"]]
    assert ages_ns
    assert min(ages_ns) >= 149 * MS  # clocks are read in whole milliseconds


def test_a_quota_is_kept_over_its_window():
    result = run("quota")
    slow_bytes = int(result.connections[0, ConnectionCounter.BYTES])
    assert slow_bytes > 500_000
    # the window counts as ten seconds from the start: so much is free, then the rate holds
    assert slow_bytes <= 100_000 * (10 + result.end_ns / SECOND) + 16_384 * 12


def test_late_requests_are_cut_and_sent_again():
    result = run("request timeout")
    assert result.connections[0, ConnectionCounter.TIMED_OUT] > 0
    assert result.queues[:, QueueCounter.RETRIES].sum() > 0


def make_quiet(gap_ns: int, record_count: int, **settings: object) -> Scenario:
    traffic = Traffic(Gaps(Distribution.constant(gap_ns)), VALUE, record_count=record_count)
    producer = Producer("", (traffic,), settings=Settings(**settings), costs=ThreadCosts())
    return Scenario("", (SimulatedBroker(0, Service(Distribution.constant(MS))),), (Topic("topic", (0,)),), (producer,))


def test_linger_counts_from_the_first_record():
    result = simulate_reference(make_quiet(2 * MS, 100, linger_ns=9 * MS), 1, traces=True)
    rows = result.batch_trace.to_pylist()[:-1]
    assert {(row["drained_at_ns"] - row["created_at_ns"]) // 1000 for row in rows} == {9001}
    assert {row["record_count"] for row in rows} == {5}


def test_a_full_batch_does_not_wait_for_linger():
    rows = simulate_reference(make_quiet(MS, 310, linger_ns=SECOND), 1, traces=True).batch_trace.to_pylist()
    assert [row["record_count"] for row in rows] == [31] * 10
    assert rows[0]["drained_at_ns"] // 1000 == 32_001  # the 32nd finds no room; its `send()` takes 1 us


def test_one_expired_linger_takes_along_all_partitions_of_a_broker():
    targets = (Target(partition=0, is_explicit=True), Target(partition=1, is_explicit=True))
    traffic = Traffic(Gaps(Distribution.constant(MS)), VALUE, targets=targets, record_count=1000)
    producer = Producer("", (traffic,), settings=Settings(linger_ns=20 * MS))
    scenario = Scenario("", (SimulatedBroker(0),), (Topic("topic", (0, 0)),), (producer,))
    result = simulate_reference(scenario, 1)
    requests = result.connections[0, ConnectionCounter.REQUESTS]
    assert requests == pytest.approx(1000 / 20, abs=4)
    assert result.connections[0, ConnectionCounter.BATCHES] > 1.9 * requests


def test_a_record_that_no_request_can_hold_is_refused():
    result = simulate_reference(make_quiet(MS, 10, max_request_bytes=500), 1)
    assert result.producers[0, ProducerCounter.REFUSED_RECORDS] == 10


def test_one_request_at_a_time_is_served():
    """A request takes 1 ms, records of a batch each come every 0.4 ms: five are in flight, and 1000 a second done."""
    result = simulate_reference(make_quiet(MS * 4 // 10, 1000, batch_bytes=1), 1)
    assert result.end_ns == pytest.approx(1000 * MS, rel=0.01)
    assert result.connections[0, ConnectionCounter.MAX_IN_FLIGHT] == 5


def test_compressed_batches_hold_more_records_as_the_estimate_falls():
    scenario = make_quiet(MS // 5, 6000, linger_ns=SECOND, compression=Compression(300_000, 20))
    rows = simulate_reference(scenario, 1, traces=True).batch_trace.to_pylist()
    counts = [row["record_count"] for row in rows[:-1]]
    assert counts[0] == 29  # taken to shrink to 1.05 at first
    assert counts == sorted(counts)
    assert counts[-1] > 50
