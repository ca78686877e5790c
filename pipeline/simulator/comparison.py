"""The figures that describe runs, in the order they are shown; and figures from elsewhere to compare a simulation with: published, or measured on real clients and brokers."""

from collections.abc import Mapping
from typing import Literal

from pipeline.simulator.scenario.quantities import Amount, ScenarioPart

LATENCY_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
RUN_FIGURES = (
    "throughput_records_per_s",
    "latency_avg_ms",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_p999_ms",
    "latency_max_ms",
)
"""Of a whole run, as the perf test's last line has them."""
LOAD_FIGURES = ("bytes_share", "record_count", "batch_count", "size_bytes")  # of a broker or a partition


class Comparison(ScenarioPart):
    """A run that was not simulated; not all figures may be known."""

    label: Literal["published", "real here"]
    source: str
    """where from"""
    throughput_records_per_s: Amount | None = None
    latency_avg_ms: Amount | None = None
    latency_p50_ms: Amount | None = None
    latency_p95_ms: Amount | None = None
    latency_p99_ms: Amount | None = None
    latency_p999_ms: Amount | None = None
    latency_max_ms: Amount | None = None
    record_count: dict[int, Amount] | None = None
    """by broker id"""
    batch_count: dict[int, Amount] | None = None
    """by broker id"""
    size_bytes: dict[int, Amount] | None = None
    """by broker id"""

    @property
    def figures(self) -> Mapping[str, float]:
        """Figures of the whole run, by names of `RUN_FIGURES`."""
        return {name: getattr(self, name) for name in RUN_FIGURES if getattr(self, name) is not None}

    @property
    def loads(self) -> dict[str, dict[int, float]]:
        """Given figures of brokers, by figure and broker id."""
        return {name: getattr(self, name) for name in LOAD_FIGURES[1:] if getattr(self, name)}

    @property
    def brokers(self) -> Mapping[str, Mapping[int, float]]:
        """Figures of brokers, by names of `LOAD_FIGURES` and broker id; shares follow from the bytes."""
        loads = self.loads
        total = sum(loads.get("size_bytes", {}).values())
        if total:
            loads["bytes_share"] = {broker_id: size / total for broker_id, size in loads["size_bytes"].items()}
        return loads
