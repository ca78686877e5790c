"""A real Prometheus of several clusters and gateways. Oracle: the exporters below, whose counters rise with the clock."""

import time
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest

from pipeline.config.pipeline_config import Cluster
from pipeline.model.window import TimeWindow
from pipeline.sources.metrics.metric_source import SampleQuestion, read_metrics
from pipeline.sources.metrics.prometheus import probe_prometheus
from tests.lab.prometheus import Job, find_prometheus, start_prometheus
from tests.unit.sources.http_servers import running

BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
WATCHED_S = 20
A, B = 1_000_000, 9_000_000_000


def page(first, broker_id, labels=""):
    """A broker's page now: it takes in 1,000 bytes a second."""
    value = first + broker_id * 10_000_000 + round(time.monotonic() * 1000)
    own = f'kafka_server_app_info_starttimems{{id="{broker_id}"}} {first}\n' if not labels else ""
    return f"{own}{BYTES_IN}{{{labels}}} {value}\n" if labels else f"{own}{BYTES_IN} {value}\n"


PAGES = {
    "a": [lambda n=n: page(A, n) for n in (1, 2)],
    "b": [lambda n=n: page(B, n) for n in (1, 2)],
    "again": [lambda n=n: page(A, n) for n in (1, 2)],  # the brokers of a, at other addresses
    "pushed": [lambda: "".join(page(A, n, f'instance="b{n}"') for n in (1, 2))],
    "hosts": [lambda: "".join(page(A, n, f'host_name="b{n}"') for n in (1, 2))],
    "ids": [lambda: "".join(page(A, n, f'broker_id="{n}"') for n in (1, 2))],
}


@contextmanager
def exporter(write):
    with running(lambda *_: (200, [write().encode()]), content_type="text/plain; version=0.0.4") as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    if find_prometheus() is None:
        pytest.skip("no prometheus on this machine: install the package prometheus")
    with ExitStack() as stack:
        ports = {job: [stack.enter_context(exporter(write)) for write in pages] for job, pages in PAGES.items()}
        jobs = {job: Job(held, 1) for job, held in ports.items()}
        server = stack.enter_context(start_prometheus(tmp_path_factory.mktemp("prometheus"), jobs))
        time.sleep(WATCHED_S + 5)  # it scrapes meanwhile
        yield server.url, time.time_ns() // 1_000_000 // 1000 * 1000


@pytest.mark.parametrize(
    ("jobs", "broker_ids", "words"),
    [
        ("a", {"1", "2"}, ""),
        ("b", {"1", "2"}, ""),
        ("a|again", {"1", "2"}, ""),
        ("a|b", set(), "several Kafka clusters: brokers 1, 2 are there twice, by the label job a, b"),
        ("a|b|ids", set(), "several Kafka clusters: brokers 1, 2 are there twice"),
        ("pushed", {"7", None}, ""),
        ("ids", {"1", "2"}, ""),
        (
            "hosts",
            set(),
            "host_name differs b1, b2; what it tells of brokers is not taken; set `instance_label: host_name`",
        ),
    ],
)
def test_whose_series_are_whose(watched, jobs, broker_ids, words):
    url, end_ms = watched
    source = {"kind": "prometheus", "url": url, "step": "PT1S", "selector": f'job=~"{jobs}"', "brokers": {"b1": 7}}
    cluster, span = Cluster(sources=[source]), TimeWindow(end_ms - WATCHED_S * 1000, end_ms)
    clock = lambda: time.time_ns() // 1_000_000  # noqa: E731
    question = SampleQuestion(span=span, window_ms=WATCHED_S * 1000, now_ms=end_ms, pause=time.sleep, clock=clock)
    reading = read_metrics(cluster, question)
    rows = pa.Table.from_batches(reading.batches).to_pylist() if reading.batches else []
    took = {(row["instance"], dict(row["labels"]).get("broker_id")) for row in rows if row["name"] == BYTES_IN}
    own = {dict(row["labels"])["id"] for row in rows if row["name"].startswith("kafka_server_app_info")}
    assert {broker_id for _, broker_id in took if broker_id} | own | (
        {None} if "pushed" in jobs else set()
    ) == broker_ids
    reasons = " ".join(one.reason for one in reading.problems.get("prometheus", ()))
    assert words in reasons
    assert bool(reasons) == bool(words)
    assert not rows or len(took) == 2 * len(jobs.split("|"))
    found = [one.found for one in probe_prometheus(cluster.sources[0], pause=time.sleep) if one.name == "brokers"]
    assert bool(found) == bool(words)
