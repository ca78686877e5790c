"""Spans between scrapes, rows of `request_latency.measure_requests`, as the calibration and the back-test take them."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from pipeline.calibration.service.fit import NodeMetrics
from pipeline.replay.recorded import Row


def sum_latencies(rows: Sequence[Row]) -> float | None:
    """Mean wait of batches and mean latency of each broker's requests by its bytes, from spans between scrapes; or None."""
    of_broker: dict[int | None, list[Row]] = defaultdict(list)
    for row in rows:
        of_broker[row["broker_id"]].append(row)
    means: dict[int | None, float] = {
        broker_id: float(np.average([row["latency_ms"] for row in own], weights=[row["request_count"] for row in own]))
        for broker_id, own in of_broker.items()
    }
    sizes: dict[int, float] = {
        broker_id: float(sum(row["byte_count"] for row in own))
        for broker_id, own in of_broker.items()
        if broker_id is not None
    }
    if None not in means or not sum(sizes.values()):
        return None
    return means[None] + sum(size * means[broker_id] for broker_id, size in sizes.items()) / sum(sizes.values())


def find_usual_wait(rows: Sequence[Row]) -> float | None:
    """The median over spans between scrapes of what batches waited: a time of slow brokers does not count for another."""
    waits = [row["latency_ms"] for row in rows if row["broker_id"] is None]
    return float(np.median(waits)) if waits else None


def read_spans(rows: Sequence[Row]) -> list[NodeMetrics]:
    """Rows with a broker as metrics of its connection."""
    return [
        NodeMetrics(
            row["broker_id"],
            row["start_ms"],
            row["end_ms"],
            request_rate_per_s=1000 * row["request_count"] / (row["end_ms"] - row["start_ms"]),
            request_latency_avg_ms=row["latency_ms"],
            request_bytes=row["byte_count"] / row["request_count"],
            is_own=True,
        )
        for row in rows
        if row["broker_id"] is not None
    ]
