"""A setting as the simulator takes it, and its figures over the seeds by the names the real run's have."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.environment import count_cores
from pipeline.partitioners.assignment import assign_partitions
from pipeline.partitioners.registry import find_strategy
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_settings import resolve_producer
from pipeline.simulator.distributions import Distribution, Steps
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES, measure_body_bytes, measure_record_bytes
from pipeline.simulator.engine.result import ConnectionCounter, ProducerCounter, QueueCounter, SimulationResult
from pipeline.simulator.scenario.measured import MEASURED_SERVICE
from pipeline.simulator.scenario.scenario import (
    KEYLESS,
    NO_KEY,
    PerfTest,
    Producer,
    Recorded,
    Scenario,
    SimulatedBroker,
    Target,
    Topic,
    Traffic,
)
from tests.lab.fidelity.arrivals import KEY_COUNT, key_bytes
from tests.lab.fidelity.profile import Profile, distribute, make_service
from tests.lab.fidelity.settings import PerfLoad, SeriesLoad, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tests.lab.fidelity.run import RealRun

MS = 1_000_000
LATENCIES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, eq=False)
class SimulatedFigures:
    """Arrays with a row per seed; columns are partitions, brokers or loads."""

    records_by_partition: NDArray[np.int64]
    batches_by_partition: NDArray[np.int64]
    bytes_by_partition: NDArray[np.int64]
    requests_by_broker: NDArray[np.int64]
    by_load: dict[str, NDArray[np.float64]]


def make_scenario(
    setting: Setting, profile: Profile, run: RealRun, *, strategies: Sequence[str | None] = ()
) -> Scenario:
    """The scenario of a setting.

    Args:
        setting: What was run.
        profile: The bed's speed.
        run: Says when the first record was sent (delays keep the bed's time) and what a codec left of the records.
        strategies: For each load, a partitioner in place of the one that follows from its version and config.
    """
    broker_count = max(setting.leaders) + 1
    compressed_ppm = find_compressed_ppm(setting, run)
    late_ns = max(run.first_record_ms * MS - _find_metadata_ns(setting.loads[0], profile, run), 0)
    producers = tuple(
        _make_producer(setting, number, profile, run, strategy=strategy, compressed_ppm=compressed_ppm)
        for number, strategy in enumerate(strategies or [None] * len(setting.loads))
    )
    brokers = tuple(_make_broker(setting, broker, profile, run, late_ns) for broker in range(broker_count))
    return Scenario(setting.name, brokers, (Topic("topic", setting.leaders),), producers)


def find_compressed_ppm(setting: Setting, run: RealRun) -> int:
    """What the codec left of the records, from the sizes of the real batches: a property of the traffic, not of placement."""
    load = setting.loads[0]
    if "compression.type" not in load.config or not isinstance(load, PerfLoad):
        return 1_000_000
    records = sum(each.record_count for each in run.partitions)
    stored = sum(each.size_bytes - each.batch_count * BATCH_HEADER_BYTES for each in run.partitions)
    return round(1e6 * stored / (records * measure_record_bytes(measure_body_bytes(NO_KEY, load.value_bytes), 0, 0)))


def simulate_seeds(
    scenario: Scenario, seeds: Sequence[int], simulate: Callable[[Scenario, int], SimulationResult]
) -> SimulatedFigures:
    """All seeds, side by side."""
    with ThreadPoolExecutor(count_cores()) as pool:
        results = list(pool.map(lambda seed: simulate(scenario, seed), seeds))
    return collect(results)


def collect(results: Sequence[SimulationResult]) -> SimulatedFigures:
    """Figures of results of one scenario."""

    def by_partition(column: QueueCounter) -> NDArray[np.int64]:
        return np.array([_sum_producers(result, result.queues[:, column]) for result in results])

    return SimulatedFigures(
        by_partition(QueueCounter.DONE_RECORDS),
        by_partition(QueueCounter.DONE_BATCHES),
        by_partition(QueueCounter.DONE_BYTES),
        np.array([_sum_producers(result, result.connections[:, ConnectionCounter.REQUESTS]) for result in results]),
        _collect_loads(results),
    )


def _sum_producers(result: SimulationResult, column: NDArray[np.int64]) -> NDArray[np.int64]:
    return column.reshape(result.producer_count, -1).sum(axis=0)


def _collect_loads(results: Sequence[SimulationResult]) -> dict[str, NDArray[np.float64]]:
    rows = [[_measure_load(result, producer) for producer in range(result.producer_count)] for result in results]
    return {name: np.array([[load[name] for load in row] for row in rows], np.float64) for name in rows[0][0]}


def _measure_load(result: SimulationResult, producer: int) -> dict[str, float]:
    queues = result.queues_of_producer(producer)
    latency = result.latencies.merge(queues)
    row = result.producers[producer]
    elapsed_s = (row[ProducerCounter.LAST_DONE_AT_NS] - row[ProducerCounter.FIRST_SENT_AT_NS]) / 1e9
    figures = {f"latency_{name}_ms": (latency.find_quantile_ns(share) or 0) / MS for name, share in LATENCIES.items()}
    figures["throughput_records_per_s"] = result.count(queues, QueueCounter.DONE_RECORDS) / elapsed_s
    figures["latency_avg_ms"] = (latency.mean_ns or 0) / MS
    figures["latency_max_ms"] = latency.max_ns / MS
    return figures


def _find_metadata_ns(load: PerfLoad | SeriesLoad, profile: Profile, run: RealRun) -> int:
    """The first record's CreateTime is read after this wait; the player has its metadata before the start.

    A client whose code is compiled has it sooner than one that has just started: no later than its first record.
    """
    if isinstance(load, SeriesLoad):
        return 0
    measured_ns = profile.costs_of(load).metadata_ns
    return min(measured_ns, run.first_record_ms * MS) if run.first_record_ms else measured_ns


def _make_broker(setting: Setting, broker: int, profile: Profile, run: RealRun, late_ns: int) -> SimulatedBroker:
    """Its service as the proxy saw it in this run (in another one it differs by the run-to-run factor), or the profile's."""
    delays = [delay for delay in setting.delays if delay.broker == broker]
    late_s = late_ns / 1e9
    starts = sorted({0.0, *(max(at_s - late_s, 0.0) for delay in delays for at_s in (delay.from_s, delay.to_s))})
    values = [
        max((delay.delay_ms for delay in delays if delay.from_s <= at_s + late_s + 1e-9 < delay.to_s), default=0.0)
        for at_s in starts
    ]
    steps = Steps(tuple(round(at_s * 1e9) for at_s in starts), tuple(round(value * MS) for value in values))
    seen = run.services.get(str(broker))
    service = make_service(seen) if seen else profile.service
    if not run.is_warm:
        service = replace(service, run_to_run_ppm=MEASURED_SERVICE.run_to_run_ppm)
    held = seen["hold_beyond"] if seen else None
    return SimulatedBroker(
        broker, service, delay_ns=steps, oversleep_ns=distribute(held) if held else profile.hold_beyond_ns
    )


def _make_producer(
    setting: Setting, number: int, profile: Profile, run: RealRun, *, strategy: str | None, compressed_ppm: int
) -> Producer:
    load = setting.loads[number]
    compression = Compression(compressed_ppm) if "compression.type" in load.config else None
    resolved = resolve_producer("kafka-clients", load.version, load.config, strategy=strategy, compression=compression)
    traffic = (
        _make_perf_traffic(load, profile) if isinstance(load, PerfLoad) else _make_series(load, len(setting.leaders))
    )
    costs = replace(profile.costs_of(load), metadata_ns=_find_metadata_ns(load, profile, run))
    return Producer(f"load-{number}", (traffic,), resolved.family, load.version, resolved.settings, costs)


def _make_perf_traffic(load: PerfLoad, profile: Profile) -> Traffic:
    arrivals = PerfTest(load.rate_per_s, profile.sleep_beyond_ns)
    return Traffic(arrivals, Distribution.constant(load.value_bytes), record_count=load.record_count)


def _make_series(load: SeriesLoad, partition_count: int) -> Traffic:
    """Keys fall where the default partitioner's hash says; the others are the partitioner's."""
    records = load.series.make()
    keys = [key_bytes(key) for key in range(KEY_COUNT)]
    hashed = assign_partitions(find_strategy("java-murmur2"), pa.array(keys, pa.binary()), partition_count)
    partitions = np.where(records["key"] < 0, KEYLESS, hashed[records["key"]])
    lengths = np.where(records["key"] < 0, NO_KEY, len(keys[0]))
    pairs, place = np.unique(np.c_[lengths, records["value_bytes"]], axis=0, return_inverse=True)
    bodies = np.array([measure_body_bytes(int(key), int(value)) for key, value in pairs])[place.ravel()]
    arrivals = Recorded(
        records["due_ns"].astype(np.int64), bodies.astype(np.int64), partitions.astype(np.int64),
        np.zeros(len(records), np.int64),
    )  # fmt: skip
    return Traffic(arrivals, targets=(Target(),))
