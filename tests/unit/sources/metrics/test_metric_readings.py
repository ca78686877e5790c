"""Metrics sources that answer badly, each alone. The servers are real ones on loopback; good answers come from a real
Prometheus in the integration lane. Oracle: the table of answers below.
"""

import itertools
import json
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from pipeline.codec.metrics.metric_table import FORMS
from pipeline.config.http_access import PrometheusServer
from pipeline.config.pipeline_config import Cluster
from pipeline.errors import InputError
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources import kinds  # noqa: F401  (makes them known to the configuration)
from pipeline.sources.metrics import http_text, prometheus, sample_rows
from pipeline.sources.metrics.metric_source import SampleQuestion, read_metrics, sample_intervals_ms
from pipeline.sources.metrics.prometheus import iter_queries, plan_coarse_pages, plan_pages, probe_prometheus
from tests.memory import tracing_memory
from tests.unit.sources.http_servers import Answer, serving

NOW_MS = 1_700_000_000_000
SPAN = TimeWindow(NOW_MS - NOW_MS % 60_000 - 120_000, NOW_MS - NOW_MS % 60_000)
AT_S = SPAN.start_ms / 1000
API = "/api/v1/query_range"
JSON = {"Content-Type": "application/json"}
NAME = "kafka_producer_producer_node_metrics_request_total"
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
QUERIES = len(list(iter_queries(PrometheusServer(url="http://p"))))


def cluster(*sources, as_of=None):
    return Cluster(sources=sources, as_of=as_of)


def server(url, **more):
    return {"kind": "prometheus", "url": url, "step": "PT30S", "access": {"attempts": 2}, **more}


QUESTION = SampleQuestion(span=SPAN, window_ms=60_000, now_ms=NOW_MS, pause=lambda _: None, clock=lambda: NOW_MS)


def read(*sources, asked_at_ms=NOW_MS):
    clock = lambda: asked_at_ms  # noqa: E731
    return read_metrics(cluster(*sources), replace(QUESTION, clock=clock))


def rows(reading):
    return pa.Table.from_batches(reading.batches).to_pylist() if reading.batches else []


def matrix(*series, **more):
    data = {"resultType": "matrix", "result": series}
    return Answer(json.dumps({"status": "success", "data": data, **more}), headers=JSON)


def series(*points, name=NAME, **labels):
    return {"metric": {"__name__": name, **labels}, "values": points}


def read_server(answer, *, count=None, **more):
    """What is read of a server that gives the answer to each of `count` questions; it may be a function of the query."""
    given = (lambda path: answer(ask(path)["query"])) if callable(answer) else answer
    with serving({API: given}) as site:
        reading = read(server(site.url, **more))
        assert count in (None, len(site.asked))
    return reading


def reasons_of(reading):
    return [problem.reason for problem in reading.problems["prometheus"]]


def exporters(folder, site, **more):
    """A source of one broker's pages, kept in the folder."""
    return {"kind": "exporter_urls", "brokers": {"4": f"{site.url}/page"}, "path": str(folder), **more}


def ask(path):
    asked = parse_qs(urlsplit(path).query)
    return {name: asked[name][0] for name in ("query", "start", "end", "step")}


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


def test_exporters_are_scraped_now_and_pages_kept(tmp_path):
    good = "# TYPE kafka_brokers gauge\nkafka_brokers 1\n"
    answers = {
        "/good": Answer(good),
        "/html": Answer("<!DOCTYPE html><html>", headers={"Content-Type": "text/plain"}),
        "/half": Answer("a 1\n", headers={"Content-Type": "application/openmetrics-text; version=1.0.0"}),
        "/cut": Answer(good, cut=9),
    }
    with serving(answers) as site:
        urls = {path[1:]: f"{site.url}{path}" for path in answers}
        source = exporters(tmp_path, site, producers=urls, brokers={"4": f"{site.url}/good"})
        reading = read({**source, "access": {"attempts": 1}})
        past = cluster(source, as_of="2026-01-01T00:00:00Z")
        recorded = read_metrics(past, replace(QUESTION, now_ms=NOW_MS + 1, pause=None, clock=lambda: NOW_MS + 1))
    assert {path.parent.name: path.read_text() for path in tmp_path.glob("*/*")} == {"good": good, "4": good}
    assert {page.observed_at_ms for page in reading.listed["exporter_urls"]} == {NOW_MS}
    reasons = {problem.path.rpartition("/")[2]: problem.reason for problem in reading.problems["exporter_urls"]}
    for name, word in (("html", "HTML"), ("half", "# EOF"), ("cut", "broke off")):
        assert word in reasons[name]
    assert len(recorded.listed["exporter_urls"]) == 2  # the past is not scraped


def test_pages_that_were_scraped_long_ago_are_deleted_by_a_scrape_and_nothing_else_is(tmp_path):
    day_ms = 24 * 3_600_000
    names = {name: NOW_MS - days * day_ms for name, days in (("old", 32), ("young", 30))}
    others = (*(f"4/{at_ms}.txt" for at_ms in names.values()), "4/notes.prom", f"other/{names['old']}.prom")
    for path in (*(f"4/{at_ms}.prom" for at_ms in names.values()), *others):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("a 1\n")
    with serving({"/page": Answer("kafka_brokers 1\n")}) as site:
        source = exporters(tmp_path, site)
        read(source)
        kept = {f"{path.parent.name}/{path.name}" for path in tmp_path.glob("*/*")}
        assert kept == {f"4/{names['young']}.prom", f"4/{NOW_MS}.prom", *others}
        read({**source, "keep": "P1D"})
    assert not (tmp_path / f"4/{names['young']}.prom").exists()


def test_pages_of_an_exporter_take_so_many_bytes_and_the_oldest_go_first(tmp_path):
    """130 kB of a compressed page are 64 MiB on disk."""
    page = "kafka_brokers 1\n"
    for hours in (3, 2, 1):
        (tmp_path / "4").mkdir(exist_ok=True)
        (tmp_path / f"4/{NOW_MS - hours * 3_600_000}.prom").write_text(page)
    with serving({"/page": Answer(page), "/large": Answer(page * 5)}) as site:
        source = exporters(tmp_path, site, keep_bytes=2 * len(page))
        (problem,) = read(source).problems["exporter_urls"]
        assert "the oldest are deleted" in problem.reason
        assert sorted(path.name for path in tmp_path.glob("4/*")) == [f"{NOW_MS - 3_600_000}.prom", f"{NOW_MS}.prom"]
        read({**source, "brokers": {"5": f"{site.url}/large"}})
        assert len(list(tmp_path.glob("5/*"))) == 1  # the newest stays


@pytest.mark.parametrize(
    ("page", "count"),
    [("# TYPE up gauge\nup 1\n", 0), (" " * 9999, 0), ('{"kafka.brokers"} 1\n', 1), ("\tkafka_brokers 1", 1)],
)
def test_a_page_without_a_metric_that_is_read_is_not_kept(tmp_path, page, count):
    with serving({"/page": Answer(page)}) as site:
        problems = read(exporters(tmp_path, site)).problems.get("exporter_urls", ())
    assert len(list(tmp_path.glob("4/*"))) == count
    told = [one.severity for one in problems if "holds none of the metrics that are read" in one.reason]
    assert told == ["suspect"] * (not count)


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


@pytest.mark.parametrize(
    "points",
    [
        *([["1e300", "1"]], [[1e300, "1"]], [[-5, "1"]], [[None, "1"]], [[1, None]], [[1]], [1], [[1, "x" * 10_000]]),
        *([["NaN", "1"]], [[float("nan"), "1"]], [[float("inf"), "1"]], "x", 7, None, [[{}, []]]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_no_point_of_a_server_ends_the_reading(points):
    reading = read_server(matrix({"metric": {"__name__": NAME, "instance": "a:1"}, "values": points}))
    assert reading.problems["prometheus"] or not rows(reading)


@pytest.mark.parametrize(
    "odd",
    [
        {"metric": {"__name__": BYTES_IN, "instance": "h"}, "histograms": [[AT_S, {"count": "1", "buckets": []}]]},
        series([AT_S, "1"], name=BYTES_IN, instance=7),
        series([1e300, "1"], name=BYTES_IN, instance="h"),
        series(["1700000000", "1"], name=BYTES_IN, instance="h"),
    ],
    ids=["a native histogram", "a label that is no text", "an instant of no calendar", "an instant that is a text"],
)
def test_a_series_that_cannot_be_read_costs_no_other(odd):
    first, *others = (series([AT_S, "5"], name=BYTES_IN, instance=f"b{number}") for number in range(3))
    answers = matrix(first, odd, *others)
    reading = read_server(lambda query: answers if "brokertopic" in query else matrix(), count=QUERIES)
    assert {row["instance"] for row in rows(reading)} == {"b0", "b1", "b2"}
    assert "cannot be read" in reasons_of(reading)[0]


def test_a_broker_id_of_thousands_of_digits_ends_no_reading():
    points = [[AT_S + at_s, str(at_s)] for at_s in (0, 30, 60)]
    answer = matrix(series(*points, name=BYTES_IN, instance="b", broker_id="9" * 5000))
    assert rows(read_server(lambda query: answer if "brokertopic" in query else matrix()))


def test_the_first_warnings_of_a_server_are_kept_cut_and_show_what_they_hide():
    """The others would fill the memory, were they all to be compared."""
    warnings = [f"\x1b[31m{number:03}" + "x" * 1000 for number in reversed(range(100))]
    reasons = [reason for reason in reasons_of(read_server(matrix(warnings=warnings))) if "warns" in reason]
    assert [f"[31m{number:03}x" in reason for number, reason in enumerate(reasons, 80)] == [True] * 20
    assert all(len(reason) < 250 and reason.isprintable() for reason in reasons)


def test_equal_warnings_are_not_written_out_one_by_one(monkeypatch):
    """A million of them took minutes."""
    formatted = []
    monkeypatch.setattr(prometheus, "format_name", lambda text, limit: formatted.append(text) or text[:limit])
    read_server([matrix(warnings=["again"] * 1000), Answer("", 403)])
    assert len(formatted) <= 20


def test_the_time_that_answers_take_to_be_understood_is_their_server_s(monkeypatch):
    """A page of some kB inflates to objects that take half a minute."""
    monkeypatch.setattr(http_text, "monotonic", map(float, itertools.count(0, 70)).__next__)
    reading = read_server(matrix(), count=5)  # twice 70 s each, of 20 time-outs of 30 s
    assert "took 700 s together: the rest is not asked for" in reasons_of(reading)[0]


def many(text, count=100_000):
    """An answer's text that repeats one for each number, in hexadecimal, between what stands before and after `|`."""
    before, each, after = text.split("|")
    return before + ",".join(each.replace("#", f"{number:x}") for number in range(count)) + after


@pytest.mark.parametrize(
    "text",
    [
        '[{"metric":{},"values":[|[1700000000,"#"]|]}]}',
        '[{"metric":{},"values":[|"#"|]}]}',
        '[{"metric":{},"values":[|[]|]}]}',
        '[{"metric":{|"#":""|},"values":[]}]}',
        '[{"metric":{|"#":"\U0001f600"|},"values":[]}]}',
        '[|{"metric":0,"values":0}|]}',
        '[]},"warnings":[|"#"|]',
        '[]},"more":[|[]|]',
        '[]},"more":{|"#":{}|}',
    ],
)
def test_an_answer_takes_little_more_than_its_size_in_memory(text):
    content = f'{{"data":{{"resultType":"matrix","result":{many(text)}}}'.encode()
    no = Answer("no", 403)
    answers = iter([no, Answer(content, headers=JSON), no])
    with serving({API: lambda _: next(answers)}) as site:
        read(server(site.url))  # imports what it needs
        with tracing_memory() as peak_bytes:
            read(server(site.url))
            assert peak_bytes() < 1_000_000 + 8 * len(content)
        assert 2 <= len(site.asked) <= 3


def test_of_an_answer_so_much_is_held(monkeypatch):
    labels = {"__name__": NAME, "instance": "a:1"}
    answer = matrix(
        *({"metric": {**labels, "n": str(at)}, "values": [[AT_S, "1"], [AT_S + 30, "1"]]} for at in range(4))
    )

    def reasons():
        with serving({API: lambda path: answer if "node_metrics|" in ask(path)["query"] else matrix()}) as site:
            problems = read(server(site.url)).problems["prometheus"]
        return [one.reason for one in problems if one.severity == "refused"]

    assert reasons() == []
    for most, few, words in (("OBJECTS", 9, "10 objects"), ("LABELS", 11, "labels"), ("POINTS", 7, "points")):
        with monkeypatch.context() as patch:
            patch.setattr(prometheus, f"MOST_{most}", few)
            assert [words in reason and "read fewer windows at once" in reason for reason in reasons()] == [True]


def told_of(*at_s, count=1, asked="node_metrics|", **labels):
    """Instants, counted from the span's start, and reasons, of what is read of series with points at these seconds."""
    points = [[AT_S + seconds, "5"] for seconds in at_s]
    answer = matrix(*(series(*points, instance="a:1", n=str(number), **labels) for number in range(count)))
    reading = read_server(lambda query: answer if asked in query else matrix())
    wrong = [one.reason for one in reading.problems["prometheus"] if one.severity == "refused"]
    return [row["observed_at_ms"] - SPAN.start_ms for row in rows(reading)], wrong


TOO_MANY = "series with more points than were asked for are left out [kafka_producer_producer_node_metrics]"
ELSEWHERE = "points of instants that were not asked for are left out"
ONCE_A_WINDOW = {"name": "kafka_log_log_size", "asked": "(kafka_log_log)(_size"}


@pytest.mark.parametrize(
    ("points", "of", "instants_ms", "reasons"),
    [
        ((-30, 0, 30, 60, 90), {}, [-30_000, 0, 30_000, 60_000, 90_000], []),
        ((30, 90), ONCE_A_WINDOW, [30_000, 90_000], []),
        ((0, 60), ONCE_A_WINDOW, [0, 60_000], []),
        ((0, 0.001, 0.002, 90), {}, [0, 90_000], [ELSEWHERE]),
        ((-86_400, 0, 86_400), {}, [0], [ELSEWHERE]),
        ((0, *(0.001 * number for number in range(6))), {}, [], [TOO_MANY]),
        ((0,) * 7, {}, [], [TOO_MANY]),
    ],
    ids=[
        *("asked for", "once a window", "moved to multiples of the step", "a millisecond apart", "other days"),
        *("too many", "one again and again"),
    ],
)
def test_a_server_gives_the_points_that_were_asked_for(points, of, instants_ms, reasons):
    assert told_of(*points, **of) == (instants_ms, reasons)


def test_a_server_s_long_labels_are_left_out_and_told_of_once():
    found, (reason,) = told_of(0, 30, count=50, client_id="c" * 16_384)
    assert found == []
    assert reason.startswith("series with more than 16,384 characters")


def test_a_server_gives_so_many_bytes(monkeypatch):
    """It is not asked any more then."""
    monkeypatch.setattr(sample_rows, "MOST_SAMPLE_BYTES", 10_000)
    many = [series([AT_S, "5"], instance=f"{number}", client_id="c" * 500) for number in range(50)]
    assert reasons_of(read_server(matrix(*many), count=1))[0].startswith("its samples take more than")
