"""A real Prometheus that scrapes one page with every name of the table. Oracle: the page's own lines, each with a value of its own."""

import time

import pytest

from pipeline.codec.metrics.metric_table import FORMS, JMX_DEFAULT
from pipeline.config.http_access import PrometheusServer
from pipeline.model.window import TimeWindow
from pipeline.sources.metrics.metric_source import SampleQuestion
from pipeline.sources.metrics.prometheus import probe_prometheus, read_prometheus
from tests.lab.process import wait_until
from tests.lab.prometheus import Job, find_prometheus, start_prometheus
from tests.unit.codec.metrics.test_metric_names import labels_of
from tests.unit.sources.http_servers import Answer, serving

OTHERS = (
    'kafka_server_BrokerTopicMetrics_Count{name="FetchMessageConversionsPerSec"} 1',
    'kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="Fetch"} 1',
    'kafka_producer_request_total{client_id="c"} 1',
    "our_kafka_controller_leader_elections 1",
)

STEP_S = 5


def exposed_name(form):
    """The default format has capitals."""
    return form.name.title() if form.exporter == JMX_DEFAULT else form.name


def format_series(form):
    name, labels = exposed_name(form), labels_of(form)
    pairs = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{pairs}}}"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    if find_prometheus() is None:
        pytest.skip("no prometheus on this machine: install the package prometheus")
    lines = [f"{format_series(form)} {number + 100}" for number, form in enumerate(FORMS)]
    page = Answer("\n".join((*dict.fromkeys((*lines, *OTHERS)), "")))
    with serving({"/metrics": page}) as site:
        jobs = {"page": Job([int(site.url.rpartition(":")[2])], 1)}
        with start_prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as server:
            server.wait_until_scraped("page", 1)
            scraped_s = time.time()
            wait_until(
                lambda: time.time() // STEP_S > scraped_s // STEP_S, "an instant that is asked for", server.process
            )
            yield PrometheusServer(url=server.url, step=f"PT{STEP_S}S")


def test_every_name_of_the_table_is_read_and_little_else(source):
    now_ms = time.time_ns() // 1_000_000
    start_ms = now_ms - now_ms % 60_000
    question = SampleQuestion(
        name="prometheus",
        span=TimeWindow(start_ms - 60_000, start_ms + 60_000),  # a minute may have begun just now
        window_ms=60_000,
        now_ms=now_ms,
        is_recorded=False,
        pause=time.sleep,
        clock=lambda: time.time_ns() // 1_000_000,
    )
    reading = read_prometheus(source, question)
    assert reading.problems["prometheus"] == ()
    rows = [row for batch in reading.batches for row in batch.to_pylist()]
    found = {(row["exposed_name"], row["name"], row["value"]) for row in rows}
    values = {}  # of two forms that are one series on the page the first counts
    for number, form in enumerate(FORMS):
        values.setdefault(format_series(form), number + 100)
    expected = {(exposed_name(form), form.metric.name, values[format_series(form)] * form.factor) for form in FORMS}
    kept = ("kafka_producer_request_total", "kafka_producer_request_total", 1.0)  # asked for with others, its own name
    assert found == expected | {kept}


def test_doctor_sees_every_family(source):
    answered, *unknown = probe_prometheus(source, pause=time.sleep)
    assert answered.is_ok
    assert all(f"{form.metric.family} " in answered.found for form in FORMS)
    assert unknown == []  # nothing that is needed is missing
