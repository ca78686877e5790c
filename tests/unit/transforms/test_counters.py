"""Counters to increases and producers' samples to `silver.producer_nodes`. Oracle: small series, added up by hand."""

import polars as pl
import pyarrow as pa
import pytest

from pipeline.model.window import TimeWindow
from pipeline.sources.kinds import KINDS
from pipeline.transforms.counters import SampleSettings, with_increases
from pipeline.transforms.producer_nodes import finish_nodes, read_node_values, summarise_nodes
from pipeline.transforms.samples import with_labels

S = 1000
MINUTE = 60 * S
NODE = "kafka_producer_producer_node_metrics_"
CLIENT = "kafka_producer_producer_metrics_"
LIBRDKAFKA = "librdkafka_"
START = "kafka_producer_app_info_start_time_ms"
SCHEMA = {"subject": pl.String, "source": pl.String, "observed_at_ms": pl.Int64, "a": pl.Float64, "b": pl.Float64}
SCHEMA |= {"started_at_ms": pl.Int64, "scraped_before_ms": pl.Int64}


def increases(*rows):
    """Of one subject: (second, value, started second, scraped before second) → (increase, covered seconds, reset, gap)."""
    scraped = [
        ("s", "pages", at * S, float(value), 0.0, *(None if t is None else t * S for t in rest))
        for at, value, *rest in rows
    ]
    frame = pl.DataFrame(scraped, SCHEMA, orient="row")
    settings = SampleSettings(span=TimeWindow(0, 60 * MINUTE), window_ms=MINUTE, interval_ms={"pages": 5 * S})
    found = with_increases(frame, ("a", "b"), ("subject",), settings).sort("observed_at_ms")
    found = found.with_columns(covered_s=pl.col("covered_ms") / S)
    return found.select("a_increase", "covered_s", "reset_count", "gap_count").rows()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # neighbours; nothing is known before the first
        ([(10, 5, None, None), (15, 9, None, None)], [(None, None, 0, 0), (4, 5, 0, 0)]),
        # a fall is a restart that counted from zero, since its start where that is told
        ([(10, 5, None, None), (15, 2, None, None)], [(None, None, 0, 0), (2, 5, 1, 0)]),
        ([(10, 5, 1, None), (15, 2, 13, None)], [(5, 9, 0, 0), (2, 2, 1, 0)]),
        # a restart that counted beyond the value before is told by its start
        ([(10, 5, 1, None), (15, 8, 13, None)], [(5, 9, 0, 0), (8, 2, 1, 0)]),
        # a process that goes on steps back where a store switches to another replica of the scraper
        ([(10, 100, 1, None), (15, 95, 1, None), (20, 101, 1, None)], [(100, 9, 0, 0), (0, 5, 0, 0), (6, 5, 0, 0)]),
        # so does that of one that does not tell its start, as of brokers: it would have to have counted as much at once
        ([(10, 1000, None, None), (15, 995, None, None)], [(None, None, 0, 0), (0, 5, 0, 0)]),
        # what is a connection's or a topic's own may begin anew while the process goes on
        ([(10, 100, 1, None), (15, 40, 1, None)], [(100, 9, 0, 0), (40, 5, 1, 0)]),
        # a start told to the second wavers
        ([(10, 5, 1, None), (15, 8, 2, None)], [(5, 9, 0, 0), (3, 5, 0, 0)]),
        # a series that appears on an exporter known before began at zero
        ([(10, 5, None, 5)], [(5, 5, 0, 0)]),
        # a gap within the window counts whole, and is counted
        ([(5, 1, None, None), (45, 9, None, None)], [(None, None, 0, 0), (8, 40, 0, 1)]),
        # of a gap across the edge only the share in the later window counts: 10 of 40 s
        ([(30, 1, None, None), (70, 9, None, None)], [(None, None, 0, 0), (2, 10, 0, 1)]),
        # an interval across the edge that is none too long belongs to the later window
        ([(57, 1, None, None), (62, 9, None, None)], [(None, None, 0, 0), (8, 5, 0, 0)]),
        # a clock that says the start lies ahead is not believed
        ([(10, 5, 99, None)], [(None, None, 0, 0)]),
    ],
)
def test_increases(rows, expected):
    assert increases(*rows) == expected


def samples(*rows):
    told = [
        {"source": source, "instance": instance, "observed_at_ms": at * S, "name": name, "value": value}
        | {"labels": list(labels.items())}
        for source, instance, at, name, labels, value in rows
    ]
    types = dict.fromkeys(("source", "instance", "name"), pa.string())
    types |= {"observed_at_ms": pa.int64(), "labels": pa.map_(pa.string(), pa.string()), "value": pa.float64()}
    return pa.Table.from_pylist(told, pa.schema(types))


def node(at, total, *, source="producer_metrics", broker=1, client="c", instance="i"):
    labels = {"client_id": client, "node_id": f"node-{broker}"}
    return [
        (source, instance, at, f"{NODE}request_total", labels, float(total)),
        (source, instance, at, f"{NODE}outgoing_byte_total", labels, total * 100.0),
        (source, instance, at, f"{NODE}request_latency_avg", labels, 2.0 * broker),
    ]


def summarise(table, first=0, last=2, configs=None):
    span, intervals = TimeWindow(first * MINUTE, last * MINUTE), {"producer_metrics": 5 * S, "prometheus": 5 * S}
    settings = SampleSettings(span=span, window_ms=MINUTE, interval_ms=intervals)
    nodes = summarise_nodes(with_labels(table), settings).to_arrow()
    finished = finish_nodes(nodes, precedence=tuple(KINDS), client_configs=configs or {})
    rows = finished.to_pylist(maps_as_pydicts="strict")
    return {(int(r["window_start"].timestamp()) // 60, r["client_id"], r["broker_id"]): r for r in rows}


def test_a_lost_window_is_not_counted_again_in_the_next():
    """Windows 0 and 2 have scrapes; those of 1, counted by an earlier run, are gone."""
    counted = [row for at in range(0, 180, 5) for row in node(at, at)]
    whole = summarise(samples(*counted), last=3)
    lost = summarise(samples(*(row for row in counted if not 60 <= row[2] < 120)), first=2, last=3)
    assert whole[1, "c", 1]["request_count"] == 60
    assert whole[2, "c", 1]["request_count"] == 60
    assert lost[2, "c", 1]["request_count"] == 55  # and not 120: what the gap held up to its window is another's
    assert (lost[2, "c", 1]["gap_count"], lost[2, "c", 1]["covered_ms"]) == (1, 55 * S)
    assert lost[2, "c", 1]["request_rate_per_s"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("scrapes", "expected"),
    [
        pytest.param(range(57, 120, 5), (5500.0, 62, 117), id="between the first and the last scrape in the window"),
        pytest.param([58, 63], (None, None, None), id="one scrape in the window"),
        pytest.param([10, *range(62, 90, 5)], (2500.0, 62, 87), id="a gap across the window's edge"),
        pytest.param([62, 67, 105, 110], (None, 62, 110), id="a gap in the window"),
    ],
)
def test_bytes_between_the_scrapes_of_a_window_are_known_with_their_time(scrapes, expected):
    row = summarise(samples(*(row for at in scrapes for row in node(at, at))))[1, "c", 1]
    instants = (row[name] and int(row[name].timestamp()) for name in ("inner_from", "inner_until"))
    assert (row["inner_bytes"], *instants) == expected


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        (f"{CLIENT}record_queue_time_max", {"client_id": "c"}),
        (f"{LIBRDKAFKA}broker_int_latency_max_ms", {"client_id": "c", "node_id": "node-1"}),
    ],
)
def test_the_longest_wait_is_that_of_the_client_or_of_its_connection(name, labels):
    rows = [row for at in (5, 10) for row in node(at, at)]
    rows += [("producer_metrics", "i", at, name, labels, told) for at, told in ((5, 70.0), (10, 40.0))]
    (row,) = summarise(samples(*rows)).values()
    assert row["queue_time_max_ms"] == 70.0


def test_of_two_sources_the_nearest_to_the_client_counts():
    rows = [row for at in (5, 10) for row in node(at, at)]
    rows += [row for at in (5, 10) for row in node(at, at, source="prometheus", instance="h:1")]
    rows += [row for at in (5, 10) for row in node(at, 9 * at, source="prometheus", client="d", instance="h:1")]
    found = summarise(samples(*rows))
    counted = {key[1]: (row["source"], row["request_count"]) for key, row in found.items()}
    assert counted == {"c": ("producer_metrics", 5), "d": ("prometheus", 45)}


def test_bootstrap_connections_are_no_brokers_and_configs_are_told():
    rows = node(5, 1) + node(10, 3) + node(10, 9, broker=-1)
    errors = f"{CLIENT}record_error_total"
    rows += [("producer_metrics", "i", at, errors, {"client_id": "c"}, told) for at, told in ((5, 1.0), (10, 4.0))]
    rows += [("producer_metrics", "i", 10, f"{CLIENT}batch_size_avg", {"client_id": "c"}, 700.0)]
    rows += [("producer_metrics", "i", 10, f"{CLIENT}buffer_total_bytes", {"client_id": "c"}, 33_554_432.0)]
    version = {"client_id": "c", "version": "3.9.1"}
    rows += [("producer_metrics", "i", 10, "kafka_producer_app_info_version", version, 1.0)]
    rows += [("producer_metrics", "i", at, START, {"client_id": "c"}, 2.0 * S) for at in (5, 10)]
    found = summarise(samples(*rows), configs={"c": {"linger.ms": "5"}, "other": {"acks": "all"}})
    (row,) = found.values()
    assert (row["broker_id"], row["request_count"], row["covered_ms"]) == (1, 3, 8 * S)  # since its start
    assert row["error_rate_per_s"] == pytest.approx(4 / 8)
    assert (row["batch_size_avg_bytes"], row["request_latency_avg_ms"]) == (700, 2)
    assert (row["client_version"], row["client_config"]) == ("3.9.1", {"linger.ms": "5", "buffer.memory": "33554432"})


@pytest.mark.parametrize("number", ["01", "99999999999999999999", "\u0661", "1\n", ""])
def test_a_node_that_no_broker_has_is_none(number):
    """A client may call itself `x, node-id=node-01`: two rows of one broker, or no number, would stop the ingest of all."""
    rows = [row for at in (5, 10) for row in node(at, at)]
    odd = [(*row[:4], row[4] | {"node_id": f"node-{number}"}, row[5]) for row in rows]
    assert read_node_values(with_labels(samples(*rows, *odd)))["broker_id"].to_list() == [1, 1]
