"""Several seeds of a scenario as one: the median of every figure, and the range that 90 % of the seeds lie in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.environment import count_cores
from pipeline.simulator.engine.batches import FIXED_BODY_BYTES, measure_varint_bytes
from pipeline.simulator.engine.result import (
    ConnectionCounter,
    LatencyHistogram,
    ProducerCounter,
    QueueCounter,
    SimulationResult,
)
from pipeline.simulator.engine.simulate import simulate

if TYPE_CHECKING:
    from pipeline.simulator.scenario.scenario_file import ScenarioVariant

_NS_PER_MS = 1e6
_NS_PER_S = 1e9
LOW_PERCENT, HIGH_PERCENT = 5, 95
LATENCY_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_LATENCIES = ("avg", *LATENCY_QUANTILES, "max")
RUN_FIGURES = ("throughput_records_per_s", *(f"latency_{name}_ms" for name in _LATENCIES))
"""Of a whole run, in the order of the perf test's last line."""
Figures = dict[str, float | None]  # by name; None where there is none, such as the latency of no record
_RunFigures = tuple[Figures, list[Figures], list[Figures], list[Figures]]  # run, brokers, partitions, producers


class Range(NamedTuple):
    """A figure over the seeds: where half, 5 % and 95 % of them are at most; None where no seed has it."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class VariantSummary:
    variant: ScenarioVariant
    seeds: tuple[int, ...]
    run: Mapping[str, Range]  # `RUN_FIGURES`, acknowledged records, their keys and values in bytes
    brokers: tuple[Mapping[str, Range], ...]
    partitions: tuple[Mapping[str, Range], ...]  # by partition, counted over all topics
    producers: tuple[Mapping[str, Range], ...]


def summarise_variants(
    variants: Sequence[ScenarioVariant],
    seeds: Sequence[int],
    *,
    on_done: Callable[[], None] = lambda: None,
    worker_count: int | None = None,
) -> list[VariantSummary]:
    """Simulates every variant with every seed in threads; `on_done` is called after every run, in any thread."""

    def run(task: tuple[ScenarioVariant, int]) -> _RunFigures:
        variant, seed = task
        figures = measure_run(simulate(variant.scenario, seed), variant)
        on_done()
        return figures

    tasks = [(variant, seed) for variant in variants for seed in seeds]
    with ThreadPoolExecutor(worker_count or count_cores()) as pool:
        figures = pool.map(run, tasks)
        return [_summarise(variant, seeds, [next(figures) for _ in seeds]) for variant in variants]


def measure_run(result: SimulationResult, variant: ScenarioVariant) -> _RunFigures:
    count, places = len(variant.scenario.brokers), range(len(result.leaders))
    total_bytes = result.count(range(len(result.queues)), QueueCounter.DONE_BYTES)
    brokers = [
        _measure_load(result, result.queues_of_broker(broker), total_bytes) | _measure_requests(result, broker, count)
        for broker in range(count)
    ]
    partitions = [_measure_load(result, result.queues_of_partition(place), total_bytes) for place in places]
    producers = [_measure_producer(result, producer) for producer in range(result.producer_count)]
    return _measure_whole(result), brokers, partitions, producers


def _measure_whole(result: SimulationResult) -> Figures:
    queues = range(len(result.queues))
    latencies = result.latencies.merge(queues)
    records = result.count(queues, QueueCounter.DONE_RECORDS)
    started = [
        int(row[ProducerCounter.FIRST_SENT_AT_NS]) for row in result.producers if row[ProducerCounter.SENT_RECORDS]
    ]
    ended_ns = int(result.producers[:, ProducerCounter.LAST_DONE_AT_NS].max())
    figures: Figures = {"throughput_records_per_s": _divide(records * _NS_PER_S, ended_ns - min(started, default=0))}
    figures["latency_avg_ms"] = _to_ms(latencies.mean_ns)
    for name, probability in LATENCY_QUANTILES.items():
        figures[f"latency_{name}_ms"] = _to_ms(latencies.find_quantile_ns(probability))
    figures["latency_max_ms"] = _to_ms(latencies.max_ns if latencies.count else None)
    figures["record_count"] = records
    # keys and values, as the perf test counts its MB: bodies without attributes, deltas, lengths and header count
    bodies = int(result.producers[:, ProducerCounter.DONE_BODY_BYTES].sum())
    mean = bodies // records if records else 0
    figures["payload_bytes"] = bodies - records * (FIXED_BODY_BYTES + 2 + measure_varint_bytes(mean))
    return figures


def _measure_load(result: SimulationResult, queues: list[int], total_bytes: int) -> Figures:
    records = result.count(queues, QueueCounter.DONE_RECORDS)
    batches = result.count(queues, QueueCounter.DONE_BATCHES)
    size_bytes = result.count(queues, QueueCounter.DONE_BYTES)
    latencies, queue_times = result.latencies.merge(queues), result.queue_times.merge(queues)
    return {
        "bytes_share": _divide(size_bytes, total_bytes),
        "record_count": records,
        "batch_count": batches,
        "size_bytes": size_bytes,
        "records_per_batch": _divide(records, batches),
        "fill_ratio": _divide(
            result.count(queues, QueueCounter.PLAIN_BYTES), result.count(queues, QueueCounter.CAPACITY_BYTES)
        ),
        "queue_time_avg_ms": _to_ms(queue_times.mean_ns),
        "queue_time_p99_ms": _to_ms(queue_times.find_quantile_ns(0.99)),
        "latency_avg_ms": _to_ms(latencies.mean_ns),
        "latency_p99_ms": _to_ms(latencies.find_quantile_ns(0.99)),
    }


def _measure_requests(result: SimulationResult, broker: int, broker_count: int) -> Figures:
    connections = [producer * broker_count + broker for producer in range(result.producer_count)]
    latencies: LatencyHistogram = result.request_latencies.merge(connections)
    return {
        "request_count": int(result.connections[connections, ConnectionCounter.REQUESTS].sum()),
        "request_latency_avg_ms": _to_ms(latencies.mean_ns),
        "request_latency_p99_ms": _to_ms(latencies.find_quantile_ns(0.99)),
    }


def _measure_producer(result: SimulationResult, producer: int) -> Figures:
    queues = result.queues_of_producer(producer)
    row = result.producers[producer]
    records = result.count(queues, QueueCounter.DONE_RECORDS)
    elapsed_ns = int(row[ProducerCounter.LAST_DONE_AT_NS]) - int(row[ProducerCounter.FIRST_SENT_AT_NS])
    return {
        "throughput_records_per_s": _divide(records * _NS_PER_S, elapsed_ns),
        "record_count": records,
        "failed_record_count": result.count(queues, QueueCounter.FAILED_RECORDS),
        "refused_record_count": int(row[ProducerCounter.REFUSED_RECORDS]),
        "blocked_ms": _to_ms(int(row[ProducerCounter.BLOCKED_NS])),
        "buffer_max_bytes": int(row[ProducerCounter.MAX_BUFFER_BYTES]),
    }


def _summarise(variant: ScenarioVariant, seeds: Sequence[int], runs: Sequence[_RunFigures]) -> VariantSummary:
    whole, *units = zip(*runs, strict=True)
    ranges = [tuple(_take_ranges(of_one) for of_one in zip(*of_all, strict=True)) for of_all in units]
    return VariantSummary(variant, tuple(seeds), _take_ranges(whole), *ranges)


def _take_ranges(runs: Sequence[Figures]) -> Mapping[str, Range]:
    return {name: take_range(run[name] for run in runs) for name in runs[0]}


def take_range(values: Iterable[float | None]) -> Range:
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return Range(None, None, None)
    low, median, high = np.percentile(known, [LOW_PERCENT, 50, HIGH_PERCENT])
    return Range(float(median), float(low), float(high))


def _divide(amount: float, by: float) -> float | None:
    return amount / by if by else None


def _to_ms(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_MS
