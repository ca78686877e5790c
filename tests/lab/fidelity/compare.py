"""A real run against the seeds: which figures are compared, and by which bar each is judged."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from tests.lab.fidelity.rows import Row, judge_ratio, judge_share
from tests.lab.fidelity.settings import PerfLoad, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from tests.lab.fidelity.run import RealRun
    from tests.lab.fidelity.simulated import SimulatedFigures

SLOW_BATCHES_PERCENT, OTHER_BATCHES_PERCENT = 8.0, 15.0
THROUGHPUT_PERCENT = 2.0
CONGESTED_PERCENT = {"latency_avg_ms": 8.0, "latency_p95_ms": 8.0, "latency_p99_ms": 12.0}
SATURATED_PERCENT = 20.0
CONGESTED_BUSY_RATIO = 0.5
SATURATED_DRAIN_S = 1.0
LATENCIES = (
    "latency_avg_ms",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_p999_ms",
    "latency_max_ms",
)


def compare(setting: Setting, real: RealRun, simulated: SimulatedFigures) -> list[Row]:
    """All figures of a run."""
    rows = _compare_shares(setting, real, simulated)
    rows += _compare_batches(setting, real, simulated)
    bars = find_latency_bars(setting, real)
    for number, tool in enumerate(real.tools):
        label = f" of load {number}" if len(real.tools) > 1 else ""
        seeds = {name: values[:, number] for name, values in simulated.by_load.items()}
        rows += judge_throughput_and_latency(tool, seeds, bars=bars, label=label)
    return rows


def judge_throughput_and_latency(
    real: Mapping[str, float],
    seeds: Mapping[str, NDArray[np.float64]],
    *,
    bars: Mapping[str, float] = MappingProxyType({}),
    throughput_percent: float = THROUGHPUT_PERCENT,
    published: Mapping[str, float] = MappingProxyType({}),
    label: str = "",
) -> list[Row]:
    """The figures of the tool's last line; latencies without a bar are reported all the same."""
    name = "throughput_records_per_s"
    rows = [
        judge_ratio(f"records/s{label}", real.get(name), seeds[name], throughput_percent, published=published.get(name))
    ]
    for name in LATENCIES:
        if name in real or name in published:
            figure = f"{name.removesuffix('_ms').replace('_', ' ')}, ms{label}"
            rows.append(judge_ratio(figure, real.get(name), seeds[name], bars.get(name), published=published.get(name)))
    return rows


def find_latency_bars(setting: Setting, real: RealRun) -> dict[str, float]:
    """Latencies have a bar on quiet runs with a congested broker; without one they are below a few milliseconds."""
    if not real.is_quiet or not is_congested(setting, real):
        return {}
    if is_saturated(setting, real):
        return dict.fromkeys(CONGESTED_PERCENT, SATURATED_PERCENT)
    return dict(CONGESTED_PERCENT)


def is_congested(setting: Setting, real: RealRun) -> bool:
    """Whether a delay keeps some broker's connections busy half of the time that the delay lasts."""
    length_s = max(load.seconds for load in setting.loads)
    for delay in setting.delays:
        span_s = min(delay.to_s, length_s) - delay.from_s
        batches = sum(each.batch_count for each in real.partitions if each.broker == delay.broker)
        held_s = batches * delay.delay_ms / 1000 * span_s / length_s / len(setting.loads)
        if held_s >= CONGESTED_BUSY_RATIO * span_s:
            return True
    return False


def is_saturated(setting: Setting, real: RealRun) -> bool:
    """Whether some load needed a second or more after its last record was sent."""
    return any(
        tool["record_count"] / tool["throughput_records_per_s"] - load.seconds >= SATURATED_DRAIN_S
        for load, tool in zip(setting.loads, real.tools, strict=True)
    )


def _compare_shares(setting: Setting, real: RealRun, simulated: SimulatedFigures) -> list[Row]:
    counts = np.array([each.record_count for each in real.partitions], np.float64)
    seeds = simulated.records_by_partition
    rows = [
        judge_share(f"records on broker {broker}, %", own, seed)
        for broker, own, seed in _by_broker(setting, counts / counts.sum() * 100, _to_percent(seeds))
    ]
    if len(setting.leaders) > len(set(setting.leaders)):
        rows += [
            judge_share(f"records in partition {number}, %", 100 * count / counts.sum(), _to_percent(seeds)[:, number])
            for number, count in enumerate(counts)
        ]
    return rows


def _compare_batches(setting: Setting, real: RealRun, simulated: SimulatedFigures) -> list[Row]:
    counts = np.array([each.batch_count for each in real.partitions], np.float64)
    slow = {delay.broker for delay in setting.delays}
    return [
        judge_ratio(
            f"batches on broker {broker}{' (slow)' if broker in slow else ''}", own, seed,
            SLOW_BATCHES_PERCENT if broker in slow else OTHER_BATCHES_PERCENT, is_cell=True,
        )
        for broker, own, seed in _by_broker(setting, counts, simulated.batches_by_partition.astype(np.float64))
    ]  # fmt: skip


def _by_broker(
    setting: Setting, real: NDArray[np.float64], seeds: NDArray[np.float64]
) -> list[tuple[int, float, NDArray[np.float64]]]:
    leaders = np.array(setting.leaders)
    return [
        (int(broker), float(real[leaders == broker].sum()), seeds[:, leaders == broker].sum(axis=1))
        for broker in np.unique(leaders)
    ]


def _to_percent(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return counts / counts.sum(axis=1, keepdims=True) * 100


def describe(setting: Setting) -> str:
    """A setting in a line."""
    loads = "; ".join(_describe_load(load) for load in setting.loads)
    delays = ", ".join(
        f"broker {delay.broker} +{delay.delay_ms:g} ms"
        + (f" from {delay.from_s:g} to {delay.to_s:g} s" if delay.to_s < 1e5 else "")
        for delay in setting.delays
    )
    return f"{loads} | {delays or 'no delay'} | leaders {','.join(map(str, setting.leaders))}"


def _describe_load(load: object) -> str:
    config = " ".join(f"{name}={value}" for name, value in load.config.items())
    if isinstance(load, PerfLoad):
        return f"{load.version} {load.record_count} x {load.value_bytes} B at {load.rate_per_s}/s {config}".rstrip()
    series = load.series
    keyed = f", {series.keyed_percent} % keyed" if series.keyed_percent else ""
    bursts = f" of {series.burst_records}" if series.pattern == "bursts" else ""
    return f"{load.version} {series.pattern}{bursts} at {series.rate_per_s}/s for {series.seconds} s{keyed} {config}".rstrip()
