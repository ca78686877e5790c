"""Producer sessions that the simulator made: the current setup is known, so that it can be looked for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipeline.calibration.caveats import Origin
from pipeline.calibration.service.model import Parameter, ServiceModel, assume_service
from pipeline.calibration.session_traffic import NO_KEY, SessionBatches, SessionTraffic
from pipeline.simulator.clients.client import MS
from pipeline.simulator.clients.producer_settings import resolve_producer
from pipeline.simulator.distributions import ZERO, Distribution, Steps
from pipeline.simulator.engine.result import SimulationResult
from pipeline.simulator.engine.simulate import simulate
from pipeline.simulator.scenario.measured import (
    MEASURED_COSTS,
    MEASURED_OVERSLEEP,
    MEASURED_PERF_TEST_OVERSLEEP,
    MEASURED_SERVICE,
)
from pipeline.simulator.scenario.scenario import (
    Gaps,
    OnOff,
    PerfTest,
    Producer,
    Scenario,
    SimulatedBroker,
    Topic,
    Traffic,
)

EPOCH_MS = 1_795_000_080_000
"""Even minutes of UTC begin so."""
RATE_PER_S = 1_500
_POOLED = -1


def delayed(broker_id: int, delay_ms: float = 0.0) -> ServiceModel:
    """A broker whose delay is known, and is not varied."""
    return replace(assume_service(broker_id), delay_ms=Parameter(delay_ms, delay_ms, delay_ms, Origin.CONFIGURED))


def make_arrivals(pattern: str, rate_per_s: int = RATE_PER_S) -> PerfTest | Gaps | OnOff:
    """Arrivals at a rate: `perf-test` (bursts), `steady` (Poisson), or `on-off` (a second each)."""
    if pattern == "perf-test":
        return PerfTest(rate_per_s, MEASURED_PERF_TEST_OVERSLEEP)
    gap_ns = 10**9 // rate_per_s
    if pattern == "steady":
        return Gaps(Distribution.exponential(gap_ns))
    second = Distribution.constant(10**9)
    return OnOff(Distribution.exponential(gap_ns // 2), second, second)


def make_scenario(
    strategy: str,
    *,
    client: str = "kafka-clients",
    version: str = "3.9.1",
    config: Mapping[str, str] | None = None,
    pattern: str = "perf-test",
    seconds: int = 30,
    leaders: Sequence[int] = (0, 1, 2),
    delays_ms: Mapping[int, float] | None = None,
    value_bytes: int | Distribution = 512,
    rate_per_s: int = RATE_PER_S,
    racks: Sequence[str] = (),
) -> Scenario:
    """One producer and its brokers, with what was measured of real ones."""
    resolved = resolve_producer(client, version, config or {}, strategy=strategy)
    delays = delays_ms or {}
    brokers = tuple(
        SimulatedBroker(
            broker_id,
            service=MEASURED_SERVICE,
            rack=racks[broker_id] if racks else "",
            delay_ns=Steps.constant(round(delays.get(broker_id, 0) * MS)),
            oversleep_ns=MEASURED_OVERSLEEP if delays.get(broker_id) else ZERO,
        )
        for broker_id in range(max(leaders) + 1)
    )
    sizes = value_bytes if isinstance(value_bytes, Distribution) else Distribution.constant(value_bytes)
    traffic = Traffic(make_arrivals(pattern, rate_per_s), sizes, end_ns=seconds * 10**9)
    producer = Producer("p", (traffic,), resolved.family, version, resolved.settings, MEASURED_COSTS)
    return Scenario(strategy, brokers, (Topic("t", tuple(leaders)),), (producer,))


def record_session(
    scenario: Scenario, seed: int, *, producer_id: int = 1, has_batch_times: bool = False
) -> tuple[SessionTraffic, SessionBatches, SimulationResult]:
    """Simulates a scenario of one producer and topic, and keeps what a log would.

    With `has_batch_times` a batch's records have the time at which it is sent, as kafka-go and KafkaJS write them.
    """
    result = simulate(scenario, seed, traces=True)
    assert result.batch_trace is not None
    assert result.record_trace is not None
    records = {name: result.record_trace[name].to_numpy() for name in result.record_trace.column_names}
    if has_batch_times:
        sent = result.batch_trace.select(["partition", "batch_number", "drained_at_ns"]).to_pylist()
        at_ns = {(row["partition"], row["batch_number"]): row["drained_at_ns"] for row in sent}
        batch_of = zip(records["partition"].tolist(), records["batch_number"].tolist(), strict=True)
        records["sent_at_ns"] = np.array([at_ns[batch] for batch in batch_of])
    at_ms = records["sent_at_ns"] // MS
    order = np.lexsort((records["partition"], at_ms))
    traffic = SessionTraffic(
        topic="t",
        topic_id="",
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else _POOLED,
        start_ms=EPOCH_MS,
        elapsed_ms=at_ms[order].astype(np.int32),
        body_bytes=records["body_bytes"][order].astype(np.int32),
        partition=records["partition"][order].astype(np.int32),
        key_index=np.full(len(order), NO_KEY, np.int32),
        keys=np.zeros(0, np.int64),
    )
    return traffic, _keep_batches(result, records, at_ms), result


def _keep_batches(result: SimulationResult, records: Mapping[str, np.ndarray], at_ms: np.ndarray) -> SessionBatches:
    trace = result.batch_trace
    assert trace is not None
    partition, number = trace["partition"].to_numpy(), trace["batch_number"].to_numpy()
    width = int(number.max()) + 1
    ids = records["partition"].astype(np.int64) * width + records["batch_number"]
    order = np.lexsort((at_ms, ids))
    starts = np.flatnonzero(np.append(True, np.diff(ids[order]) != 0))
    ends = np.append(starts[1:], len(order)) - 1
    place = np.searchsorted(ids[order][starts], partition.astype(np.int64) * width + number)
    leaders = np.array(result.leaders)
    return SessionBatches(
        partition.astype(np.int32),
        leaders[partition].astype(np.int32),
        EPOCH_MS + at_ms[order][starts][place],
        EPOCH_MS + at_ms[order][ends][place],
        trace["record_count"].to_numpy(),
        trace["size_bytes"].to_numpy(),
    )
