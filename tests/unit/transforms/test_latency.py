"""Latencies of each client and of all of them. Oracle: means and medians by hand."""

import random
import statistics

import pyarrow as pa
import pytest

from pipeline.model.window import instant_of
from pipeline.storage.frames import arrow_schema
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms.latency import ALL_CLIENTS, compare_latency


def compared(latencies):
    """Rows of `gold.latency` by client and broker, from latencies by client and broker."""
    rows = [
        {"window_start": instant_of(0), "client_id": client_id, "broker_id": broker_id, "request_count": 1.0}
        | dict.fromkeys(("request_latency_avg_ms", "request_latency_max_ms"), wait)
        for (client_id, broker_id), wait in latencies.items()
    ]
    schema = arrow_schema(PRODUCER_NODES)
    columns = pa.schema([schema.field(name) for name in rows[0]])
    found = compare_latency(pa.Table.from_pylist(rows, columns)).to_dicts()
    by_key = {(row["client_id"], row["broker_id"]): row for row in found}
    assert len(by_key) == len(found)
    return by_key


def test_a_client_named_as_all_of_them_counts_among_all_and_has_no_rows_of_its_own():
    """Else two rows have one key, and whoever chose that name stops the gate of measures for all."""
    waits = {"a": 10.0, ALL_CLIENTS: 30.0}
    found = compared({(client, broker): wait for client, wait in waits.items() for broker in (0, 1)})
    means = {key: row["request_latency_avg_ms"] for key, row in found.items()}
    assert means == {("a", 0): 10.0, ("a", 1): 10.0, (ALL_CLIENTS, 0): 20.0, (ALL_CLIENTS, 1): 20.0}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9])
def test_a_broker_is_compared_with_the_median_of_the_others(count):
    chance = random.Random(count)
    waits = {("a", broker): chance.choice([None, 2.0, 3.0, 5.0, chance.uniform(1, 9)]) for broker in range(count)}
    for (_, broker), row in compared(waits).items():
        others = [wait for (_, other), wait in waits.items() if other != broker and wait is not None]
        own = waits["a", broker]
        expected = None if own is None or not others else own / statistics.median(others)
        assert row["ratio_to_peers"] == expected


def test_brokers_that_a_client_made_up_take_no_time_of_their_square():
    assert len(compared({("a", broker): float(broker + 1) for broker in range(30_000)})) == 60_000
