"""The batch trace of a variant, with names instead of numbers: what `simulate --trace` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.simulator.engine.result import BATCH_TRACE
from pipeline.simulator.engine.simulate import simulate

if TYPE_CHECKING:
    from pipeline.simulator.scenario.scenario_file import ScenarioVariant

NAMED_BATCH_TRACE = pa.schema(
    [
        pa.field("variant", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("client_id", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("broker_id", pa.int32()),  # the partition's leader
        *list(BATCH_TRACE)[2:],
    ]
)
"""A row for each batch, in the order they were done; times are since the run's start."""


def trace_batches(variant: ScenarioVariant, seed: int) -> pa.Table:
    """Simulates one seed, and returns every batch with columns as in `NAMED_BATCH_TRACE`."""
    scenario = variant.scenario
    trace = simulate(scenario, seed, traces=True).find_batch_trace()
    number = trace.column("partition").to_numpy()
    starts = np.array(scenario.partition_starts)
    topic = np.searchsorted(starts, number, side="right") - 1
    broker_ids = np.array([broker.broker_id for broker in scenario.brokers])
    leaders = np.array(scenario.leaders)[number]
    named = {
        "variant": pa.repeat(variant.name, len(number)),
        "seed": pa.repeat(seed, len(number)),
        "client_id": _pick([producer.name for producer in scenario.producers], trace.column("producer").to_numpy()),
        "topic": _pick([one.name for one in scenario.topics], topic),
        "partition": pa.array(number - starts[topic], pa.int32()),
        "broker_id": pa.array(broker_ids[leaders], pa.int32()),
    }
    columns = [named[name] if name in named else trace.column(name) for name in NAMED_BATCH_TRACE.names]
    return pa.table(columns, names=NAMED_BATCH_TRACE.names).cast(NAMED_BATCH_TRACE)


def _pick(names: list[str], numbers: NDArray[np.int64]) -> pa.Array:
    return pa.array(names).take(pa.array(numbers))
