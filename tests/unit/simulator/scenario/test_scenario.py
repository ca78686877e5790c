"""Scenarios that cannot be simulated are refused at once; oracle: what each message must name."""

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import MS, ThreadCosts
from pipeline.simulator.distributions import ZERO, Distribution, Steps
from pipeline.simulator.scenario.scenario import (
    Gaps,
    OnOff,
    PerfTest,
    Producer,
    Scenario,
    SimulatedBroker,
    Target,
    Topic,
    Traffic,
)
from tests.oracles.simulator.connection import value_at

SENDING = Traffic(PerfTest(1000), record_count=10)


def make_scenario(*traffic: Traffic, leaders: tuple[int, ...] = (0,), costs: ThreadCosts | None = None) -> Scenario:
    producer = Producer("app", traffic, costs=costs or ThreadCosts())
    return Scenario("case", (SimulatedBroker(0),), (Topic("orders", leaders),), (producer,))


@pytest.mark.parametrize(
    ("traffic", "named"),
    [
        (Traffic(PerfTest(1000)), "neither a record count nor an end"),
        (Traffic(Gaps(ZERO), end_ns=MS), "no time apart"),
        (Traffic(OnOff(Distribution.constant(MS), ZERO, Distribution.constant(MS)), end_ns=MS), "no time apart"),
        (Traffic(PerfTest(1), record_count=1, targets=()), "no target"),
        (Traffic(PerfTest(1), record_count=1, targets=(Target(topic=1),)), "target topic 1; there are 1"),
        (Traffic(PerfTest(1), record_count=1, targets=(Target(partition=4),)), "partition 4; orders has 1"),
        (Traffic(PerfTest(1), record_count=1, targets=(Target(weight=0),)), "weight is 0"),
    ],
)
def test_traffic_that_cannot_be_sent_or_never_ends_is_refused(traffic, named):
    with pytest.raises(ConfigError, match=f"producer app: .*{named}"):
        make_scenario(traffic)


def test_a_leader_must_be_a_broker():
    with pytest.raises(ConfigError, match="topic orders: expected leaders among 1 brokers"):
        make_scenario(SENDING, leaders=(0, 1))
    with pytest.raises(ConfigError, match="at least one broker"):
        Scenario("case", (), (Topic("orders", (0,)),), (Producer("app", (SENDING,)),))


def test_a_turn_must_take_time():
    with pytest.raises(ConfigError, match="loop_ns is 0; expected 1 ns or more"):
        make_scenario(SENDING, costs=ThreadCosts(loop_ns=0))


def test_a_schedule_rises_from_zero():
    assert [value_at(Steps((0, 10), (5, 6)), time_ns) for time_ns in (0, 9, 10, 99)] == [5, 5, 6, 6]
    for starts_ns, values in (((1,), (1,)), ((0, 5, 5), (1, 2, 3)), ((0, 5), (1,)), ((), ())):
        with pytest.raises(ConfigError, match="must rise from 0"):
            Steps(starts_ns, values)


def test_partitions_are_counted_over_all_topics():
    topics = (Topic("a", (0, -1)), Topic("b", (0, 0, 0)))
    scenario = Scenario("case", (SimulatedBroker(0),), topics, (Producer("app", (SENDING,)),))
    assert scenario.partition_starts == (0, 2, 5)
    assert scenario.leaders == (0, -1, 0, 0, 0)
    assert topics[0].available == (0,)
