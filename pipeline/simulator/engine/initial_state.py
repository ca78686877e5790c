"""The state of a run that has not begun: a scenario's brokers, producers and threads as records."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import astuple, fields
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.compilation import layout_of, make_items
from pipeline.simulator.clients.client import MS, ClientFamily
from pipeline.simulator.distributions import Distribution, derive_stream, draw_index
from pipeline.simulator.engine import client_state, result, state
from pipeline.simulator.engine.batches import FIRST_RATIO, measure_body_bytes
from pipeline.simulator.engine.partitioners import ASKED_TWICE, BUILT_INS, Placement
from pipeline.simulator.engine.primitives import WORD_BITS
from pipeline.simulator.scenario.scenario import (
    KEYLESS,
    ErrorWindow,
    Gaps,
    OnOff,
    PerfTest,
    Producer,
    Recorded,
    Scenario,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_KINDS = {PerfTest: state.PERF_TEST, Gaps: state.GAPS, OnOff: state.ON_OFF, Recorded: state.RECORDED}
_OLD_START_BITS = 31
_EMPTY_VALUE_BYTES = 1  # what a value of no bytes adds to a body: its length
_SETS = ("queues_with_batches", "queues_at_ready", "brokers_with_batches", "ready_brokers", "in_flight_brokers")
_LISTED: dict[str, type] = {"partitions": int, "idle_levels": state.IdleLevel, "delays": state.DelayStep}
_LISTED |= {"error_spans": ErrorWindow, "handlers": int, "targets": state.SendTarget}
"""What is numbered as it comes."""
_FIRST_LENGTH = 256  # of pools that grow: batches, blocks, requests and the rows of traces
Row = Any  # an item of a structured array


class _Layout:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.leaders = np.array(scenario.leaders, np.int64)
        self.partition_starts = scenario.partition_starts
        self.broker_count, self.topic_count = len(scenario.brokers), len(scenario.topics)
        producer_count = len(scenario.producers)
        thread_count = sum(len(producer.traffic) for producer in scenario.producers)
        self.brokers = make_items(state.BrokerState, self.broker_count)
        self.producers = make_items(client_state.ProducerState, producer_count)
        self.topics = make_items(client_state.TopicInfo, producer_count * self.topic_count)
        # these begin with a blank one
        self.connections = make_items(state.NodeConnection, 1 + producer_count * self.broker_count)
        self.queues = make_items(client_state.PartitionQueue, 1 + producer_count * len(self.leaders))
        self.threads = make_items(state.ThreadState, 1 + thread_count)
        self.lists: dict[str, list[Any]] = {name: [] for name in _LISTED}
        self.distributions: dict[Distribution, int] = {}
        # gives the streams of all rows their keys; a stream's name is its purpose
        for rows in (self.producers, self.topics, self.connections[1:], self.threads[1:]):
            for name in [name for name in rows.dtype.names or () if name.endswith("_stream")]:
                purpose = name.removesuffix("_stream").replace("_", " ")
                keys = [derive_stream(seed, purpose, unit) for unit in range(len(rows))]
                rows[name]["key"] = np.array(keys, np.uint64)

    def put(self, kind: str, name: str, items: Iterable[Any]) -> dict[str, int]:
        """Adds items to a list; the fields `first_<kind>` and `<kind>_count` say where they lie."""
        first = len(self.lists[name])
        self.lists[name].extend(items)
        return {f"first_{kind}": first, f"{kind}_count": len(self.lists[name]) - first}

    def number_of(self, distribution: Distribution) -> int:
        return self.distributions.setdefault(distribution, len(self.distributions))

    def fill(self, row: Row, *sources: DataclassInstance, **fields: object) -> None:
        """Fills a row with the fields that it shares with some objects, and with others by name."""
        shared = {n: getattr(one, n) for one in sources for n in _list_shared(row.dtype.names, type(one))}
        for name, value in {**shared, **fields}.items():
            row[name] = self.number_of(value) if isinstance(value, Distribution) else value


@functools.cache
def _list_shared(names: tuple[str, ...], source: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(source) if field.name in names)


def lay_out(scenario: Scenario, seed: int, *, traces: bool, fed_record_count: int) -> state.Simulation:
    layout = _Layout(scenario, seed)
    for index, broker in enumerate(scenario.brokers):
        idle = [(idle_ns, layout.number_of(request_ns)) for idle_ns, request_ns in broker.service.idle]
        delays = zip(broker.delay_ns.starts_ns, broker.delay_ns.values, strict=True)
        listed = layout.put("idle", "idle_levels", idle) | layout.put("delay", "delays", delays)
        listed |= layout.put("error", "error_spans", map(astuple, broker.errors))
        listed |= layout.put("handler", "handlers", [0] * broker.handler_count)
        listed |= layout.put("partition", "partitions", np.flatnonzero(layout.leaders == index))
        layout.fill(layout.brokers[index], broker, broker.service, **listed)
    for number, producer in enumerate(scenario.producers):
        _fill_producer(layout, number, producer)
        _fill_topics(layout, number, producer)
    _fill_queues(layout)
    _fill_connections(layout)
    traffic = [(owner, one) for owner, producer in enumerate(scenario.producers) for one in producer.traffic]
    recorded_count = 0
    for number, (owner, one) in enumerate(traffic, start=1):
        arrivals, starts = one.arrivals, accumulate(target.weight for target in one.targets)
        ignores_keys = layout.scenario.producers[owner].settings.ignores_keys
        targets = [
            (
                weight,
                owner * layout.topic_count + target.topic,
                target.partition if target.is_explicit or not ignores_keys else KEYLESS,
                measure_body_bytes(target.key_bytes, 0) - _EMPTY_VALUE_BYTES,
            )
            for weight, target in zip(starts, one.targets, strict=True)
        ]
        is_recorded = isinstance(arrivals, Recorded)
        layout.fill(
            layout.threads[number],
            *((one,) if is_recorded else (one, arrivals)),
            number=number - 1,
            clock=len(layout.producers) * (layout.broker_count + 1) + number,
            producer=owner,
            kind=_KINDS[type(arrivals)],
            recorded_count=len(arrivals.due_ns) if isinstance(arrivals, Recorded) else 0,
            fed_count=0 if is_recorded else state.ALL_FED,
            **layout.put("target", "targets", targets),
        )
        if isinstance(one.arrivals, Recorded):
            recorded_count += min(fed_record_count, len(one.arrivals.due_ns))
    return _gather(layout, recorded_count, traces=traces)


def _fill_producer(layout: _Layout, number: int, producer: Producer) -> None:
    settings, placement = producer.settings, Placement[producer.settings.placement]
    layout.fill(
        layout.producers[number],
        settings,
        producer.costs,
        is_java=producer.family is ClientFamily.JAVA,
        partitioner=placement,
        is_built_in=placement in BUILT_INS,
        is_rack_aware=settings.client_rack != "",
        asks_twice=settings.placement in ASKED_TWICE,
        mutes_partitions=settings.mutes_partitions or settings.max_in_flight_count == 1,
        availability_timeout_ms=settings.availability_timeout_ns // MS,
        compression_ratio_ppm=settings.compression.ratio_ppm if settings.compression else -1,
        compression_overhead_bytes=settings.compression.overhead_bytes if settings.compression else 0,
        number=number,
        clock=1 + len(layout.producers) * layout.broker_count + number,
        first_queue=1 + number * len(layout.leaders),
        first_topic=number * layout.topic_count,
        first_connection=1 + number * layout.broker_count,
        free_bytes=settings.buffer_memory_bytes,
        first_sent_at_ns=-1,
        metadata_at_ns=-1,
        next_expiry_ns=state.NEVER,
        running_count=len(producer.traffic),
        coordinator=producer.coordinator,
        **{name: number * len(_SETS) + index for index, name in enumerate(_SETS)},
    )


def _fill_topics(layout: _Layout, number: int, producer: Producer) -> None:
    for index, topic in enumerate(layout.scenario.topics):
        row = layout.topics[number * layout.topic_count + index]
        if producer.settings.placement == "ROUND_ROBIN_OLD":  # from anywhere: the first draw of its stream
            row["counter"] = draw_index(int(row["partition_stream"]["key"]), 0, 1 << _OLD_START_BITS)
            row["partition_stream"]["count"] = 1
        layout.fill(
            row,
            first_queue=1 + number * len(layout.leaders) + layout.partition_starts[index],
            partition_count=len(topic.leaders),
            is_led=min(topic.leaders) >= 0,
            sticky_partition=-1,
            last_partition=-1,
            compression_ratio=FIRST_RATIO,
            **layout.put("available", "partitions", layout.scenario.list_choices(topic, producer)),
        )


def _fill_queues(layout: _Layout) -> None:
    rows, leaders, starts = layout.queues[1:], layout.leaders, layout.partition_starts
    producer, partition = np.divmod(np.arange(len(rows)), len(leaders))
    place = np.zeros(len(leaders), np.int64)
    for index in range(layout.broker_count):
        led = leaders == index
        place[led] = np.arange(np.count_nonzero(led))
    rows["number"] = np.arange(1, len(rows) + 1)
    rows["partition"] = partition
    rows["topic"] = producer * layout.topic_count + np.searchsorted(starts, partition, side="right") - 1
    connection = 1 + producer * layout.broker_count + leaders[partition]
    rows["connection"] = np.where(leaders[partition] >= 0, connection, state.NONE)
    rows["place"] = place[partition]


def _fill_connections(layout: _Layout) -> None:
    rows = layout.connections[1:]
    units = np.arange(len(rows))
    rows["number"] = 1 + units
    rows["producer"], rows["broker"] = np.divmod(units, layout.broker_count)
    rows["queues_with_batches"] = len(layout.producers) * len(_SETS) + units
    racks = np.array([broker.rack for broker in layout.scenario.brokers])
    for number, producer in enumerate(layout.scenario.producers):
        if producer.settings.client_rack:
            rows["is_in_rack"][rows["producer"] == number] = racks == producer.settings.client_rack
    rows["ready_ms"] = rows["drain_ms"] = -1


def _gather(layout: _Layout, recorded_count: int, *, traces: bool) -> state.Simulation:
    producer_count, queue_count = len(layout.producers), len(layout.queues)
    widest = max(len(layout.leaders), layout.broker_count)
    partition_count = max(len(topic.leaders) for topic in layout.scenario.topics)
    run = make_items(state.RunState, 1)
    run["first_sender"] = len(layout.connections)
    run["first_thread"] = len(layout.connections) + producer_count - 1
    run["topic_count"] = layout.topic_count
    run["most_requests"] = widest
    run["is_traced"] = traces
    batches = make_items(client_state.ProducerBatch, _FIRST_LENGTH)
    batches[state.NONE]["sequence"] = batches[state.NONE]["drained_ns"] = -1
    distributions = make_items(client_state.QuantileTable, len(layout.distributions))
    for row, distribution in zip(distributions, layout.distributions, strict=True):
        row["is_constant"] = distribution.is_constant
        if distribution.is_constant:
            row["value"] = distribution.points[0][1]
        else:
            row["quantiles"] = distribution.to_table()
    clock_count = len(layout.connections) + producer_count + len(layout.threads)
    leaf_count = 1 << max((clock_count - 1).bit_length(), 1)
    arrays: dict[str, Any] = {
        "run": run[0],
        "clocks": np.array([leaf_count] + [state.NEVER] * (2 * leaf_count - 1)),
        "bitsets": np.zeros((producer_count * len(_SETS) + len(layout.connections), -(-widest // WORD_BITS)), np.int64),
        "batches": batches,
        "blocks": make_items(client_state.RecordBlock, _FIRST_LENGTH),
        "requests": make_items(client_state.ClientRequest, _FIRST_LENGTH + widest),
        "queue_sizes": np.zeros(partition_count, np.int64),
        "partition_ids": np.zeros(partition_count, np.int64),
        "distributions": distributions,
        "recorded": make_items(state.RecordedSend, recorded_count),
        "latencies": _make_histograms(queue_count),
        "queue_times": _make_histograms(queue_count),
        "request_latencies": _make_histograms(len(layout.connections)),
        "batch_rows": make_items(result.TracedBatch, _FIRST_LENGTH),
        "record_rows": make_items(state.RecordRow, _FIRST_LENGTH),
    }
    for name in ("brokers", "producers", "topics", "connections", "queues", "threads"):
        arrays[name] = getattr(layout, name)
    arrays |= {name: np.array(layout.lists[name], layout_of(record)) for name, record in _LISTED.items()}
    return state.Simulation(**arrays)


def _make_histograms(count: int) -> NDArray[Any]:
    histograms = make_items(state.LatencyBuckets, count)
    histograms["min_ns"] = state.NEVER
    return histograms
