"""The built-in partitioner, rack-aware or not. Oracle: accumulator and partitioner of kafka-clients 4.4.0.

`python -m tests.lab.rack_aware` asks them again.
"""

from collections import Counter
from pathlib import Path

import pytest
from numba import types

from pipeline.compilation import kernel
from pipeline.simulator.clients.client import MS, Settings
from pipeline.simulator.distributions import Distribution
from pipeline.simulator.engine.batches import measure_body_bytes
from pipeline.simulator.engine.built_in_partitioner import next_partition
from pipeline.simulator.engine.initial_state import lay_out
from pipeline.simulator.engine.primitives import add_member
from pipeline.simulator.engine.state import SIMULATION
from pipeline.simulator.scenario.scenario import Gaps, Producer, Scenario, SimulatedBroker, Topic, Traffic
from tests.lab.rack_aware.states import NOT_MADE, draw_states
from tests.oracles.simulator.accumulator import Accumulator
from tests.oracles.simulator.append import Appender
from tests.oracles.simulator.batch import Record
from tests.oracles.simulator.chance import Stream

TRAFFIC = (Traffic(Gaps(Distribution.constant(MS)), record_count=1),)
BODY_BYTES = measure_body_bytes(-1, 100)


@pytest.fixture(scope="module")
def asked():
    answers = Path(__file__).with_name("rack_aware.txt").read_text(encoding="ascii").splitlines()
    pairs = zip(draw_states(), answers, strict=True)
    return [(state, [int(digit, 36) for digit in answer]) for state, answer in pairs]


def make_scenario(state):
    """A producer whose every batch is full with a record."""
    brokers = tuple(SimulatedBroker(number, rack=rack) for number, rack in enumerate(state.racks))
    listed = tuple(partition for partition in state.listed if state.leaders[partition] >= 0)
    settings = Settings(
        is_adaptive=state.is_adaptive,
        availability_timeout_ns=state.timeout_ms * MS,
        client_rack=state.client_rack,
        batch_bytes=1,
    )
    topic = Topic("t", state.leaders, listed)
    return Scenario("asked", brokers, (topic,), (Producer("p", TRAFFIC, settings=settings),))


@kernel(types.void(SIMULATION), allocates=False)
def note_queues(sim):
    producer = sim.producers[0]
    for member in range(sim.topics[0].partition_count):
        if sim.queues[producer.first_queue + member].length:
            add_member(sim, producer.queues_at_ready, member)


@kernel(types.int64(SIMULATION), allocates=False)
def draw(sim):
    next_partition(sim, sim.producers[0], sim.topics[0])
    return sim.topics[0].sticky_partition


def answer_by_kernel(number, state):
    sim = lay_out(make_scenario(state), number, traces=False, fed_record_count=2)
    sim.producers["ready_count"] = 1  # no queue changed since
    sim.topics["has_load_stats"] = state.is_adaptive and NOT_MADE not in state.queue_sizes
    sim.queues["length"][1:] = [max(size, 0) for size in state.queue_sizes]
    sim.connections["is_kept_waiting"][1:] = [0 < state.timeout_ms < wait_ms for wait_ms in state.waits_ms]
    note_queues(sim)
    return [draw(sim) for _ in state.randoms]


def answer_by_oracle(number, state):
    accumulator = Accumulator(make_scenario(state), 0)
    appender = Appender(accumulator, 0, Stream(number, "partition", 0))
    for partition, size in enumerate(state.queue_sizes):
        accumulator.queues[partition].is_made = size != NOT_MADE
        for _ in range(size):
            appender.append(Record(0, 0, partition, BODY_BYTES, 0, 0), 0)
    for broker, wait_ms in enumerate(state.waits_ms):
        accumulator.note_node(broker, 0, can_drain=True)
        accumulator.note_node(broker, wait_ms * MS, can_drain=False)
    accumulator.find_ready(MS)
    assert [len(queue.batches) for queue in accumulator.queues] == [max(size, 0) for size in state.queue_sizes]
    return [appender.append(Record(0, 0, -1, BODY_BYTES, 0, 0), MS).partition for _ in state.randoms]


@pytest.mark.parametrize("answer", [answer_by_kernel, answer_by_oracle])
def test_every_draw_is_kafkas(asked, answer):
    assert [state for number, (state, drawn) in enumerate(asked) if answer(number, state) != drawn] == []
    assert len(asked) >= 10_000


def test_what_was_asked_has_every_case(asked):
    """Racks known and unknown, without a leader or with none that keeps up; adaptive or not."""
    seen = Counter()
    for state, drawn in asked:
        in_rack = {
            p for p, leader in enumerate(state.leaders) if leader >= 0 and state.racks[leader] == state.client_rack
        }
        late = {p for p in in_rack if 0 < state.timeout_ms < state.waits_ms[state.leaders[p]] and state.queue_sizes[p]}
        case = (
            "plain"
            if not state.client_rack
            else "none led"
            if not in_rack
            else "all late"
            if in_rack == late
            else "led"
        )
        seen[case, state.is_adaptive, set(drawn) <= in_rack] += 1
    assert min(seen[case, adaptive, False] for case in ("plain", "none led") for adaptive in (True, False)) > 100
    assert seen["led", True, True] > 1000
    assert seen["led", True, False] + seen["led", False, False] == 0
    assert seen["all late", True, False] > 50  # another rack's, for once
