"""Lays producers out in a run's memory, each with its partitioners, connections and lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.partitioners.strategy import Placement
from pipeline.simulator.clients.client import MS, ClientFamily
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.bit_kernels import WORD_BITS
from pipeline.simulator.engine.clock_kernels import NEVER
from pipeline.simulator.engine.compression_estimate import FIRST_RATIO
from pipeline.simulator.engine.connection_kernels import QUOTA_RING
from pipeline.simulator.engine.random_stream import derive_stream, draw_index

if TYPE_CHECKING:
    from pipeline.simulator.clients.client import Settings, ThreadCosts
    from pipeline.simulator.engine.run_memory import RunMemory
    from pipeline.simulator.scenario.scenario import Producer, Scenario

_OLD_START_BITS = 31
_BUILT_IN = {Placement.BUILT_IN, Placement.BUILT_IN_DRAFT}
_TWO_QUESTIONS = {Placement.STICKY, Placement.ROUND_ROBIN_TWO_TURN}


def fill_producer(memory: RunMemory, scenario: Scenario, number: int, producer: Producer, seed: int) -> None:
    """Fills one producer in.

    Args:
        memory: Words for all producers are taken.
        scenario: What is simulated.
        number: Which producer.
        producer: It.
        seed: Chance.
    """
    _fill_own(memory, scenario, number, producer)
    _fill_states(memory, scenario, number, producer, seed)
    _fill_connections(memory, scenario, number)
    _fill_lanes(memory, scenario, number)


def _fill_own(memory: RunMemory, scenario: Scenario, number: int, producer: Producer) -> None:
    first = int(memory.words[at.PRODUCERS]) + number * at.PRODUCER_WORDS
    broker_count = len(scenario.brokers)
    lane_words = -(-len(scenario.leaders) // WORD_BITS)
    broker_words = -(-broker_count // WORD_BITS)
    memory.fill(first, _list_settings(producer.settings) | _list_costs(memory, producer.costs))
    memory.fill(
        first,
        {
            at.FIRST_SENT_AT_NS: -1,
            at.PRODUCER_NUMBER: number,
            at.PRODUCER_CLOCK: len(scenario.producers) * broker_count + number,
            at.PRODUCER_IS_JAVA: producer.family is ClientFamily.JAVA,
            at.PRODUCER_LANES: _locate(memory, at.LANES, number * len(scenario.leaders), at.LANE_WORDS),
            at.PRODUCER_STATES: _locate(memory, at.STATES, number * len(scenario.topics), at.STATE_WORDS),
            at.PRODUCER_CONNECTIONS: _locate(memory, at.CONNECTIONS, number * broker_count, at.CONNECTION_WORDS),
            at.PRODUCER_LANE_BITS: memory.take(lane_words),
            at.PRODUCER_LANE_BIT_WORDS: lane_words,
            at.PRODUCER_SEEN_BITS: memory.take(lane_words),
            at.PRODUCER_BUSY_BITS: memory.take(broker_words),
            at.PRODUCER_READY_BITS: memory.take(broker_words),
            at.PRODUCER_IN_FLIGHT_BITS: memory.take(broker_words),
            at.PRODUCER_BROKER_BIT_WORDS: broker_words,
            at.PRODUCER_EXPIRY: NEVER,
            at.PRODUCER_RUNNING_COUNT: len(producer.traffic),
            at.PRODUCER_METADATA_AT: -1,
        },
    )
    memory.key_stream(first + at.PRODUCER_WAKE_STREAM, "wake", number)
    memory.key_stream(first + at.PRODUCER_RESPONSE_WAKE_STREAM, "response wake", number)
    memory.key_stream(first + at.PRODUCER_BACKOFF_STREAM, "backoff", number)


def _list_settings(settings: Settings) -> dict[int, int]:
    """Fields of a producer that its configuration sets."""
    return {
        at.PRODUCER_PLACEMENT: int(settings.placement),
        at.PRODUCER_IS_BUILT_IN: settings.placement in _BUILT_IN,
        at.PRODUCER_ASKS_TWICE: settings.placement in _TWO_QUESTIONS,
        at.PRODUCER_IS_ADAPTIVE: settings.is_adaptive,
        at.PRODUCER_AVAILABILITY_TIMEOUT_MS: settings.availability_timeout_ns // MS,
        at.PRODUCER_STICKY_LINGER: settings.sticky_linger_ns,
        at.PRODUCER_BATCH_BYTES: settings.batch_bytes,
        at.PRODUCER_RECORD_LIMIT: settings.batch_record_count,
        at.PRODUCER_LINGER: settings.linger_ns,
        at.PRODUCER_BUFFER_BYTES: settings.buffer_memory_bytes,
        at.PRODUCER_FREE_BYTES: settings.buffer_memory_bytes,
        at.PRODUCER_MAX_BLOCK: settings.max_block_ns,
        at.PRODUCER_MAX_REQUEST_BYTES: settings.max_request_bytes,
        at.PRODUCER_MAX_IN_FLIGHT: settings.max_in_flight_count,
        at.PRODUCER_ACKS: settings.acks,
        at.PRODUCER_IS_IDEMPOTENT: settings.is_idempotent,
        at.PRODUCER_RETRY_COUNT: settings.retry_count,
        at.PRODUCER_BACKOFF: settings.backoff_ns,
        at.PRODUCER_BACKOFF_MAX: settings.backoff_max_ns,
        at.PRODUCER_BACKOFF_JITTER_PPM: settings.backoff_jitter_ppm,
        at.PRODUCER_REQUEST_TIMEOUT: settings.request_timeout_ns,
        at.PRODUCER_DELIVERY_TIMEOUT: settings.delivery_timeout_ns,
        at.PRODUCER_RECONNECT_BACKOFF: settings.reconnect_backoff_ns,
        at.PRODUCER_SHARES_DRAIN_INDEX: settings.drains_from_shared_index,
        at.PRODUCER_THROTTLES_ITSELF: settings.throttles_itself,
        at.PRODUCER_RATIO_PPM: settings.compression.ratio_ppm if settings.compression else -1,
        at.PRODUCER_OVERHEAD_BYTES: settings.compression.overhead_bytes if settings.compression else 0,
    }


def _list_costs(memory: RunMemory, costs: ThreadCosts) -> dict[int, int]:
    """Fields of a producer that say what its threads cost."""
    return {
        at.PRODUCER_APPEND: costs.append_ns,
        at.PRODUCER_WAKE_CALL: memory.put_distribution(costs.wake_call_ns),
        at.PRODUCER_WAKE: memory.put_distribution(costs.wake_ns),
        at.PRODUCER_RESPONSE_WAKE: memory.put_distribution(costs.response_wake_ns),
        at.PRODUCER_LOOP: costs.loop_ns,
        at.PRODUCER_REQUEST: costs.request_ns,
        at.PRODUCER_TIMER: costs.timer_ns,
        at.PRODUCER_METADATA: costs.metadata_ns,
        at.PRODUCER_CONNECT: costs.connect_ns,
        at.PRODUCER_TRANSIT: costs.transit_ns,
    }


def _locate(memory: RunMemory, kind: int, number: int, word_count: int) -> int:
    return int(memory.words[kind]) + number * word_count


def _fill_states(memory: RunMemory, scenario: Scenario, number: int, producer: Producer, seed: int) -> None:
    starts = scenario.partition_starts
    for index, topic in enumerate(scenario.topics):
        unit = number * len(scenario.topics) + index
        state = _locate(memory, at.STATES, unit, at.STATE_WORDS)
        partition_count = len(topic.leaders)
        is_old = producer.settings.placement is Placement.ROUND_ROBIN_OLD
        turns = draw_index(derive_stream(seed, "partition", unit), 0, 1 << _OLD_START_BITS) if is_old else 0
        memory.key_stream(state + at.STATE_STREAM, "partition", unit)
        memory.fill(
            state,
            {
                at.STATE_STREAM_COUNT: is_old,
                at.STATE_LANES: _locate(
                    memory, at.LANES, number * len(scenario.leaders) + starts[index], at.LANE_WORDS
                ),
                at.STATE_PARTITION_COUNT: partition_count,
                at.STATE_AVAILABLE: memory.put(topic.available),
                at.STATE_AVAILABLE_COUNT: len(topic.available),
                at.STATE_SCRATCH: memory.take(2 * partition_count),
                at.STATE_IS_LED: min(topic.leaders) >= 0,
                at.STATE_FIRST_PLACE: starts[index],
                at.STATE_STICKY: -1,
                at.STATE_RUN: -1,
                at.STATE_TIMED: -1,
                at.STATE_TURNS: turns,
                at.STATE_RATIO: int(np.array(FIRST_RATIO).view(np.int32)),
            },
        )


def _fill_connections(memory: RunMemory, scenario: Scenario, number: int) -> None:
    for index, broker in enumerate(scenario.brokers):
        unit = number * len(scenario.brokers) + index
        first = _locate(memory, at.CONNECTIONS, unit, at.CONNECTION_WORDS)
        lanes = [
            _locate(memory, at.LANES, number * len(scenario.leaders) + partition, at.LANE_WORDS)
            for partition, leader in enumerate(scenario.leaders)
            if leader == index
        ]
        bit_words = -(-len(lanes) // WORD_BITS)
        memory.fill(
            first,
            {
                at.CONNECTION_NUMBER: unit,
                at.CONNECTION_PLACE: index,
                at.CONNECTION_PRODUCER: _locate(memory, at.PRODUCERS, number, at.PRODUCER_WORDS),
                at.CONNECTION_BROKER: _locate(memory, at.BROKERS, index, at.BROKER_WORDS),
                at.CONNECTION_LANES: memory.put(lanes),
                at.CONNECTION_LANE_COUNT: len(lanes),
                at.CONNECTION_LANE_BITS: memory.take(bit_words),
                at.CONNECTION_LANE_BIT_WORDS: bit_words,
                at.CONNECTION_READY_MS: -1,
                at.CONNECTION_DRAIN_MS: -1,
                at.CONNECTION_SAMPLES: memory.take(2 * QUOTA_RING if broker.quota_bytes_per_s else 0),
            },
        )
        memory.key_stream(first + at.CONNECTION_SERVICE, "service", unit)
        memory.key_stream(first + at.CONNECTION_OVERSLEEP, "oversleep", unit)
        memory.key_stream(first + at.CONNECTION_REPLICA_WAIT, "replica wait", unit)
        memory.key_stream(first + at.CONNECTION_ERROR, "error", unit)


def _fill_lanes(memory: RunMemory, scenario: Scenario, number: int) -> None:
    topics = [index for index, topic in enumerate(scenario.topics) for _ in topic.leaders]
    led_counts = [0] * len(scenario.brokers)
    for partition, leader in enumerate(scenario.leaders):
        unit = number * len(scenario.leaders) + partition
        connection = number * len(scenario.brokers) + leader
        memory.fill(
            _locate(memory, at.LANES, unit, at.LANE_WORDS),
            {
                at.LANE_PRODUCER: _locate(memory, at.PRODUCERS, number, at.PRODUCER_WORDS),
                at.LANE_NUMBER: unit,
                at.LANE_PLACE: led_counts[leader] if leader >= 0 else 0,
                at.LANE_PARTITION: partition,
                at.LANE_STATE: _locate(
                    memory, at.STATES, number * len(scenario.topics) + topics[partition], at.STATE_WORDS
                ),
                at.LANE_CONNECTION: (
                    _locate(memory, at.CONNECTIONS, connection, at.CONNECTION_WORDS) if leader >= 0 else at.NONE
                ),
            },
        )
        if leader >= 0:
            led_counts[leader] += 1
