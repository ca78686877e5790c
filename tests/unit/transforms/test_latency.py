"""Latencies of each client and of all of them. Oracle: means by hand."""

import pyarrow as pa

from pipeline.model.window import instant_of
from pipeline.transforms.latency import ALL_CLIENTS, compare_latency


def test_a_client_named_as_all_of_them_counts_among_all_and_has_no_rows_of_its_own():
    """Else two rows have one key, and whoever chose that name stops the gate of measures for all."""
    rows = [
        {
            "window_start": instant_of(0),
            "client_id": client_id,
            "broker_id": broker_id,
            "request_count": 10.0,
            "request_latency_avg_ms": wait,
            "request_latency_max_ms": 2 * wait,
        }
        for client_id, wait in (("a", 10.0), (ALL_CLIENTS, 30.0))
        for broker_id in (0, 1)
    ]
    found = compare_latency(pa.Table.from_pylist(rows))
    means = {(row["client_id"], row["broker_id"]): row["request_latency_avg_ms"] for row in found.iter_rows(named=True)}
    assert len(found) == len(means)
    assert means == {("a", 0): 10.0, ("a", 1): 10.0, (ALL_CLIENTS, 0): 20.0, (ALL_CLIENTS, 1): 20.0}
