"""Simulates a scenario fast: the entry to the kernel.

Tests hold it against a plain Python model (`tests/oracles/simulator`): same events, same draws, same bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.feed import FED_RECORD_COUNT, feed_threads
from pipeline.simulator.engine.histogram_kernels import LARGEST, LEAST, SUM
from pipeline.simulator.engine.latency_histogram import BUCKET_COUNT
from pipeline.simulator.engine.lay_out import lay_out
from pipeline.simulator.engine.result import Connection, Histograms, Lane, ProducerCount, SimulationResult
from pipeline.simulator.engine.run_kernels import FINISHED, OUT_OF_MEMORY, OUT_OF_RECORDS, continue_run, start_run
from pipeline.simulator.engine.trace import BATCH_TRACE, RECORD_TRACE
from pipeline.simulator.scenario.run_to_run import settle_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.simulator.engine.run_memory import RunMemory
    from pipeline.simulator.scenario.scenario import Scenario

_EVENTS_BETWEEN_MARKS = 1 << 9
"""Where counters are looked at on the way: few, so that they are as they were at the time wanted, within milliseconds."""
_EVENTS_AT_A_TIME = 1 << 22
"""Between two looks of the interpreter at its signals: some tenths of a second."""


def simulate(
    scenario: Scenario,
    seed: int,
    *,
    traces: bool = False,
    fed_record_count: int = FED_RECORD_COUNT,
    marks_ns: Sequence[int] = (),
) -> SimulationResult:
    """Simulates a scenario with one seed.

    The same scenario and seed give the same result on every machine. Other threads run meanwhile: a call for each seed, in
    threads of their own, uses all cores. Without traces memory grows with what waits and is in flight only.

    Args:
        scenario: What to simulate.
        seed: Chance.
        traces: Keep a row for each batch and record: 80 and 64 bytes each.
        fed_record_count: So many recorded arrivals of a thread are in the run's memory at a time; 2 or more. It changes
            nothing else.
        marks_ns: Times, rising, at which the lanes' counters are kept, too.

    Returns:
        Counters, latencies and traces; see `SimulationResult`.

    Raises:
        InputError: A distribution's points do not rise.

    >>> from pipeline.simulator.scenario.scenario import SimulatedBroker, Producer, Scenario, Topic
    >>> from pipeline.simulator.scenario.traffic import PerfTest, Traffic
    >>> traffic = Traffic(PerfTest(rate_per_s=1000), record_count=5000)
    >>> scenario = Scenario("example", (SimulatedBroker(0),), (Topic("t", (0, 0)),), (Producer("p", (traffic,)),))
    >>> int(simulate(scenario, 1).lanes[:, Lane.DONE_RECORDS].sum())
    5000
    """
    memory = lay_out(settle_run(scenario, seed), seed, traces=traces, fed_record_count=fed_record_count)
    lane_count = len(scenario.producers) * len(scenario.leaders)
    marked: list[NDArray[np.int64]] = []
    start_run(memory.words)
    event_count = _EVENTS_BETWEEN_MARKS if marks_ns else _EVENTS_AT_A_TIME
    while (status := continue_run(memory.words, event_count)) != FINISHED:
        if status == OUT_OF_MEMORY:
            memory.extend(2 * len(memory.words))
        elif status == OUT_OF_RECORDS:
            feed_threads(memory)
        while len(marked) < len(marks_ns) and memory.words[at.NOW] >= marks_ns[len(marked)]:
            marked.append(_read_counters(memory.words, at.LANES, lane_count, at.LANE_WORDS, len(Lane)))
    result = _read_result(memory, scenario, seed, traces=traces)
    marked += [result.lanes] * (len(marks_ns) - len(marked))
    return replace(result, marks=tuple(marked))


def _read_result(memory: RunMemory, scenario: Scenario, seed: int, *, traces: bool) -> SimulationResult:
    words = memory.words
    producer_count = len(scenario.producers)
    connection_count = producer_count * len(scenario.brokers)
    lane_count = producer_count * len(scenario.leaders)
    return SimulationResult(
        scenario=scenario.name,
        seed=seed,
        leaders=scenario.leaders,
        producer_count=producer_count,
        end_ns=int(words[at.NOW]),
        lanes=_read_counters(words, at.LANES, lane_count, at.LANE_WORDS, len(Lane)),
        connections=_read_counters(words, at.CONNECTIONS, connection_count, at.CONNECTION_WORDS, len(Connection)),
        producers=_read_counters(words, at.PRODUCERS, producer_count, at.PRODUCER_WORDS, len(ProducerCount)),
        latencies=_read_histograms(words, at.LATENCIES, at.LATENCY_EXTREMES, lane_count),
        queue_times=_read_histograms(words, at.QUEUE_TIMES, at.QUEUE_TIME_EXTREMES, lane_count),
        request_latencies=_read_histograms(words, at.REQUEST_LATENCIES, at.REQUEST_LATENCY_EXTREMES, connection_count),
        batch_trace=_read_trace(words, at.BATCH_ROWS, at.BATCH_ROW_WORDS, BATCH_TRACE) if traces else None,
        record_trace=_read_trace(words, at.RECORD_ROWS, at.RECORD_ROW_WORDS, RECORD_TRACE) if traces else None,
    )


def _read_counters(
    words: NDArray[np.int64], field: int, count: int, word_count: int, column_count: int
) -> NDArray[np.int64]:
    first = words[field]
    return words[first : first + count * word_count].reshape(count, word_count)[:, :column_count].copy()


def _read_histograms(words: NDArray[np.int64], field: int, extremes_field: int, count: int) -> Histograms:
    first, first_extreme = words[field], words[extremes_field]
    extremes = words[first_extreme : first_extreme + 3 * count].reshape(count, 3)
    return Histograms(
        words[first : first + count * BUCKET_COUNT].reshape(count, BUCKET_COUNT).copy(),
        extremes[:, SUM].copy(),
        extremes[:, LEAST].copy(),
        np.maximum(extremes[:, LARGEST], 0),
    )


def _read_trace(words: NDArray[np.int64], field: int, row_words: int, schema: pa.Schema) -> pa.Table:
    blocks = []
    block = int(words[field])
    while block != at.NONE:
        first = block + at.BLOCK_ITEMS
        blocks.append(words[first : first + words[block + at.BLOCK_USED]])
        block = int(words[block + at.BLOCK_NEXT])
    rows = np.concatenate(blocks).reshape(-1, row_words)
    columns = [
        pa.array(rows[:, place] != 0)
        if pa.types.is_boolean(column.type)
        else pa.array(rows[:, place]).cast(column.type)
        for place, column in enumerate(schema)
    ]
    return pa.table(columns, schema)
