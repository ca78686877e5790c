"""What a real run gave: read from its logs by the lab's own reader and from the clients' own clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.codec.log.compression import decompress
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES
from tests.lab.facts import CONTROL_BIT, read_batches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUANTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99, "latency_p999_ms": 0.999}
MS = 1e6
MINUTE_NS = 60_000_000_000
_CODEC_BITS = 7


def measure_run(capture: Path, topic: str, leaders: Sequence[int], latencies: Sequence[Path]) -> dict[str, Any]:
    """Figures of one run as its manifest has them.

    Args:
        capture: The folder with ``brokers``.
        topic: What was sent to.
        leaders: Of its partitions.
        latencies: What `PlayTraffic` wrote, one file per producer.

    Returns:
        ``partitions`` (leader, record_count, batch_count, size_bytes each), ``broker_count``, ``records_per_batch``,
        ``throughput_records_per_s`` from the first send() to the last acknowledgement, latencies over all producers'
        records and, with several, ``loads`` with each one's own; ``minutes`` has those of the records sent in each minute
        of the run, for the first one holds what producers and brokers take to get warm.
    """
    partitions = [
        measure_partition(capture / f"brokers/{leader}/{topic}-{partition}") | {"leader": leader}
        for partition, leader in enumerate(leaders)
    ]
    times = [np.fromfile(file, ">i8").reshape(-1, 2).astype(np.int64) for file in latencies]
    records, batches = (sum(each[name] for each in partitions) for name in ("record_count", "batch_count"))
    if records < sum(map(len, times)):  # more: sent again, where producers are not idempotent
        raise ValueError(f"{topic}: {sum(map(len, times))} records sent, {records} in the logs")
    figures = {
        "partitions": partitions,
        "broker_count": len(list((capture / "brokers").iterdir())),  # those that lead nothing, too
        "records_per_batch": round(records / batches, 4),
    }
    sent = np.concatenate(times)
    figures |= measure_latencies(sent) | {"minutes": measure_minutes(sent)}
    return figures | ({"loads": [measure_latencies(each) for each in times]} if len(times) > 1 else {})


def measure_partition(directory: Path) -> dict[str, int]:
    """Counts of a partition's log, markers of transactions left out."""
    logs = sorted(directory.glob("*.log"))
    batches = [batch for log in logs for batch in read_batches(log) if not batch[1] & CONTROL_BIT]
    return {
        "record_count": sum(count for _, _, _, count in batches),
        "batch_count": len(batches),
        "size_bytes": sum(size for size, _, _, _ in batches),
    }


def measure_plain_bytes(directory: Path) -> int:
    """Bytes of a partition's records before compression, without batch headers and markers of transactions."""
    plain_bytes = 0
    for log in sorted(directory.glob("*.log")):
        data, end = log.read_bytes(), 0
        for size, attributes, _, _ in read_batches(log):
            start, end = end + BATCH_HEADER_BYTES, end + size
            if not attributes & CONTROL_BIT:
                plain_bytes += len(decompress(attributes & _CODEC_BITS, data[start:end]))
    return plain_bytes


def measure_minutes(times: np.ndarray) -> list[dict[str, float]]:
    """As `measure_latencies`, of the records sent in each minute in which there are some."""
    minute = times[:, 0] // MINUTE_NS
    return [measure_latencies(times[minute == at]) for at in np.unique(minute)]


def measure_latencies(times: np.ndarray) -> dict[str, float]:
    """Throughput and quantiles.

    Args:
        times: A row per record: ns when send() was called, ns until its callback.
    """
    sent_ns, latency_ns = times.T
    elapsed_s = (np.max(sent_ns + latency_ns) - np.min(sent_ns)) / 1e9
    figures = {name: float(np.quantile(latency_ns, share)) / MS for name, share in QUANTILES.items()}
    figures |= {"latency_avg_ms": float(latency_ns.mean()) / MS, "latency_max_ms": float(latency_ns.max()) / MS}
    figures["throughput_records_per_s"] = len(times) / elapsed_s
    return {name: round(value, 3) for name, value in figures.items()}
