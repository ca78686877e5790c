"""Metrics for Prometheus. Oracles: prometheus_client's parsers of both formats, and the rows of the tables."""

import socket

import polars as pl
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from pipeline.config_file import load_config
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of
from pipeline.report.metrics import FAMILIES, PREFIX, publish_metrics
from pipeline.runs import plan_runs
from tests.config_files import write_configuration
from tests.metrics_paper import METRICS_PAPER, with_metrics
from tests.report_tables import T0_MS, write_rows, write_what_metrics_need

AWKWARD = ('a "b"\\\n{c}', "prod/eu")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    warehouse = tmp_path_factory.mktemp("tables") / "warehouse"
    write_what_metrics_need(warehouse)
    for name in AWKWARD:
        one = pl.DataFrame({"window_start": [instant_of(T0_MS)], "cluster": name, "run_id": "r"})
        write_rows(warehouse, "gold.broker_share", one.with_columns(capacity=1.0, expected_share=1.0))
    return warehouse


@pytest.fixture
def publish(tables, tmp_path):
    def run(name="demo", **metrics):
        clusters = {name: {"sources": [{"kind": "log_directories", "paths": ["."]}]}}
        settings = {"warehouse": str(tables), "metrics": {"textfile_folder": "metrics", **metrics}}
        path = write_configuration(tmp_path, clusters, **settings)
        span = TimeWindow(T0_MS, T0_MS + HOUR_MS)  # an older window: the newest is published all the same
        return publish_metrics(plan_runs(load_config(path), span, run_id="r", now_ms=T0_MS)[0])

    return run


def samples(folder, parse=open_metrics_families):
    (path,) = folder.glob("metrics/*.prom")
    found = [sample for family in parse(path.read_text()) for sample in family.samples]
    return {(one.name.removeprefix(PREFIX), *sorted(one.labels.items())): one.value for one in found}


def by_label(found, name, label):
    """A metric's values by one of its labels."""
    return {dict(key[1:])[label]: value for key, value in found.items() if key[0] == name}


def test_the_file_holds_the_measures_of_the_newest_window(publish, tmp_path):
    assert publish() == ()
    found = samples(tmp_path)
    assert by_label(found, "window_start_timestamp_seconds", "cluster") == {"demo": T0_MS / 1000 + 5 * 3600}
    assert by_label(found, "broker_share_ratio", "broker") == {"0": 0.75, "1": 1.5, "2": 0.75}
    assert by_label(found, "broker_share_limit_ratio", "broker") == {"0": 1.2, "1": 1.2, "2": 1.2}
    assert by_label(found, "broker_share_windows_above", "broker") == {"0": 0, "1": 3, "2": 0}
    assert by_label(found, "broker_request_latency_max_seconds", "broker") == {"0": 0.09, "1": 0.09, "2": 0.09}
    assert by_label(found, "broker_disk_full_seconds", "broker") == {"2": 7200}
    assert by_label(found, "topic_appended_bytes", "topic") == {"orders": 120, "clicks": 100}
    assert by_label(found, "topic_back_test_share_error_ratio", "topic") == {"orders": 0.02, "clicks": 0.02}
    assert by_label(found, "source_expected_items", "source") == {"log_directories": 3, "producer_metrics": 4}
    verdicts = (("cluster", "demo"), ("rule", "broker_share"))
    assert found["verdicts", *verdicts, ("verdict", "fail")] == 1
    assert found["verdicts", *verdicts, ("verdict", "ok")] == 2
    assert by_label(found, "incident_start_timestamp_seconds", "subject") == {"broker 1": T0_MS / 1000 + 3 * 3600}
    assert {dict(key[1:])["cluster"] for key in found} == {"demo"}


def test_the_older_format_reads_the_same(publish, tmp_path):
    publish()
    assert samples(tmp_path, text_string_to_metric_families) == samples(tmp_path)
    text = (tmp_path / "metrics/partition_health_demo.prom").read_text()
    helps = [line for line in text.splitlines() if line.startswith("# HELP")]
    assert not [line for line in helps if "\\" in line]  # the older format knows no escaped quote
    assert (tmp_path / "metrics/partition_health_demo.prom").stat().st_mode & 0o777 == 0o644


def test_series_are_bounded(publish, tmp_path):
    publish(topics=1, partitions=2)
    found = samples(tmp_path)
    assert by_label(found, "topic_appended_bytes", "topic") == {"orders": 120}
    assert by_label(found, "partition_excess_bytes", "partition") == {"2": 30, "3": 20}
    assert len(by_label(found, "topic_candidate_broker_peak_ratio", "candidate")) == 1


def test_a_cluster_that_was_never_judged_has_no_samples(publish, tmp_path):
    assert publish("new") == ()
    assert samples(tmp_path) == {}


@pytest.mark.parametrize("name", AWKWARD)
def test_clusters_of_any_name_have_a_file_of_their_own(publish, tmp_path, name):
    assert publish(name) == ()
    assert {dict(key[1:])["cluster"] for key in samples(tmp_path)} == {name}


def test_what_cannot_be_handed_over_is_a_note(publish, tmp_path):
    (tmp_path / "metrics").touch()
    (note,) = publish()
    assert note.startswith("the metrics could not be published: ")


def test_a_gateway_that_is_away_is_a_note_and_the_file_is_there(publish, tmp_path):
    with socket.socket() as bound:  # bound and not listening: refused
        bound.bind(("127.0.0.1", 0))
        (note,) = publish(pushgateway={"url": f"http://127.0.0.1:{bound.getsockname()[1]}"})
    assert note.startswith("the metrics could not be published: ")
    assert samples(tmp_path)


def test_nothing_is_read_where_nothing_is_configured(publish):
    assert publish(textfile_folder=None) == ()


def test_the_table_of_metrics_is_that_of_the_families():
    assert METRICS_PAPER.read_text() == with_metrics(METRICS_PAPER.read_text())
    names = [name for family in FAMILIES for name in family.metrics]
    assert len(names) == len(set(names))
