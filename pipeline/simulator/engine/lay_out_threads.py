"""Lays out what the threads of an application send; see `lay_out`."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.feed import ALL_FED, Feed
from pipeline.simulator.engine.record_size import measure_body_bytes
from pipeline.simulator.scenario.traffic import KEYLESS, Gaps, OnOff, PerfTest, Recorded

if TYPE_CHECKING:
    from pipeline.simulator.engine.run_memory import RunMemory
    from pipeline.simulator.scenario.scenario import Scenario
    from pipeline.simulator.scenario.traffic import Traffic

_EMPTY_VALUE_BYTES = 1
"""What a value of no bytes adds to a body: its length."""


def fill_thread(memory: RunMemory, scenario: Scenario, number: int, owner: int, traffic: Traffic) -> None:
    """Lays out a thread.

    Args:
        memory: Where to; the words for the thread are taken.
        scenario: What is simulated.
        number: Of the thread, counted over all producers.
        owner: Its producer.
        traffic: What it does.
    """
    producer_count = len(scenario.producers)
    first = int(memory.words[at.THREADS]) + number * at.THREAD_WORDS
    memory.fill(
        first,
        {
            at.THREAD_NUMBER: number,
            at.THREAD_CLOCK: producer_count * len(scenario.brokers) + producer_count + number,
            at.THREAD_PRODUCER: int(memory.words[at.PRODUCERS]) + owner * at.PRODUCER_WORDS,
            at.THREAD_START: traffic.start_ns,
            at.THREAD_END: traffic.end_ns,
            at.THREAD_RECORD_LIMIT: traffic.record_count,
            at.THREAD_SIZE: memory.put_distribution(traffic.value_bytes),
            **_describe_arrivals(memory, traffic),
            at.THREAD_TARGETS: _put_targets(memory, scenario, owner, traffic),
            at.THREAD_TARGET_COUNT: len(traffic.targets),
            at.THREAD_FED_COUNT: ALL_FED,
        },
    )
    if isinstance(traffic.arrivals, Recorded):
        states = [_locate_state(memory, scenario, owner, target.topic) for target in traffic.targets]
        memory.feeds.append(Feed(memory, first, traffic.arrivals, states))
    memory.key_stream(first + at.THREAD_GAP_STREAM, "gap", number)
    memory.key_stream(first + at.THREAD_SIZE_STREAM, "value size", number)
    memory.key_stream(first + at.THREAD_TARGET_STREAM, "target", number)
    memory.key_stream(first + at.THREAD_WAKE_CALL_STREAM, "wake call", number)


def _describe_arrivals(memory: RunMemory, traffic: Traffic) -> dict[int, int]:
    arrivals = traffic.arrivals
    match arrivals:
        case PerfTest():
            return {
                at.THREAD_KIND: at.PERF_TEST,
                at.THREAD_RATE: arrivals.rate_per_s,
                at.THREAD_GAP: memory.put_distribution(arrivals.oversleep_ns),
            }
        case Gaps():
            return {at.THREAD_KIND: at.GAPS, at.THREAD_GAP: memory.put_distribution(arrivals.gap_ns)}
        case OnOff():
            return {
                at.THREAD_KIND: at.ON_OFF,
                at.THREAD_GAP: memory.put_distribution(arrivals.gap_ns),
                at.THREAD_ON: memory.put_distribution(arrivals.on_ns),
                at.THREAD_OFF: memory.put_distribution(arrivals.off_ns),
            }
        case Recorded():
            return {at.THREAD_KIND: at.RECORDED, at.THREAD_RECORDED_COUNT: len(arrivals.due_ns)}


def _locate_state(memory: RunMemory, scenario: Scenario, owner: int, topic: int) -> int:
    return int(memory.words[at.STATES]) + (owner * len(scenario.topics) + topic) * at.STATE_WORDS


def _put_targets(memory: RunMemory, scenario: Scenario, owner: int, traffic: Traffic) -> int:
    ignores_keys = scenario.producers[owner].settings.ignores_keys
    words: list[int] = []
    for weight, target in zip(accumulate(t.weight for t in traffic.targets), traffic.targets, strict=True):
        is_placed = target.is_explicit or not ignores_keys
        words += [
            weight,
            _locate_state(memory, scenario, owner, target.topic),
            target.partition if is_placed else KEYLESS,
            measure_body_bytes(target.key_bytes, 0) - _EMPTY_VALUE_BYTES,
        ]
    return memory.put(words)
