"""Real producers (Java with two exporters, librdkafka) and brokers, read through a real Prometheus server and by files.

Oracles: the brokers' log directories by `tests/lab/facts.py`; the producers' own counts; one source against the other.
"""

import re
from collections import defaultdict
from itertools import pairwise

import pytest
from deltalake import DeltaTable

from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.sources.metrics.prometheus import probe_prometheus
from tests.integration.metrics.sources import BY_FILES, BY_SERVER, SECRET, VARIABLE, WRONG
from tests.lab.measured_clients import BROKER_SCRAPE_S, PERF_CLIENTS, RDKAFKA_TOPIC, SCRAPE_S, WINDOW_MS

BROKERS = 3
IN_FLIGHT = 5
"""`max.in.flight.requests.per.connection` by default."""
REQUESTS = "kafka_producer_producer_node_metrics_request_total"
SENT = "kafka_producer_producer_node_metrics_outgoing_byte_total"
LARGEST = "kafka_producer_producer_node_metrics_request_latency_max"


def by_pair(rows):
    return {(row["client_id"], row["broker_id"]): row for row in rows}


def test_bytes_in_are_the_bytes_of_the_logs(tables, log_bytes):
    told = defaultdict(dict)
    for row in tables("silver.broker_topics", BY_SERVER):
        if row["topic"] in log_bytes:
            told[row["topic"]][row["broker_id"]] = row["bytes_in"]
    assert told.keys() == log_bytes.keys()
    for topic, by_broker in log_bytes.items():
        assert told[topic] == pytest.approx(by_broker, rel=0.01), topic
    brokers = {row["broker_id"]: row for row in tables("silver.broker_metrics", BY_SERVER)}
    assert {b: row["bytes_in"] for b, row in brokers.items()} == pytest.approx(
        {b: sum(by_broker[b] for by_broker in log_bytes.values()) for b in brokers}, rel=0.01
    )
    for row in brokers.values():
        assert row["leader_count"] >= 3
        # Idle time of at most one scrape's length too much or too little: that is when within it the page was written.
        late_ratio = BROKER_SCRAPE_S * 1000 / WINDOW_MS
        assert 0.5 - late_ratio < row["request_handler_idle_ratio"] < 1 + late_ratio
        assert 0.5 < row["network_processor_idle_ratio"] < 1.02
        assert row["log_size_bytes"] >= row["bytes_in"]


def test_requests_are_timed_by_stage(tables):
    rows = tables("silver.broker_request_times", BY_SERVER)
    assert {row["stage"] for row in rows} == {
        *("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total")
    }
    assert {row["broker_id"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert row["request_count"] > 0
        assert 0 <= row["time_p50_ms"] <= row["time_p99_ms"]


def samples_of(rows, name):
    """Instants and values by label set, of producers' samples."""
    found = defaultdict(list)
    for row in rows:
        if row["name"] == name and row["value"] is not None:
            labels = dict(row["labels"])
            found[labels.get("client_id"), labels.get("node_id")].append((row["observed_at"].timestamp(), row["value"]))
    return found


def sums_of(rows, name):
    """Instants, averages times requests, and averages, by client and node (None for a client as a whole).

    A client as a whole has only the instants at which a page names all its nodes. A page written while the client ends may lack some.
    """
    averages, requests = samples_of(rows, name), samples_of(rows, REQUESTS)
    found = {}
    for (client, node), told in averages.items():
        counts = defaultdict(dict)
        for (other, node_id), counted in requests.items():
            if other == client and node in {None, node_id}:
                for at, count in counted:
                    counts[at][node_id] = count
        nodes = {f"node-{broker}" for broker in range(BROKERS)} if node is None else {node}
        found[client, node] = [
            (at, average * sum(counts[at].values()), average)
            for at, average in sorted(told)
            if nodes <= counts[at].keys()
        ]
    return found


@pytest.fixture(scope="module")
def pages_around(watched):
    """Finds the last page before the scrape that gave the server a point, and the first page after it; None if one is missing.

    A page is whole when its successor is asked for, and a scrape takes one distance at most. The server says when the scrape
    began. On a busy machine that may be long before the point.
    """
    began = defaultdict(set)
    for found in watched.prometheus.query(f"{LARGEST}[{WINDOW_MS // 1000 + 60}s]", at_s=watched.end_ms / 1000):
        began[found["metric"]["client_id"]] |= {at for at, _ in found["values"]}

    def look(client, pages, at):
        pages, scraped_s = sorted(pages), max(instant for instant in began[client] if instant <= at)
        before = [page for page, successor in pairwise(pages) if successor[0] <= scraped_s]
        after = [page for page in pages if page[0] >= scraped_s + SCRAPE_S]
        return (before[-1], after[0]) if before and after else None

    return look


@pytest.mark.parametrize(
    ("name", "uncounted"),
    [
        ("kafka_producer_producer_node_metrics_request_latency_avg", IN_FLIGHT),
        ("kafka_producer_producer_metrics_batch_size_avg", 4 * IN_FLIGHT),
    ],
)
def test_averages_by_the_server_are_averages_by_the_pages(tables, pages_around, name, uncounted):
    """Two scrapers of averages that move. The clients live for less than 30 s: no sample of theirs has gone yet.

    An average is then that of all requests so far (a topic has one partition a broker: a request holds one batch), and
    times their number it only rises. What the server has seen lies between the pages before and after its scrape, but
    for requests that are counted already and not answered yet, and the few that connect a client.
    """
    server, files = (sums_of(tables("bronze.metric_samples", cluster), name) for cluster in (BY_SERVER, BY_FILES))
    compared = set()
    for labels, told in server.items():
        for instant, total, average in told:
            if pages := pages_around(labels[0], files[labels], instant):
                before, after = pages
                slack = uncounted * max(average, before[2], after[2])
                assert before[1] - slack <= total <= after[1] + slack, (labels, instant)
                compared.add(labels[0])
    assert compared == {f"{topic}-producer" for topic in PERF_CLIENTS}


@pytest.mark.parametrize("name", [LARGEST, REQUESTS, SENT])
def test_what_only_rises_by_the_server_is_that_of_the_pages(tables, pages_around, name):
    """As for averages: the server's lies between those of the pages around its scrape."""
    server, files = (samples_of(tables("bronze.metric_samples", cluster), name) for cluster in (BY_SERVER, BY_FILES))
    compared = set()
    for (client, node), told in server.items():
        for instant, value in told:
            if pages := pages_around(client, files[client, node], instant):
                (_, least), (_, most) = pages
                assert least <= value <= most, (client, node, instant)
                compared.add(client)
    assert compared == {f"{topic}-producer" for topic in PERF_CLIENTS}


def test_requests_are_those_of_the_samples_by_server_and_pages(tables):
    """All that a client had sent by its last sample: it begins within the window."""
    pairs = {(f"{topic}-producer", broker) for topic in PERF_CLIENTS for broker in range(BROKERS)}
    for cluster in (BY_SERVER, BY_FILES):
        rows = by_pair(tables("silver.producer_nodes", cluster))
        assert {pair for pair in rows if pair[0] != "devices-rdkafka"} == pairs
        samples = tables("bronze.metric_samples", cluster)
        largest, requests, sent = (samples_of(samples, name) for name in (LARGEST, REQUESTS, SENT))
        for pair in pairs:
            labels, row = (pair[0], f"node-{pair[1]}"), rows[pair]
            for column, told in (("request_count", requests[labels]), ("outgoing_bytes", sent[labels])):
                assert 0 < row[column] == max(value for _, value in told), (cluster, pair)
            assert row["request_latency_max_ms"] == max(value for _, value in largest[labels])
            assert row["counter_reset_count"] == 0


def test_settings_are_those_of_the_client_and_of_the_configuration(tables):
    server = by_pair(tables("silver.producer_nodes", BY_SERVER))
    linger = {pair[0]: row["client_config"] for pair, row in server.items()}
    assert [dict(settings or ()) for settings in (linger["old-names-producer"], linger["new-names-producer"])] == [
        {"linger.ms": "0", "buffer.memory": "33554432"},
        {"buffer.memory": "33554432"},
    ]


def test_both_generations_have_one_name(tables):
    exposed = defaultdict(set)
    for row in tables("bronze.metric_samples", BY_SERVER):
        if row["name"] == "kafka_producer_producer_node_metrics_request_total":
            exposed[dict(row["labels"])["client_id"]].add(row["exposed_name"].removeprefix("kafka_producer_producer_"))
    assert exposed == {
        "old-names-producer": {"node_metrics_request_total"},
        "new-names-producer": {"node_metrics_request"},
    }


def test_librdkafka_gives_the_same_columns(watched, tables, log_bytes):
    rows = [row for row in tables("silver.producer_nodes", BY_FILES) if row["source"] == "librdkafka_statistics"]
    assert {row["client_id"] for row in rows} == {"devices-rdkafka"}
    assert {row["broker_id"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert log_bytes[RDKAFKA_TOPIC][row["broker_id"]] * 0.5 < row["outgoing_bytes"]  # the last 5 s are not told
        assert 0 < row["request_latency_avg_ms"] <= row["request_latency_max_ms"]
        assert row["batch_size_avg_bytes"] > 200
        assert row["records_per_request_avg"] >= 1
        assert row["buffer_total_bytes"] == 1 << 30


def test_what_was_expected_arrived(tables):
    for cluster in (BY_SERVER, BY_FILES):
        for row in tables("bronze.window_status", cluster):
            assert row["row_count"] > 0, row
            if row["source"].startswith("prometheus"):
                assert row["arrived_count"] >= 0.9 * row["expected_count"] > 0


def test_a_wrong_password_costs_its_source_only(tables):
    rows = tables("bronze.quarantine", WRONG)
    assert [("HTTP 401" in row["reason"], "basic_auth" in row["reason"]) for row in rows] == [(True, True)]
    status = {row["source"]: (row["arrived_count"] > 0) for row in tables("bronze.window_status", WRONG)}
    assert status == {"prometheus": False, "librdkafka_statistics": True}
    expected = [r["expected_count"] for r in tables("bronze.window_status", WRONG) if r["source"] == "prometheus"]
    assert min(expected) > 0


def test_the_planted_secret_is_nowhere(logged, tables, config):
    assert any("query_range" in line for line in logged)  # the requests themselves are logged
    assert [line for line in logged if SECRET in line] == []
    for path in config.parent.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    for log in (config.parent / "warehouse").glob("*/*/_delta_log"):
        for batch in DeltaTable(log.parent).to_pyarrow_table().to_batches():
            assert SECRET not in str(batch.to_pylist()), log


def test_doctor_s_question(watched, config, monkeypatch):
    monkeypatch.setenv(VARIABLE, SECRET)
    source = load_config(config).clusters[BY_SERVER].sources[1]
    told = probe_prometheus(source, pause=lambda _: None)[0]
    assert told.is_ok
    assert re.search(r"kafka_server_brokertopicmetrics \d+, .*kafka_log_log \d+", told.found)  # the producers are gone
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match=VARIABLE):
        probe_prometheus(source, pause=lambda _: None)
