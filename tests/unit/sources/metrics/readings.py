"""Metrics sources asked on loopback, and what is read of them."""

import json
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from pipeline.config.http_access import PrometheusServer
from pipeline.config.pipeline_config import Cluster
from pipeline.model.window import TimeWindow
from pipeline.sources.metrics.metric_source import SampleQuestion, read_metrics
from pipeline.sources.metrics.prometheus import iter_queries
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


def ask(path):
    asked = parse_qs(urlsplit(path).query)
    return {name: asked[name][0] for name in ("query", "start", "end", "step")}
