"""`replay`: what the command's options become, and the text."""

import argparse
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipeline.cli.replay import format_replay
from pipeline.cli.replay_inputs import ReplayInputs, find_span, read_candidates, read_inputs, read_metric_source
from pipeline.config.replay import DEFAULT_CANDIDATES, Candidate
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.window import TimeWindow
from tests.batches import START_MS, make_batch, make_records

METRICS = [
    ("load-0/1.prom", "", {"kind": "producer_metrics", "path": ""}),
    ("producers/load-0/1.prom", "", {"kind": "producer_metrics", "path": "producers"}),
    ("a/statistics.json", "", {"kind": "librdkafka_statistics", "paths": [""]}),
    ("statistics.jsonl", "statistics.jsonl", {"kind": "librdkafka_statistics", "paths": ["statistics.jsonl"]}),
]


@pytest.mark.parametrize(("file", "given", "source"), METRICS)
def test_metrics_are_what_lies_there(tmp_path, file, given, source):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("")
    expected = dict(source)
    if "paths" in source:
        expected["paths"] = [str(tmp_path / one) for one in source["paths"]]
    else:
        expected["path"] = str(tmp_path / source["path"])
    assert read_metric_source(str(tmp_path / given)) == expected


def test_a_url_is_a_prometheus_server():
    assert read_metric_source("http://localhost:9090") == {"kind": "prometheus", "url": "http://localhost:9090"}


@pytest.mark.parametrize(("path", "reason"), [("nowhere", "no such file"), ("", "neither CLIENT/EPOCH_MS.prom")])
def test_metrics_that_are_not_there_are_refused(tmp_path, path, reason):
    with pytest.raises(ConfigError, match=reason):
        read_metric_source(str(tmp_path / path))


def test_candidates_are_a_list_or_under_their_name(tmp_path):
    file = tmp_path / "candidates.yaml"
    for text in ("candidates:\n- {name: a}\n", "- {name: a}\n"):
        file.write_text(text)
        assert read_candidates(file) == (Candidate(name="a"),)
    assert read_candidates(None) == DEFAULT_CANDIDATES


def test_the_span_ends_where_calendars_do(tmp_path):
    log = tmp_path / "orders-0"
    log.mkdir()
    for index, beyond in enumerate((2**62, 2**63 - 1, -(2**62))):
        records = make_records(3, base_offset=6 * index)
        later = make_records(3, base_offset=6 * index + 3)
        hostile = make_batch(later, base_timestamp_ms=beyond, max_timestamp_ms=beyond)
        (log / f"{6 * index:020d}.log").write_bytes(make_batch(records) + hostile)
    times = [record.timestamp_ms for record in make_records(3)]
    assert find_span([tmp_path]) == (times[0], times[-1])
    (log / f"{0:020d}.log").write_bytes(hostile)
    for index in (6, 12):
        (log / f"{index:020d}.log").unlink()
    with pytest.raises(NothingUsableError, match="no record with a timestamp"):
        find_span([tmp_path])


@pytest.mark.parametrize("text", ["", "candidates: {}", "name: a", "- [", "candidates: []"])
def test_a_file_without_candidates_is_refused(tmp_path, text):
    file = tmp_path / "candidates.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"candidates\.yaml:1:"):
        read_candidates(file)


def test_a_candidate_that_cannot_be_is_named(tmp_path):
    inputs = ReplayInputs(
        paths=(Path("logs"),), sources=(), candidates=({"name": "a", "brokers": {1: {"delay": 5}}},), seeds=3, topics=(),
        span=TimeWindow(0, 60_000), window_ms=60_000, as_of_ms=60_000,
    )  # fmt: skip  # fields of a value, several a line
    with pytest.raises(ConfigError, match=r"candidates\.0\.brokers\.1\.delay"):
        inputs.configure(tmp_path)


def test_it_runs_on_sail_where_that_is_installed(tmp_path):
    span = TimeWindow(START_MS, START_MS + 60_000)
    inputs = ReplayInputs((tmp_path,), (), DEFAULT_CANDIDATES, 1, (), span, 60_000, span.end_ms)
    assert (inputs.configure(tmp_path).spark.engine == "sail") == (find_spec("pysail") is not None)


def test_the_span_is_that_of_the_topics_records(tmp_path):
    for name, first_ms in (("orders-0", START_MS), ("orders-1", START_MS + 5_000), ("__consumer_offsets-0", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(make_batch(make_records(3, start_ms=first_ms)))
    first_ms, last_ms = find_span([tmp_path])
    assert first_ms == START_MS
    assert last_ms >= START_MS + 5_000
    with pytest.raises(NothingUsableError):
        find_span([tmp_path / "__consumer_offsets-0"])


@pytest.mark.parametrize(
    ("window", "has_metrics", "before_minutes"),
    [("PT4M", True, 1), ("PT4M", False, 0), (None, True, 0), ("PT59M", True, 1), ("PT1H", True, 0)],
)
def test_a_window_before_is_read_for_what_averages_hold_of_it(tmp_path, window, has_metrics, before_minutes):
    """Where metrics are to be had for it and a window is short: an odd span has windows of a minute."""
    log = tmp_path / "orders-0/00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(make_batch(make_records(3, start_ms=START_MS)))
    pages = tmp_path / "load-0/1.prom"
    pages.parent.mkdir()
    pages.write_text("")
    start = "2026-11-21T09:00:00Z" if window == "PT1H" else "2026-11-21T09:41:00Z"
    arguments = argparse.Namespace(
        paths=[tmp_path], metrics=[str(tmp_path)] if has_metrics else [], candidates=None, seeds=1, topics=[],
        window=f"{start}/{window}" if window else None,
    )  # fmt: skip  # fields of a value, several a line
    inputs = read_inputs(arguments)
    assert inputs.read_span == TimeWindow(inputs.span.start_ms - 60_000 * before_minutes, inputs.span.end_ms)


def test_the_text_has_a_table_per_topic():
    share = {"median": 0.75, "low": 0.74, "high": 0.77}
    none = {"median": None, "low": None, "high": None}
    result = {
        "topic": "orders", "candidate": "in-use", "is_baseline": True, "is_as_in_use": True, "seeds": 5, "shares_of": "bytes in the log",
        "partitioner": "java-sticky-2.4", "window": "w", "record_count": 1000, "records_per_batch": share,
        "brokers": [{"broker_id": 1, "observed_bytes_share": 0.76, "predicted_bytes_share": share}],
        "baseline_records_per_batch": 3.5, "throughput_records_per_s": share, "latency_p50_ms": share,
        "latency_p99_ms": share, "keys_moved_ratio": None, "trust": "trusted", "assumptions": ["one partition"],
        "direction_trust": None, "batches_trust": "trusted", "latency_trust": "not trustworthy: a wait",
        "back_test_error": {
            "bytes_share_max_pp": 1.0, "bytes_share_bar_pp": 1.5, "records_per_batch_ratio": 1.0, "latency_avg_ratio": None,
        },
    }  # fmt: skip  # fields of a value, several a line
    unknown = {
        **result, "candidate": "sarama", "is_baseline": False, "is_as_in_use": False, "trust": "not trustworthy: keys alone",
        "direction_trust": "not trustworthy: it is small", "batches_trust": None,
        "brokers": [{"broker_id": 1, "observed_bytes_share": 0.76, "predicted_bytes_share": none}],
    }  # fmt: skip  # fields of a value, several a line
    text = format_replay({"window": "w", "results": [result, unknown], "notes": ["a note"]})
    lines = text.splitlines()
    assert lines[2] == "orders: 1,000 records, w, 5 seeds, shares of bytes in the log"
    assert lines[4].split()[:3] == ["observed", "76.0", "3.5"]
    assert "75.0 (74.0-77.0)" in lines[5]
    assert lines[6].split()[:2] == ["sarama", "-"]
    assert lines[5].split()[-4:] == ["0.75", "0.75", "unknown", "-"]  # records per batch are trusted
    told = [line.strip() for line in lines if "trust" in line]
    assert told == [
        "shares: trusted",
        "sarama, shares: not trustworthy: keys alone",
        "sarama, direction: not trustworthy: it is small",
        "records per batch: trusted",
        "latency: not trustworthy: a wait",
    ]
    assert "None" not in text
    assert "assumed: one partition" in text
    assert text.endswith("note: a note\n")


def test_a_path_that_is_not_there_is_named_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"gone: there is no such file or folder$"):
        find_span([tmp_path, tmp_path / "gone"])


def test_a_topic_without_records_is_one_line():
    empty = {"topic": "audit", "window": "w", "record_count": 0}
    document = {"window": "w", "notes": [], "results": [{**empty, "candidate": name} for name in "ab"]}
    assert format_replay(document) == "window w\n\naudit: no records, w\n"
