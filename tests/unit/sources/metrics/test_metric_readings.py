"""Metrics sources that answer badly, each alone. The servers are real ones on loopback; good answers come from a real
Prometheus in the integration lane. Oracle: the table of answers below.
"""

import json
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from pipeline.codec.metrics.metric_table import FORMS
from pipeline.errors import InputError
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.metrics.metric_source import sample_intervals_ms
from pipeline.sources.metrics.prometheus import iter_queries, plan_coarse_pages, plan_pages, probe_prometheus
from tests.unit.sources.http_servers import Answer, serving
from tests.unit.sources.metrics.readings import (
    API,
    AT_S,
    BYTES_IN,
    JSON,
    NAME,
    NOW_MS,
    QUERIES,
    SPAN,
    ask,
    cluster,
    matrix,
    read,
    read_server,
    reasons_of,
    rows,
    series,
    server,
)


@pytest.mark.parametrize(
    ("answer", "words", "count"),
    [
        (Answer("who?", 401), "HTTP 401", 1),
        (Answer("no", 403), "HTTP 403", 1),
        (Answer("", 404), "HTTP 404", 1),
        (Answer("slow down", 429), "HTTP 429", 2),
        (Answer("oops", 500), "HTTP 500", 2 * 2),
        (Answer('{"status":"error","error":"parse error: x"}', 400, JSON), "parse error: x", 2),
        (Answer("<html>Login</html>", headers={"Content-Type": "text/html"}), "HTML page", 1),
        (Answer("{", headers=JSON), "JSON with data.result", 1),
        (Answer('{"data":{"resultType":"scalar","result":[]}}', headers=JSON), "gave a scalar", 1),
        (Answer("[" * 100_000, headers=JSON), "JSON with data.result", 1),
        (Answer('{"data":{"x":' + "[" * 100_000, headers=JSON), "JSON with data.result", 1),
        (Answer('{"a":' * 50_000, headers=JSON), "JSON with data.result", 1),
        (Answer("9" * 100_000, headers=JSON), "JSON with data.result", 1),
        (Answer('{"data":{"resultType":"matrix","result":[]},"warnings":7}', headers=JSON), "JSON with data.result", 1),
        (matrix("up"), "JSON with data.result", 1),
        (matrix({"metric": {"instance": "\ud800"}, "values": []}), "JSON with data.result", 1),
        (matrix({"metric": {"__name__": NAME}}), "cannot be read", QUERIES),
        (matrix(series([NOW_MS / 1000, "much"])), "cannot be read", QUERIES),
    ],
)
def test_bad_answers_are_problems_and_not_repeated_in_vain(answer, words, count):
    reading = read_server(answer, count=count)
    (problem, *_) = reading.problems["prometheus"]
    assert rows(reading) == []
    assert words in problem.reason
    assert problem.path.startswith("http://127.0.0.1:")


def test_one_source_s_failure_is_its_own(tmp_path):
    page = tmp_path / "pages/a/1699999900000.prom"
    page.parent.mkdir(parents=True)
    page.write_text("kafka_brokers 1\n")
    refused = server("http://127.0.0.1:9")
    reading = read(refused, {"kind": "producer_metrics", "path": str(page.parents[1])})
    assert [page.instance for page in reading.pages] == ["a"]
    assert list(reading.problems) == ["prometheus"]
    assert not reading.is_empty


def test_a_missing_variable_is_a_problem_of_its_source():
    access = {"bearer_token_variable": "NO_SUCH_VARIABLE_HERE"}
    reading = read({"kind": "prometheus", "url": "http://127.0.0.1:9", "access": access})
    assert "NO_SUCH_VARIABLE_HERE" in reading.problems["prometheus"][0].reason


def test_points_lie_on_the_step_with_one_before():
    pages = plan_pages(TimeWindow(60_000, 180_000), 30_000)
    assert [(page[0], page[-1], len(page)) for page in pages] == [(30_000, 150_000, 5)]
    cut = plan_pages(TimeWindow(60_000, 180_000), 30_000, points_per_page=2)
    assert [(page[0], page[-1]) for page in cut] == [(30_000, 60_000), (90_000, 120_000), (150_000, 150_000)]
    day = plan_pages(TimeWindow(0, 86_400_000), 1000)
    assert max(len(page) for page in day) == 11_000
    assert sum(len(page) for page in day) == 86_401
    coarse = plan_coarse_pages(TimeWindow(60_000, 180_000), 30_000, 60_000)
    assert [(page[0], page[-1], page.step) for page in coarse] == [(90_000, 150_000, 60_000)]


def test_a_page_too_large_for_the_server_is_asked_for_in_halves():
    def answer(path):
        asked = ask(path)
        start, end = float(asked["start"]), float(asked["end"])
        if "(kafka_producer_producer_node_metrics|" not in asked["query"]:
            return matrix()
        if end - start > 61:
            return Answer('{"status":"error","error":"too many samples"}', 422, JSON)
        instants = range(round(start), round(end) + 1, 30)
        labels = {"instance": "i:1", "client_id": "c", "node_id": "node-1", "job": "p"}
        return matrix(series(*([at, str(at)] for at in instants), **labels))

    with serving({API: answer}) as site:
        reading = read(server(site.url))
    found = rows(reading)
    assert [row["observed_at_ms"] for row in found] == list(range(SPAN.start_ms - 30_000, SPAN.end_ms, 30_000))
    assert [row["value"] * 1000 for row in found] == [row["observed_at_ms"] for row in found]
    assert {(row["instance"], row["name"]) for row in found} == {("i:1", NAME)}
    assert "prometheus" not in reading.problems or all("clock" in p.reason for p in reading.problems["prometheus"])


def test_labels_tell_the_broker_and_queries_can_be_replaced():
    def answer(query):
        if query == "my_bytes":
            return matrix({"metric": {"host": "b1"}, "values": [[AT_S, "NaN"]]})
        if "brokertopicmetrics" in query:
            return matrix(*(series([AT_S, "5"], name=n, host="b2", node="7") for n in (BYTES_IN, bytes_out)))
        return matrix(warnings=["partial answer"])

    bytes_out = "kafka_server_brokertopicmetrics_bytesout_total"
    of_brokers = {"instance_label": "host", "brokers": {"b1": 1}, "broker_label": "node"}
    reading = read_server(answer, **of_brokers, queries={BYTES_IN: "my_bytes"})
    told = {(r["instance"], r["name"], dict(r["labels"])["broker_id"], r["value"]) for r in rows(reading)}
    assert told == {("b1", BYTES_IN, "1", None), ("b2", bytes_out, "7", 5)}
    reasons = reasons_of(reading)
    assert reasons[0] == "the server warns: partial answer"
    assert "clock" in reasons[1]  # ours is of 2023 here
    assert {problem.severity for problem in reading.problems["prometheus"]} == {"suspect"}


def test_brokers_without_a_label_of_the_instance_are_not_one():
    """Of six brokers the highest id had the worst of all values."""
    brokers = [series([AT_S, broker], name=BYTES_IN, broker_id=broker) for broker in "12"]
    found = rows(read_server(lambda query: matrix(*brokers) if "brokertopicmetrics" in query else matrix()))
    assert {(row["instance"], row["value"]) for row in found} == {("broker 1", 1), ("broker 2", 2)}


@pytest.mark.parametrize(("ahead_ms", "is_wrong"), [(0, False), (30_000, False), (120_000, True), (-120_000, True)])
def test_the_server_s_clock_is_compared_with_ours_at_the_moment_it_answers(ahead_ms, is_wrong):
    """The run began years ago: that is no difference of clocks. Oracle: the server's own Date header."""
    with serving({API: matrix()}) as site:
        asked_at_ms = time.time_ns() // 1_000_000 + ahead_ms
        problems = read(server(site.url), asked_at_ms=asked_at_ms).problems.get("prometheus", ())
    assert ["correct the clock" in problem.reason for problem in problems] == [True] * is_wrong
    assert all(f"ours says {format_instant(asked_at_ms)}" in problem.reason for problem in problems)


def test_a_dropped_query_and_a_selector():
    (source,) = cluster(server("http://p", queries={"x": ""}, selector='env="a"')).sources
    queries = list(iter_queries(source))
    assert {query.subject for query in queries} == {form.metric.family for form in FORMS}
    assert all(query.promql.endswith('env="a"}') for query in queries)


def test_intervals():
    sources = (server("http://p"), server("http://q", step="PT60S"), {"kind": "librdkafka_statistics", "paths": ["x"]})
    expected = {"prometheus": 30_000, "prometheus-2": 60_000, "librdkafka_statistics": 5_000}
    assert sample_intervals_ms(cluster(*sources)) == expected


def test_sources_of_one_kind_tell_apart():
    with serving({API: matrix(series([AT_S, "5"], instance="a:1"))}) as first:
        found = read(server(first.url, queries={}), server("http://127.0.0.1:9"))
    assert {row["source"] for row in rows(found)} == {"prometheus"}
    refused = {name: "refused" in str(problems) for name, problems in found.problems.items()}
    assert refused == {"prometheus": False, "prometheus-2": True}  # the first one's clock is not ours


def probed(down, *families, exposed=()):
    """The finding on a server that has 12 series of some families, and targets that are down; or about names exposed."""

    def answer(path):
        query = parse_qs(urlsplit(path).query)["query"][0]
        if query.startswith("up{"):
            result = [{"metric": {"instance": name}, "value": [1, "0"]} for name in down]
        else:
            result = [{"metric": {}, "value": [1, "12"]}] if any(name in query for name in families) else []
        return Answer(json.dumps({"data": {"resultType": "vector", "result": result}}), headers=JSON)

    names = Answer(json.dumps({"data": list(exposed)}), headers=JSON)
    with serving({"/api/v1/query": answer, "/api/v1/label/__name__/values": names}) as site:
        (source,) = cluster(server(site.url)).sources
        found, *others = probe_prometheus(source, pause=lambda _: None)
    if exposed:
        return [(other.name, other.found, other.advice) for other in others]
    return found.is_ok, found.found.removeprefix(f"{site.url}: "), found.advice


def test_probe_names_what_is_not_known_and_the_nearest_known():
    """Names of what is there already are nobody's question, however alike."""
    latency = "kafka_producer_node_request_latency_"
    known = (f"{latency}avg", f"{latency}max", "kafka_producer_node_request_total", "kafka_producer_node_request_rate")
    other = ("acme_kafka_server_brokertopicmetrics_bytesin_total", f"{latency}min", "jvm_threads")
    ((name, found, advice),) = probed((), exposed=(*known, *other))
    assert name == "metrics"
    assert found == f"not known {other[0]} (nearest: kafka_server_brokertopicmetrics_bytesin_total)"
    assert f"kafka_server_brokertopicmetrics_bytesin_total: {other[0]}" in advice
    assert probed((), exposed=known) == []


PRODUCERS = "kafka_producer_producer_node_metrics 12"


@pytest.mark.parametrize(
    ("down", "families", "is_ok", "found"),
    [
        ("", ["node_metrics"], True, PRODUCERS),
        ("b", ["node_metrics", "(kafka_log_log)(_size"], True, f"{PRODUCERS}, kafka_log_log 12; targets down: b"),
        ("ba", ["node_metrics"], False, f"{PRODUCERS}; no series of a broker; targets down: a, b"),
        ("", [], False, "none of the series that count"),
    ],
    ids=["producers only", "one of several targets is down", "all brokers are down", "nothing"],
)
def test_probe_says_what_a_server_has_and_which_targets_are_down(down, families, is_ok, found):
    said = probed(down, *families)
    assert said[:2] == (is_ok, found)
    assert bool(said[2]) is not is_ok


def test_probe_of_something_else_than_prometheus():
    with serving({"/api/v1/query": Answer("?", headers=JSON)}) as site:
        (source,) = cluster(server(site.url)).sources
        with pytest.raises(InputError, match="is the address"):
            probe_prometheus(source, pause=lambda _: None)
