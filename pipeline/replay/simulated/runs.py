"""Runs over Spark: tasks simulate groups of sessions and sum up each topic in numbers that add up over groups.

Each run's chance follows from its seed and its group, so the result is the same whichever task does it.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Ints
from pipeline.calibration.session_traffic import iter_sessions
from pipeline.model.window import NS_PER_MS
from pipeline.replay.sessions import ReadRows
from pipeline.replay.simulated.arrivals import GroupArrivals, KeyHashes, prepare_arrivals
from pipeline.replay.simulated.plan import SimulationPlan, SimulationRun
from pipeline.replay.simulated.scenario import GroupScenario, lay_out_group
from pipeline.simulator.distributions import derive_stream
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES
from pipeline.simulator.engine.result import (
    ConnectionCounter,
    LatencyHistogram,
    ProducerCounter,
    QueueCounter,
    SimulationResult,
    merge_histograms,
)
from pipeline.simulator.engine.simulate import simulate
from pipeline.stages import Parts, Pieces, Staging, deal_tasks, pack_value

CELLS = (CELL_RECORDS, CELL_BATCHES, CELL_LOG_BYTES, CELL_BYTES, CELL_LEADER) = range(5)
"""Columns of `TopicRun.cells`: records in batches, batches, their bytes in the log, the records' before compression and
without batch headers, the id of the leader (the same in all groups)."""
_SEED_BITS = 62
_RUN_RECORDS = 20_000  # what laying out a run costs, in records


@dataclass(frozen=True, eq=False)
class TopicRun:
    cells: Ints  # int64[partitions, `CELLS`]
    sent_count: int  # records that were sent: the arrivals read
    done_count: int  # of them, those acknowledged, by the simulator's own counter
    failed_count: int  # of them, in batches that expired or were given up; they count in `cells`, too
    refused_count: int  # of them, those that were too large or found no memory in time; they are in no partition
    first_sent_ns: int  # epoch time; of all producers that write to the topic, like the next
    last_done_ns: int  # when the last record was acknowledged
    latencies: LatencyHistogram  # from `send()` until the acknowledgement, by record
    # `sent_count` times the latency as clients' metrics would have it: the mean time of batches in the queue, and the
    # mean latency of each broker's requests by the bytes it got
    client_latency_sum_ns: int


Keyed = Sequence[tuple[int, Sequence[tuple[int, int]]]]
"""Starts of windows, each with sessions in it that send keys: what their keys' hashes are read for."""
GroupRun = tuple[int, int, int, TopicRun]
"""Number of a group, candidate, seed, and a topic of the group in that run."""
RUN_SCHEMA = pa.schema(
    [
        ("start_ms", pa.int64()),
        *((name, pa.string()) for name in ("topic", "topic_id")),
        *((name, pa.int64()) for name in ("group", "candidate", "seed")),
        ("value", pa.binary()),
    ]
)
"""Runs on their way from the tasks that simulate to those that compare: what a topic is of a group, and a packed `TopicRun`."""
TOPIC = ("start_ms", "topic", "topic_id")
"""Columns of `RUN_SCHEMA` that name a topic in a window."""


def make_run_rows(rows: Sequence[tuple[int, str, str, int, int, int, bytes]]) -> pa.Table:
    columns = [[row[index] for row in rows] for index in range(len(RUN_SCHEMA))]
    return pa.table(columns, schema=RUN_SCHEMA)


def simulate_runs(
    staging: Staging, plan: SimulationPlan, *, read_arrivals: ReadRows, read_hashes: Callable[[Keyed], KeyHashes]
) -> Parts:
    """Simulates all runs of a plan; rows of `RUN_SCHEMA`. Both readers are called where tasks run, for what a task simulates."""

    def simulate_each(runs: Sequence[SimulationRun]) -> Pieces:
        task = [plan.groups[number] for number in dict.fromkeys(run.group for run in runs)]
        hashes = read_hashes([(group.start_ms, group.list_sessions()) for group in task if group.is_keyed])
        rows = []
        for number, of_group in itertools.groupby(runs, key=lambda run: run.group):
            group = plan.groups[number]
            arrivals = prepare_arrivals(group, iter_sessions(read_arrivals(group.start_ms, group.list_sessions())))
            for candidate, of_candidate in itertools.groupby(of_group, key=lambda run: run.candidate):
                variant = plan.variants[number][candidate]
                producers = variant.producers if variant else ()
                planned = lay_out_group(group, arrivals, plan.candidates[candidate], producers, hashes)
                for run in of_candidate:
                    rows += [
                        (*group.topic_window(topic), number, candidate, run.seed, pack_value(result))
                        for topic, result in enumerate(run_group(planned, arrivals, run.seed))
                    ]
            del arrivals  # before the next ones are read
        yield "runs", make_run_rows(rows)

    def cost_of(run: SimulationRun) -> int:
        return _RUN_RECORDS + plan.groups[run.group].record_count

    tasks = deal_tasks(staging.spark, plan.list_runs(), cost_of)
    return staging.run_tasks("simulate producers and brokers", tasks, simulate_each, {"runs": RUN_SCHEMA})["runs"]


def run_group(planned: GroupScenario, arrivals: GroupArrivals, seed: int) -> list[TopicRun]:
    """Simulates a group with one of the replay's seeds; a run for each of the group's topics."""
    scenario = planned.build(seed)
    # the same seed for every candidate, another for every group, whatever else is replayed
    run_seed = derive_stream(seed, "replay", planned.group.name) >> (64 - _SEED_BITS)
    result = simulate(scenario, run_seed)
    starts = scenario.partition_starts
    runs = []
    for number in range(len(planned.group.topics)):
        partitions = range(starts[number], starts[number + 1])
        queues = [result.queues_of_partition(partition) for partition in partitions]
        leaders = [scenario.leaders[partition] for partition in partitions]
        sums = np.array([result.queues[own].sum(axis=0) for own in queues])
        cells = np.zeros((len(partitions), len(CELLS)), np.int64)
        cells[:, CELL_RECORDS] = sums[:, QueueCounter.APPENDED_RECORDS]
        cells[:, CELL_BATCHES] = sums[:, QueueCounter.DONE_BATCHES] + sums[:, QueueCounter.FAILED_BATCHES]
        cells[:, CELL_LOG_BYTES] = sums[:, QueueCounter.DONE_BYTES]
        cells[:, CELL_BYTES] = (
            sums[:, QueueCounter.PLAIN_BYTES] - BATCH_HEADER_BYTES * sums[:, QueueCounter.DONE_BATCHES]
        )
        cells[:, CELL_LEADER] = [planned.group.broker_ids[leader] if leader >= 0 else -1 for leader in leaders]
        runs.append(_sum_topic(result, [queue for own in queues for queue in own], cells, arrivals, number))
    return runs


def _sum_topic(
    result: SimulationResult, queues: list[int], cells: Ints, arrivals: GroupArrivals, number: int
) -> TopicRun:
    sent_by = [sum(part.count for part in session.parts if part.topic == number) for session in arrivals.sessions]
    written = [{part.topic for part in session.parts} for session in arrivals.sessions]
    writers = [writer for writer, topics in enumerate(written) if number in topics]
    sent, counts, base_ns = sum(sent_by), result.producers[writers], arrivals.base_ms * NS_PER_MS
    # as `record-queue-time-avg` and `request-latency-avg` would have it
    broker_count = len(result.connections) // result.producer_count
    own = [writer * broker_count + broker for writer in writers for broker in range(broker_count)]
    sizes = [int(result.connections[connection, ConnectionCounter.BYTES]) for connection in own]
    means_ns = [result.request_latencies.of(connection).mean_ns or 0.0 for connection in own]
    weighted = sum(size * latency for size, latency in zip(sizes, means_ns, strict=True))
    latency_ns = (result.queue_times.mean_ns(queues) or 0.0) + (weighted / sum(sizes) if sum(sizes) else 0.0)
    return TopicRun(
        cells=cells,
        sent_count=sent,
        done_count=result.count(queues, QueueCounter.DONE_RECORDS),
        failed_count=result.count(queues, QueueCounter.FAILED_RECORDS),
        refused_count=sent - int(cells[:, CELL_RECORDS].sum()),
        first_sent_ns=base_ns + int(counts[:, ProducerCounter.FIRST_SENT_AT_NS].min(initial=2**62)),
        last_done_ns=base_ns + int(counts[:, ProducerCounter.LAST_DONE_AT_NS].max(initial=0)),
        latencies=result.latencies.merge(queues),
        client_latency_sum_ns=round(sent * latency_ns),
    )


def add_runs(runs: Sequence[TopicRun]) -> TopicRun:
    """A topic in the runs of several groups with one seed, as one."""
    cells = np.sum([run.cells for run in runs], axis=0)
    cells[:, CELL_LEADER] = runs[0].cells[:, CELL_LEADER]
    counts = ("sent_count", "done_count", "failed_count", "refused_count", "client_latency_sum_ns")
    return TopicRun(
        cells=cells,
        first_sent_ns=min(run.first_sent_ns for run in runs),
        last_done_ns=max(run.last_done_ns for run in runs),
        latencies=merge_histograms(run.latencies for run in runs),
        **{name: sum(getattr(run, name) for run in runs) for name in counts},
    )
