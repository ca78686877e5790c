"""The kernel against the reference model: equal in every counter, histogram, batch and record.

`python -m tests.properties.test_simulator_engines 5000` tries so many scenarios.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.simulator.clients.client import ClientFamily, Settings
from pipeline.simulator.distributions import Distribution, Steps
from pipeline.simulator.engine.initial_state import lay_out
from pipeline.simulator.engine.partitioners import Placement
from pipeline.simulator.engine.result import ConnectionCounter, ProducerCounter, QueueCounter
from pipeline.simulator.engine.simulate import FED_RECORD_COUNT, FINISHED, continue_run, make_room, simulate, start_run
from pipeline.simulator.scenario.measured import MEASURED_COSTS
from pipeline.simulator.scenario.scenario import (
    ErrorWindow,
    Gaps,
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
from tests.properties.simulated_scenarios import scenarios


def assert_equal_results(one, other):
    """Same to the byte, but first where it differs first: the batch trace is the run's diary."""
    for trace in ("batch_trace", "record_trace"):
        rows, others = (getattr(result, trace).to_pylist() for result in (one, other))
        for number, (row, other_row) in enumerate(zip(rows, others, strict=False)):
            assert row == other_row, f"{trace}, row {number}"
        assert len(rows) == len(others), trace
    for counters in ("queues", "connections", "producers"):
        assert getattr(one, counters).tolist() == getattr(other, counters).tolist(), counters
    for histograms in ("latencies", "queue_times", "request_latencies"):
        for column in ("counts", "sums_ns", "mins_ns", "maxs_ns"):
            values = (getattr(getattr(result, histograms), column) for result in (one, other))
            assert np.array_equal(*values), (histograms, column)
    assert one.end_ns == other.end_ns


BLOCKS = (2, 3, 10, FED_RECORD_COUNT)


def assert_engines_agree(scenario, seed, fed_record_count):
    """Recorded arrivals reach the kernel in blocks of so many, the reference all at once."""
    result = simulate(scenario, seed, traces=True, fed_record_count=fed_record_count)
    assert_equal_results(result, simulate_reference(scenario, seed, traces=True))


@given(scenario=scenarios(), seed=st.integers(0, 2**32), fed_record_count=st.sampled_from(BLOCKS))
def test_kernel_does_as_the_reference(scenario, seed, fed_record_count):
    assert_engines_agree(scenario, seed, fed_record_count)


@pytest.mark.parametrize("seed", range(20))
def test_commits_do_as_the_reference(seed):
    """Transactions of drawn lengths over two topics, with errors, time-outs, and coordinators slow or not."""
    chance = np.random.default_rng(seed)
    count = 800
    due_ns = np.cumsum(chance.integers(0, 3_000_000, count))
    records = Recorded(
        due_ns,
        chance.integers(50, 3000, count),
        np.where(chance.random(count) < 0.3, 1, -1),
        chance.integers(0, 2, count),
    )
    commits_ns = np.unique(chance.integers(0, int(due_ns[-1]) + 5_000_000, int(chance.choice([1, 10, 60]))))
    traffic = Traffic(records.with_commits(commits_ns), targets=(Target(topic=0), Target(topic=1)))
    service = Service(request_ns=Distribution.exponential(400_000), partition_ns=50_000)
    errors = (ErrorWindow(200_000_000, 600_000_000, 300_000),) if chance.random() < 0.3 else ()
    delays = chance.choice([0, 0, 15_000_000, 90_000_000], 3).tolist()
    quota = int(chance.choice([0, 0, 20_000]))
    brokers = tuple(
        SimulatedBroker(n, service, delay_ns=Steps.constant(delay), errors=errors, quota_bytes_per_s=quota)
        for n, delay in enumerate(delays)
    )
    chosen = Settings(
        placement=str(chance.choice(["BUILT_IN", "STICKY"])),
        linger_ns=int(chance.choice([0, 20_000_000])),
        max_in_flight_count=int(chance.choice([1, 5])),
        request_timeout_ns=(timeout_ns := int(chance.choice([80_000_000, 30_000_000_000]))),
        delivery_timeout_ns=timeout_ns + 400_000_000,  # what always times out is tried again for as long
        is_transactional=True,
        adds_partitions=bool(chance.random() < 0.7),
    )
    costs = replace(MEASURED_COSTS, markers_ns=int(chance.choice([0, 2_000_000, 40_000_000])))
    producer = Producer("p", (traffic,), settings=chosen, costs=costs, coordinator=int(chance.integers(3)))
    scenario = Scenario("made", brokers, (Topic("a", (0, 1, 2)), Topic("b", (2, 0))), (producer,))
    assert_engines_agree(scenario, seed, int(chance.choice(BLOCKS)))
    assert simulate(scenario, seed).producers[0, ProducerCounter.SENT_RECORDS] == count


def test_two_new_batches_in_a_row_leave_franz_go_no_partition_before():
    """Records with a partition of their own open batches, too: the next draw may repeat what was sticky before them."""
    partition = np.tile([-1, 1, 2], 200)
    records = Recorded(np.arange(600) * 1_000_000, np.full(600, 700), partition, np.zeros(600, np.int64))
    whole = Traffic(records, Distribution.constant(700), record_count=600)
    sticky = Settings(placement="STICKY_NEIGHBOUR", batch_bytes=1, linger_ns=0)
    broker = SimulatedBroker(0, Service(request_ns=Distribution.constant(100_000)))
    producer = Producer("p", (whole,), settings=sticky)
    scenario = Scenario("made", (broker,), (Topic("t", (0, 0, 0)),), (producer,))
    for seed in range(5):
        assert_engines_agree(scenario, seed, FED_RECORD_COUNT)


@pytest.mark.parametrize("placement", Placement, ids=[placement.name for placement in Placement])
def test_several_producers_of_a_kind_do_as_the_reference(placement):
    """Each has queues, connections and partitioner of its own for two topics, and a slow broker to keep away from."""
    exponential = Distribution.exponential(300_000)
    brokers = tuple(
        SimulatedBroker(
            number, Service(request_ns=exponential), delay_ns=Steps.constant(20_000_000 if number == 0 else 0)
        )
        for number in range(3)
    )
    topics = (Topic("orders", (0, 1, 2)), Topic("bills", (2, 0, 1, 1)))
    gaps = Gaps(Distribution.exponential(400_000))
    traffic = tuple(
        Traffic(gaps, Distribution.constant(700), (Target(topic=topic),), record_count=150) for topic in (0, 1)
    )
    family = ClientFamily.LIBRDKAFKA if placement is Placement.TIMED_STICKY else ClientFamily.JAVA
    chosen = Settings(
        placement=placement.name,
        is_adaptive=True,
        availability_timeout_ns=5_000_000,
        batch_bytes=2000,
        linger_ns=0,
        max_in_flight_count=1,
    )
    producers = tuple(Producer(name, traffic, family=family, settings=chosen) for name in ("a", "b", "c"))
    assert_engines_agree(Scenario("made", brokers, topics, producers), 7, FED_RECORD_COUNT)


@settings(max_examples=30)
@given(scenario=scenarios(), seed=st.integers(0, 2**32))
def test_laws(scenario, seed):
    """What goes in comes out, bytes are those of batches, waiting agrees with Little's law, and time does not run back."""
    result = simulate(scenario, seed, traces=True)
    queues, batches, records = result.queues, result.batch_trace.to_pylist(), result.record_trace.to_pylist()
    producers = result.producers
    ended = queues[:, QueueCounter.DONE_RECORDS] + queues[:, QueueCounter.FAILED_RECORDS]
    assert (queues[:, QueueCounter.APPENDED_RECORDS] == ended).all()
    assert (
        queues[:, QueueCounter.APPENDED_RECORDS].sum() + producers[:, ProducerCounter.REFUSED_RECORDS].sum()
        == producers[:, ProducerCounter.SENT_RECORDS].sum()
    )
    assert sum(batch["record_count"] for batch in batches) == len(records) == ended.sum()
    assert sum(b["size_bytes"] for b in batches if not b["is_failed"]) == queues[:, QueueCounter.DONE_BYTES].sum()
    assert (np.diff([batch["done_at_ns"] for batch in batches]) >= 0).all()
    assert all(b["created_at_ns"] <= b["drained_at_ns"] <= b["done_at_ns"] for b in batches if b["attempt_count"])
    assert all(b["created_at_ns"] <= b["done_at_ns"] <= result.end_ns for b in batches)
    assert len([b for b in batches if not b["is_failed"]]) == queues[:, QueueCounter.DONE_BATCHES].sum()
    for queue, row in enumerate(queues):
        assert result.latencies.of(queue).count == row[QueueCounter.DONE_RECORDS]
    for producer, made in enumerate(scenario.producers):
        connections = slice(producer * len(scenario.brokers), (producer + 1) * len(scenario.brokers))
        assert result.connections[connections, ConnectionCounter.MAX_IN_FLIGHT].max() <= _limit(made, scenario)
        assert producers[producer, ProducerCounter.MAX_BUFFER_BYTES] <= made.settings.buffer_memory_bytes


def _limit(producer, scenario):
    """Requests in flight on a connection; librdkafka looks before a turn that may send one for each partition."""
    extra = len(scenario.leaders) if producer.family is ClientFamily.LIBRDKAFKA else 0
    return producer.settings.max_in_flight_count + extra


def test_littles_law():
    """The time records spend between append and acknowledgement, summed while they come and go, is their latency's sum."""
    scenario = make_scenario()
    result = simulate(scenario, 3)
    # these records are appended at the moment they are sent
    assert result.queues[:, QueueCounter.IN_SYSTEM_NS].tolist() == result.latencies.sums_ns.tolist()
    assert result.queues[:, QueueCounter.DONE_RECORDS].sum() == 3000


def make_scenario(record_count=3000):
    """A small experiment with a slow broker, adaptive."""
    exponential = Distribution.exponential(300_000)
    brokers = tuple(
        SimulatedBroker(
            number, Service(request_ns=exponential), delay_ns=Steps.constant(20_000_000 if number == 0 else 0)
        )
        for number in range(3)
    )
    traffic = Traffic(PerfTest(rate_per_s=2048), value_bytes=Distribution.constant(512), record_count=record_count)
    return Scenario("small", brokers, (Topic("t", (0, 1, 2)),), (Producer("p", (traffic,)),))


def test_same_seed_same_bytes_in_any_thread():
    scenario = make_scenario()
    alone = [simulate(scenario, seed, traces=True) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: simulate(scenario, seed, traces=True), range(8)))
    for one, other in zip(alone, together, strict=True):
        assert_equal_results(one, other)
    assert alone[0].latencies.sums_ns.tolist() != alone[1].latencies.sums_ns.tolist()


def test_traces_change_nothing_else():
    scenario = make_scenario()
    plain, traced = simulate(scenario, 1), simulate(scenario, 1, traces=True)
    assert plain.batch_trace is None
    assert plain.queues.tolist() == traced.queues.tolist()
    assert np.array_equal(plain.latencies.counts, traced.latencies.counts)


def test_memory_does_not_grow_with_the_run():
    """Without traces what is done is freed: ten times the records need no more objects than waited at a time."""
    used = []
    for record_count in (3000, 30_000):
        sim = lay_out(make_scenario(record_count), 1, traces=False, fed_record_count=FED_RECORD_COUNT)
        start_run(sim)
        while continue_run(sim, 1 << 20) != FINISHED:
            sim = make_room(sim)
        used.append(sum(int(sim.run[pool]) for pool in ("batch_count", "block_count", "request_count")))
    assert used[1] < used[0] + 1000


if __name__ == "__main__":
    many = settings(
        max_examples=int(sys.argv[1]), deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
    )
    blocks = st.sampled_from(BLOCKS)
    many(given(scenario=scenarios(), seed=st.integers(0, 2**32), fed_record_count=blocks)(assert_engines_agree))()
