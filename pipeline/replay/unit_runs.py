"""One run of a unit: simulated, and summed up by topic in numbers that add up with those of other units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.service.model import is_fit_minute
from pipeline.model.window import MINUTE_MS
from pipeline.simulator.engine.latency_histogram import merge_histograms
from pipeline.simulator.engine.random_stream import derive_stream
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES
from pipeline.simulator.engine.result import Connection, Lane, ProducerCount
from pipeline.simulator.engine.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pipeline.replay.unit_arrivals import UnitArrivals
    from pipeline.replay.unit_scenario import UnitScenario
    from pipeline.replay.units import ReplayUnit
    from pipeline.simulator.engine.latency_histogram import LatencyHistogram
    from pipeline.simulator.engine.result import SimulationResult

CELLS = (CELL_RECORDS, CELL_BATCHES, CELL_LOG_BYTES, CELL_BYTES, CELL_LEADER, CELL_JUDGED_BYTES) = range(6)
"""Columns of `TopicRun.cells`: records in batches, batches, their bytes in the log, the records' before compression and
without batch headers, the id of the leader (the same in all units); of the bytes in the log those of odd minutes, on which
no service model was fitted, where what is in use was run over several minutes."""
_SEED_BITS = 62
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, eq=False)
class TopicRun:
    """A topic in one run.

    Attributes:
        cells: Shape (partitions, `CELLS`), int64.
        sent_count: Records that were sent.
        failed_count: Of them, in batches that expired or were given up; they count in `cells`, too.
        refused_count: Of them, those that were too large or found no memory in time; they are in no partition.
        first_sent_ns: Epoch time; of all producers that write to the topic, like the next.
        last_done_ns: When the last record was acknowledged.
        latencies: From `send()` until the acknowledgement, by record.
        told_latency_sum_ns: `sent_count` times the latency as clients' metrics tell it: the mean time of batches in the
            queue, and the mean latency of each broker's requests by the bytes it got.
    """

    cells: NDArray[np.int64]
    sent_count: int
    failed_count: int
    refused_count: int
    first_sent_ns: int
    last_done_ns: int
    latencies: LatencyHistogram
    told_latency_sum_ns: int


def derive_run_seed(seed: int, unit: ReplayUnit) -> int:
    """The simulator's seed: the same for every candidate, another for every unit, whatever else is replayed."""
    return derive_stream(seed, "replay", unit.name) >> (64 - _SEED_BITS)


def run_unit(planned: UnitScenario, arrivals: UnitArrivals, seed: int) -> list[TopicRun]:
    """Simulates a unit with one seed.

    Args:
        planned: The unit under a candidate.
        arrivals: Of the unit.
        seed: One of the replay's seeds.

    Returns:
        A run for each of the unit's topics.
    """
    scenario = planned.build(seed)
    marks_ns = _mark_minutes(planned, arrivals)
    result = simulate(scenario, derive_run_seed(seed, planned.unit), marks_ns=marks_ns)
    judged = _sum_odd_minutes(result, arrivals, marks_ns)
    starts = scenario.partition_starts
    runs = []
    for number in range(len(planned.unit.topics)):
        partitions = range(starts[number], starts[number + 1])
        cells = _count_partitions(result, partitions)
        leaders = [scenario.leaders[partition] for partition in partitions]
        cells[:, CELL_JUDGED_BYTES] = [judged[result.lanes_of_partition(one)].sum() for one in partitions]
        cells[:, CELL_LEADER] = [planned.unit.broker_ids[leader] if leader >= 0 else -1 for leader in leaders]
        lanes = [lane for partition in partitions for lane in result.lanes_of_partition(partition)]
        runs.append(_sum_topic(result, lanes, cells, arrivals, number))
    return runs


def _mark_minutes(planned: UnitScenario, arrivals: UnitArrivals) -> tuple[int, ...]:
    """Begins of minutes within the run, if it is of what is in use and there are several."""
    last_ns = max((int(session.due_ns[-1]) for session in arrivals.sessions if len(session.due_ns)), default=0)
    first_ns = -arrivals.base_ms % MINUTE_MS * _NS_PER_MS
    marks = tuple(range(first_ns, last_ns, MINUTE_MS * _NS_PER_MS))
    return marks if planned.candidate is None and len(marks) > 1 else ()


def _sum_odd_minutes(result: SimulationResult, arrivals: UnitArrivals, marks_ns: Sequence[int]) -> NDArray[np.int64]:
    """Bytes that each lane got acknowledged in odd minutes of UTC; what the last minute left behind counts with it."""
    totals = np.zeros(len(result.lanes), np.int64)
    if not marks_ns:
        return totals
    counters = [np.zeros_like(result.lanes), *result.marks, result.lanes]
    starts_ns = [marks_ns[0] - 1, *marks_ns]
    for start_ns, before, after in zip(starts_ns, counters, counters[1:], strict=False):
        if not is_fit_minute(arrivals.base_ms + start_ns // _NS_PER_MS):
            totals += after[:, Lane.DONE_BYTES] - before[:, Lane.DONE_BYTES]
    return totals


def _count_partitions(result: SimulationResult, partitions: range) -> NDArray[np.int64]:
    cells = np.zeros((len(partitions), len(CELLS)), np.int64)
    for place, partition in enumerate(partitions):
        lanes = result.lanes[result.lanes_of_partition(partition)].sum(axis=0)
        cells[place, CELL_RECORDS] = lanes[Lane.APPENDED_RECORDS]
        cells[place, CELL_BATCHES] = lanes[Lane.DONE_BATCHES] + lanes[Lane.FAILED_BATCHES]
        cells[place, CELL_LOG_BYTES] = lanes[Lane.DONE_BYTES]
        cells[place, CELL_BYTES] = lanes[Lane.PLAIN_BYTES] - BATCH_HEADER_BYTES * lanes[Lane.DONE_BATCHES]
    return cells


def _sum_topic(
    result: SimulationResult, lanes: list[int], cells: NDArray[np.int64], arrivals: UnitArrivals, number: int
) -> TopicRun:
    writers = [place for place, session in enumerate(arrivals.sessions) if number in session.topics]
    sent = sum(len(part) for session in arrivals.sessions for part in session.parts_of(number))
    counts = result.producers[writers]
    base_ns = arrivals.base_ms * _NS_PER_MS
    return TopicRun(
        cells=cells,
        sent_count=sent,
        failed_count=result.count(lanes, Lane.FAILED_RECORDS),
        refused_count=sent - int(cells[:, CELL_RECORDS].sum()),
        first_sent_ns=base_ns + int(counts[:, ProducerCount.FIRST_SENT_AT_NS].min(initial=2**62)),
        last_done_ns=base_ns + int(counts[:, ProducerCount.LAST_DONE_AT_NS].max(initial=0)),
        latencies=result.latencies.merge(lanes),
        told_latency_sum_ns=round(sent * _tell_latency_ns(result, lanes, writers)),
    )


def _tell_latency_ns(result: SimulationResult, lanes: list[int], writers: list[int]) -> float:
    """As `record-queue-time-avg` and `request-latency-avg` would tell it."""
    broker_count = len(result.connections) // result.producer_count
    weighted, total = 0.0, 0
    for writer in writers:
        for broker in range(broker_count):
            requests = result.request_latencies.of(writer * broker_count + broker)
            size_bytes = int(result.connections[writer * broker_count + broker, Connection.BYTES])
            weighted += size_bytes * (requests.mean_ns or 0.0)
            total += size_bytes
    return (result.queue_times.merge(lanes).mean_ns or 0.0) + (weighted / total if total else 0.0)


def add_runs(runs: Iterable[TopicRun]) -> TopicRun:
    """A topic in the runs of several units with one seed, as one."""
    found: Sequence[TopicRun] = tuple(runs)
    cells = np.sum([run.cells for run in found], axis=0)
    cells[:, CELL_LEADER] = found[0].cells[:, CELL_LEADER]
    return TopicRun(
        cells=cells,
        sent_count=sum(run.sent_count for run in found),
        failed_count=sum(run.failed_count for run in found),
        refused_count=sum(run.refused_count for run in found),
        first_sent_ns=min(run.first_sent_ns for run in found),
        last_done_ns=max(run.last_done_ns for run in found),
        latencies=merge_histograms(run.latencies for run in found),
        told_latency_sum_ns=sum(run.told_latency_sum_ns for run in found),
    )
