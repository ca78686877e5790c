"""Runs differ by the state of their machines, too."""

from dataclasses import replace

import pytest

from pipeline.simulator.clients.client import ThreadCosts
from pipeline.simulator.distributions import ALIKE, Distribution, Steps
from pipeline.simulator.scenario.measured import settle_costs, settle_run, settle_service
from pipeline.simulator.scenario.scenario import Gaps, Producer, Scenario, Service, SimulatedBroker, Topic, Traffic
from tests.oracles.simulator.run import simulate_reference

MS = 1_000_000
SPREAD = Distribution(((0.0, 500_000), (1.0, 2_000_000)))
SERVICE = Service(Distribution.constant(MS), idle=((5 * MS, Distribution.exponential(MS)),), partition_ns=100, kib_ns=8)
COSTS = ThreadCosts(wake_ns=Distribution.constant(1000), loop_ns=60, transit_ns=70, metadata_ns=MS)


def make_scenario(*, spread=ALIKE, delay_ns=0, gap_ms=100, service=SERVICE):
    """Two brokers and two producers that send twenty records each."""
    brokers = tuple(
        SimulatedBroker(number, replace(service, run_to_run_ppm=spread), delay_ns=Steps.constant(delay_ns))
        for number in range(2)
    )
    traffic = Traffic(Gaps(Distribution.constant(gap_ms * MS)), record_count=20)
    producers = tuple(
        Producer(f"p{number}", (traffic,), costs=replace(COSTS, run_to_run_ppm=spread)) for number in range(2)
    )
    return Scenario("two", brokers, (Topic("t", (0, 1)),), producers)


def test_what_a_factor_changes():
    """All that a broker and a sender take; not what an append costs or the wait for metadata."""
    doubled = settle_service(SERVICE, 2_000_000)
    assert doubled.request_ns == Distribution.constant(2 * MS)
    assert doubled.idle == ((5 * MS, Distribution.exponential(2 * MS)),)
    assert (doubled.partition_ns, doubled.kib_ns) == (200, 16)

    halved = settle_costs(COSTS, 500_000)
    assert (halved.wake_ns, halved.loop_ns, halved.transit_ns) == (Distribution.constant(500), 30, 35)
    assert (halved.append_ns, halved.metadata_ns) == (COSTS.append_ns, MS)


def test_a_run_draws_its_factors_once_for_each_machine():
    """By the seed alone, each between the spread's ends; brokers and producers each have their own."""
    settled = settle_run(make_scenario(spread=SPREAD), 7)
    times_ns = [broker.service.request_ns.points[0][1] for broker in settled.brokers]

    assert settled == settle_run(make_scenario(spread=SPREAD), 7)
    assert all(MS // 2 <= time_ns <= 2 * MS for time_ns in times_ns)
    assert len({*times_ns, *(1000 * producer.costs.wake_ns.points[0][1] for producer in settled.producers)}) == 4


def test_exact_times_stay_as_they_are():
    """Without a spread nothing is drawn."""
    assert settle_run(make_scenario(), 7) == make_scenario()


@pytest.mark.parametrize("delay_ms", [0, 20])
def test_a_broker_rests_while_its_answer_is_held_back(delay_ms):
    """Behind a delay of 20 ms each request finds the broker 20 ms idle, also one that waited in the socket."""
    cold = Service(Distribution.constant(MS // 2), idle=((15 * MS, Distribution.constant(3 * MS)),))
    result = simulate_reference(make_scenario(service=cold, delay_ns=delay_ms * MS, gap_ms=2), 1, traces=True)
    took_ns = [row["done_at_ns"] - row["drained_at_ns"] for row in result.batch_trace.to_pylist()]

    expected_ns = delay_ms * MS + (3 * MS if delay_ms else MS // 2)
    assert all(took >= expected_ns for took in took_ns[2:])
    assert min(took_ns[2:]) < expected_ns + MS // 10 + (20 * MS if delay_ms else 0)
