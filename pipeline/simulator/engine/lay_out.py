"""Lays a scenario out in a run's memory, for the kernel: what `reference.run` builds as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.clock_kernels import NEVER
from pipeline.simulator.engine.feed import FED_RECORD_COUNT
from pipeline.simulator.engine.lay_out_producers import fill_producer
from pipeline.simulator.engine.lay_out_threads import fill_thread
from pipeline.simulator.engine.run_memory import RunMemory

if TYPE_CHECKING:
    from pipeline.simulator.scenario.scenario import Scenario, SimulatedBroker

_FIRST_HEAP_WORDS = 1 << 14


def lay_out(scenario: Scenario, seed: int, *, traces: bool, fed_record_count: int = FED_RECORD_COUNT) -> RunMemory:
    """Lays out a run that has not begun.

    Args:
        scenario: What to simulate.
        seed: Chance.
        traces: Rows for traces will be kept.
        fed_record_count: Recorded arrivals of a thread that are in memory at a time.
    """
    memory = RunMemory(seed, fed_record_count)
    memory.take(at.WORLD_WORDS)
    counts = _take_objects(memory, scenario)
    for index, broker in enumerate(scenario.brokers):
        _fill_broker(memory, memory.words[at.BROKERS] + index * at.BROKER_WORDS, broker)
    for number, producer in enumerate(scenario.producers):
        fill_producer(memory, scenario, number, producer, seed)
    traffic = [(owner, one) for owner, producer in enumerate(scenario.producers) for one in producer.traffic]
    for number, (owner, one) in enumerate(traffic):
        fill_thread(memory, scenario, number, owner, one)
    _fill_world(memory, scenario, counts, traces=traces)
    return memory


def _take_objects(memory: RunMemory, scenario: Scenario) -> dict[int, int]:
    """Takes words for all objects that are there from the start; returns how many there are of each kind."""
    producer_count = len(scenario.producers)
    counts = {
        at.PRODUCER_COUNT: producer_count,
        at.BROKER_COUNT: len(scenario.brokers),
        at.PARTITION_COUNT: len(scenario.leaders),
        at.TOPIC_COUNT: len(scenario.topics),
        at.THREAD_COUNT: sum(len(producer.traffic) for producer in scenario.producers),
    }
    for field, word_count in (
        (at.PRODUCERS, producer_count * at.PRODUCER_WORDS),
        (at.BROKERS, len(scenario.brokers) * at.BROKER_WORDS),
        (at.CONNECTIONS, producer_count * len(scenario.brokers) * at.CONNECTION_WORDS),
        (at.LANES, producer_count * len(scenario.leaders) * at.LANE_WORDS),
        (at.STATES, producer_count * len(scenario.topics) * at.STATE_WORDS),
        (at.THREADS, counts[at.THREAD_COUNT] * at.THREAD_WORDS),
    ):
        memory.words[field] = memory.take(word_count)
    return counts


def _fill_world(memory: RunMemory, scenario: Scenario, counts: dict[int, int], *, traces: bool) -> None:
    producer_count = len(scenario.producers)
    connection_count = producer_count * len(scenario.brokers)
    lane_count = producer_count * len(scenario.leaders)
    first_thread = connection_count + producer_count
    leaf_count = 2
    while leaf_count < first_thread + counts[at.THREAD_COUNT]:
        leaf_count *= 2
    tree = memory.put([leaf_count] + [NEVER] * (2 * leaf_count - 1))
    latencies, latency_extremes = memory.put_histograms(lane_count)
    queue_times, queue_time_extremes = memory.put_histograms(lane_count)
    request_latencies, request_latency_extremes = memory.put_histograms(connection_count)
    rows = [memory.take(at.BLOCK_WORDS) for _ in range(2)]
    memory.fill(
        0,
        {
            **counts,
            at.TREE: tree,
            at.FIRST_SENDER: connection_count,
            at.FIRST_THREAD: first_thread,
            at.HEAP: memory.length,
            at.RESERVE: 256 + (len(scenario.leaders) + len(scenario.brokers)) * at.REQUEST_WORDS,
            at.IS_TRACED: traces,
            at.RECORD_WORDS: 3 if traces else 1,
            at.LATENCIES: latencies,
            at.LATENCY_EXTREMES: latency_extremes,
            at.QUEUE_TIMES: queue_times,
            at.QUEUE_TIME_EXTREMES: queue_time_extremes,
            at.REQUEST_LATENCIES: request_latencies,
            at.REQUEST_LATENCY_EXTREMES: request_latency_extremes,
            at.BATCH_ROWS: rows[0],
            at.LAST_BATCH_ROWS: rows[0],
            at.RECORD_ROWS: rows[1],
            at.LAST_RECORD_ROWS: rows[1],
        },
    )
    memory.extend(memory.length + _FIRST_HEAP_WORDS)


def _fill_broker(memory: RunMemory, first: int, broker: SimulatedBroker) -> None:
    service = broker.service
    idle = [(idle_ns, memory.put_distribution(distribution)) for idle_ns, distribution in service.idle]
    memory.fill(
        first,
        {
            at.BROKER_REQUEST: memory.put_distribution(service.request_ns),
            at.BROKER_IDLE: memory.put([word for pair in idle for word in pair]),
            at.BROKER_IDLE_PAIR_COUNT: len(idle),
            at.BROKER_PARTITION: service.partition_ns,
            at.BROKER_KIB: service.kib_ns,
            at.BROKER_WARM_UP_PERCENT: service.warm_up_percent,
            at.BROKER_WARM_UP: service.warm_up_ns,
            at.BROKER_HANDLERS: memory.take(broker.handler_count),
            at.BROKER_HANDLER_COUNT: broker.handler_count,
            at.BROKER_DELAY: memory.put_steps(broker.delay_ns),
            at.BROKER_OVERSLEEP: memory.put_distribution(broker.oversleep_ns),
            at.BROKER_REPLICA_WAIT: memory.put_distribution(broker.replica_wait_ns),
            at.BROKER_QUOTA: broker.quota_bytes_per_s,
            at.BROKER_ERRORS: memory.put(
                word for window in broker.errors for word in (window.start_ns, window.end_ns, window.chance_ppm)
            ),
            at.BROKER_ERROR_COUNT: len(broker.errors),
        },
    )
