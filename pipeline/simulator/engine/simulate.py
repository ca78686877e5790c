"""Simulates a scenario: lays it out, runs it, reads what it counted; whatever has the earliest clock happens next.

Tests hold it against a plain Python model (`tests/oracles/simulator`): same events, same draws, same bytes.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core import types

from pipeline.arrays import Ints
from pipeline.compilation import kernel, njit
from pipeline.simulator.engine import result
from pipeline.simulator.engine.connections import release_request, serve_request, take_response
from pipeline.simulator.engine.initial_state import lay_out
from pipeline.simulator.engine.primitives import find_earliest, set_clock
from pipeline.simulator.engine.producer import close, find_first_due_ns, go_on, is_fed
from pipeline.simulator.engine.sender import end_poll, run_once
from pipeline.simulator.engine.state import ALL_FED, NEVER, NONE, SIMULATION, Simulation
from pipeline.simulator.scenario.measured import settle_run
from pipeline.simulator.scenario.scenario import COMMIT, Recorded, Scenario

FINISHED, UNFINISHED, OUT_OF_ROOM, OUT_OF_RECORDS = range(4)


@njit
def _on_response(sim: Simulation, number: int, now_ns: int) -> None:
    connection = sim.connections[number]
    producer = sim.producers[connection.producer]
    if not connection.is_connected:
        connection.is_connected = True
    else:
        release_request(sim, take_response(sim, connection, now_ns))
        if connection.head != NONE:
            set_clock(sim, number, serve_request(sim, connection, now_ns))
        if producer.acks == 0:
            return
        connection.arrived_count += 1
    end_poll(sim, producer, now_ns, now_ns, producer.response_wake_ns, producer.response_wake_stream)


@kernel(types.void(SIMULATION), allocates=False)
def start_run(sim: Simulation) -> None:
    for number in range(1, len(sim.threads)):
        thread = sim.threads[number]
        due_ns = find_first_due_ns(sim, thread)
        if due_ns >= 0:
            set_clock(sim, thread.clock, due_ns)
        else:
            sim.producers[thread.producer].running_count -= 1
    for number in range(len(sim.producers)):
        if sim.producers[number].running_count == 0:
            close(sim, sim.producers[number], sim.run.now_ns)


@kernel(types.int64(SIMULATION, types.int64), allocates=False)
def continue_run(sim: Simulation, event_count: int) -> int:
    """Makes at most so many events of a started run happen; to be called again until it is `FINISHED`."""
    run = sim.run
    for _ in range(event_count):
        if run.is_short:
            return OUT_OF_ROOM
        now_ns = sim.clocks[1]  # the earliest
        if now_ns >= NEVER:
            return FINISHED
        clock = find_earliest(sim)
        number = clock - run.first_thread
        if number > 0 and not is_fed(sim.threads[number]):
            return OUT_OF_RECORDS
        set_clock(sim, clock, NEVER)
        run.now_ns = now_ns
        if clock < run.first_sender:
            _on_response(sim, clock, now_ns)
        elif clock <= run.first_thread:
            run_once(sim, sim.producers[clock - run.first_sender], now_ns)
        else:
            # most often the next event is the same thread's: no need to ask the clocks
            due_ns = now_ns
            while True:
                run.now_ns = due_ns
                due_ns = go_on(sim, number, due_ns)
                if not 0 <= due_ns < sim.clocks[1] or not is_fed(sim.threads[number]) or run.is_short:
                    break
            if due_ns >= 0:
                set_clock(sim, clock, due_ns)
    return UNFINISHED


Arrays = Any  # the members of a `Simulation` are NumPy arrays to Python, and records to kernels
FED_RECORD_COUNT = 1 << 16
"""Recorded arrivals of a thread that lie in memory at a time: 2 MiB. A recording may be far larger than a run."""
_EVENTS_BETWEEN_MARKS, _LEAST_EVENTS = 1 << 9, 1 << 4
_LOOKS = 8  # between two marks, where counters are as they were at the time wanted, within milliseconds
_EVENTS_AT_A_TIME = 1 << 22  # between two looks of the interpreter at its signals: some tenths of a second


def simulate(
    scenario: Scenario,
    seed: int,
    *,
    traces: bool = False,
    fed_record_count: int = FED_RECORD_COUNT,
    marks_ns: Sequence[int] = (),
) -> result.SimulationResult:
    """Simulates a scenario with one seed; the same two give the same result on every machine.

    Other threads run meanwhile. Memory grows with what waits and is in flight, with `traces` by 81 bytes for each batch
    and 32 for each record; `fed_record_count`, 2 or more, recorded arrivals of a thread are in it at a time. At
    `marks_ns`, rising, answered requests are counted. `InputError` for a distribution whose points do not rise.
    """
    sim: Arrays = lay_out(settle_run(scenario, seed), seed, traces=traces, fed_record_count=fed_record_count)
    answered: list[Ints] = []
    feed_threads(sim, scenario, fed_record_count)
    start_run(sim)
    event_count = _EVENTS_AT_A_TIME
    if marks_ns:
        recorded = sum(
            len(each.arrivals.due_ns) if isinstance(each.arrivals, Recorded) else each.record_count or 0
            for producer in scenario.producers
            for each in producer.traffic
        )
        event_count = min(_EVENTS_BETWEEN_MARKS, max(_LEAST_EVENTS, recorded // (_LOOKS * len(marks_ns))))
    while (status := continue_run(sim, event_count)) != FINISHED:
        if status == OUT_OF_ROOM:
            sim = make_room(sim)
        elif status == OUT_OF_RECORDS:
            feed_threads(sim, scenario, fed_record_count)
        while len(answered) < len(marks_ns) and sim.run["now_ns"] >= marks_ns[len(answered)]:
            answered.append(_read_answered(sim))
    answered += [_read_answered(sim)] * (len(marks_ns) - len(answered))
    batch_trace, record_trace = _read_traces(sim) if traces else (None, None)
    return result.SimulationResult(
        scenario=scenario.name,
        seed=seed,
        leaders=scenario.leaders,
        producer_count=len(scenario.producers),
        end_ns=int(sim.run["now_ns"]),
        queues=_read_counters(sim.queues[1:], result.QueueCounter),
        connections=_read_counters(sim.connections[1:], result.ConnectionCounter),
        producers=_read_counters(sim.producers, result.ProducerCounter),
        latencies=_read_histograms(sim.latencies[1:]),
        queue_times=_read_histograms(sim.queue_times[1:]),
        request_latencies=_read_histograms(sim.request_latencies[1:]),
        batch_trace=batch_trace,
        record_trace=record_trace,
        answered_marks=tuple(answered),
    )


def make_room(sim: Arrays) -> Arrays:
    run = sim.run
    pools: dict[str, Any] = {}
    for name, used in (
        ("batches", run["batch_count"] + 1),
        ("blocks", run["block_count"] + 1),
        ("requests", run["request_count"] + run["most_requests"]),
        ("batch_rows", run["opened_batch_count"]),
        ("record_rows", run["appended_record_count"]),
    ):
        pool = getattr(sim, name)
        if used >= len(pool):
            pools[name] = np.concatenate([pool, np.zeros_like(pool)])
    run["is_short"] = False
    return sim._replace(**pools)


def feed_threads(sim: Arrays, scenario: Scenario, record_count: int) -> None:
    """Puts recorded arrivals into memory, so many of a thread: the one that is due, and those after it."""
    number, start = 0, 0
    for owner, producer in enumerate(scenario.producers):
        for traffic in producer.traffic:
            number += 1
            if isinstance(traffic.arrivals, Recorded):
                topics = np.array([target.topic for target in traffic.targets]) + owner * len(scenario.topics)
                thread = sim.threads[number]
                first = int(thread["tick_count"])
                records = slice(first, first + record_count)
                end = min(first + record_count, len(traffic.arrivals.due_ns))
                rows = sim.recorded[start : start + end - first]
                rows["due_ns"] = traffic.arrivals.due_ns[records]
                rows["body_bytes"] = traffic.arrivals.body_bytes[records]
                rows["partition"] = traffic.arrivals.partition[records]
                target = traffic.arrivals.target[records]
                rows["topic"] = np.where(target == COMMIT, -1, topics[target])
                thread["first_recorded"] = start - first
                thread["fed_count"] = ALL_FED if end == len(traffic.arrivals.due_ns) else end
                start += min(record_count, len(traffic.arrivals.due_ns))


def _read_counters(rows: Arrays, counters: type[IntEnum]) -> Ints:
    return np.stack([rows[counter.name.lower()] for counter in counters], axis=1)


def _read_answered(sim: Arrays) -> Ints:
    latencies = sim.request_latencies[1:]
    return np.stack([latencies["counts"].sum(axis=1, dtype=np.int64), latencies["sum_ns"]], axis=1)


def _read_histograms(rows: Arrays) -> result.Histograms:
    mins_ns = np.where(rows["min_ns"] == NEVER, 0, rows["min_ns"])
    return result.Histograms(rows["counts"], rows["sum_ns"], mins_ns, rows["max_ns"])


def _read_traces(sim: Arrays) -> tuple[pa.Table, pa.Table]:
    opened = sim.batch_rows[: sim.run["opened_batch_count"]]
    appended = sim.record_rows[: sim.run["appended_record_count"]]
    batches = opened[np.argsort(opened["rank"])]
    records = appended[np.argsort(opened["rank"][appended["batch_row"]], kind="stable")]
    owners = opened[records["batch_row"]]
    of_records = [
        pa.array((records if column.name in records.dtype.names else owners)[column.name]).cast(column.type)
        for column in result.RECORD_TRACE
    ]
    of_batches = [pa.array(batches[column.name]).cast(column.type) for column in result.BATCH_TRACE]
    return pa.table(of_batches, result.BATCH_TRACE), pa.table(of_records, result.RECORD_TRACE)
