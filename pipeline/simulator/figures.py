"""Names of the figures that describe runs, in the order they are shown."""

from __future__ import annotations

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
LOAD_FIGURES = ("bytes_share", "record_count", "batch_count", "size_bytes")
"""Of a broker or a partition."""
