"""Measures of rules as a run stores them: one of a subject and window, whatever names look alike. Oracle: rows by hand."""

import pytest

from pipeline.jobs.measure_rules import run as measure_rules
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import insert_rows, load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import CLUSTER_STATE, LOG_SEGMENTS
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.silver import PRODUCER_NODES
from tests.table_rows import needed_row, zero_row
from tests.unit.jobs.one_cluster import write_config
from tests.unit.jobs.test_ingest_windows import START_MS, plan, window


def test_names_that_look_alike_and_a_topic_made_anew_are_one_subject_with_its_worst_measure(tmp_path):
    """Else a client stops the gate of measures for all by two names that differ where a long one is cut."""
    run = plan(tmp_path, 0, 1, window(1).end_ms)
    ensure_tables(run.warehouse)
    waits = {"a" * 60 + "1" + "z" * 60: 5.0, "a" * 60 + "2" + "z" * 60: 90.0, "a" * 60 + "3" + "z" * 60: 40.0}
    waits |= {"b\\x1b": 7.0, "b\x1b": 3.0}
    start_ms = window(0).start_ms
    nodes = [
        zero_row(PRODUCER_NODES, start_ms, client_id=client_id, instance=client_id, throttle_time_avg_ms=wait)
        for client_id, wait in waits.items()
    ]
    topics = [
        zero_row(TOPIC_HEALTH, start_ms, topic="orders", topic_id=topic_id, under_replicated_count=count)
        for topic_id, count in (("old", 1), ("new", 3), ("newest", 2))
    ]
    run.replace(PRODUCER_NODES, nodes, run.windows)
    run.replace(TOPIC_HEALTH, topics, run.windows)
    measure_rules(run, run.windows)
    stored = run.rows(RULE_MEASURES)
    found = {(row["rule"], row["subject"]): row["value"] for row in stored}
    assert len(found) == len(stored)
    throttled = {subject: value for (rule, subject), value in found.items() if rule == "throttled"}
    assert throttled == {f"client {'a' * 40}…{'z' * 39}": 90.0, "client b\\x1b": 7.0}
    assert found["under_replicated", "topic orders"] == 3.0


@pytest.mark.parametrize(
    ("kept_ms", "counts"),
    [
        (None, [3.0, 2.0]),
        ("1", [3.0, 2.0]),
        ("-1", [0.0, 0.0]),
        ("9223372036854775807", [0.0, 0.0]),
        ("9" * 5_000, [0.0, 0.0]),
    ],
)
def test_segments_past_retention_are_those_still_in_their_logs(tmp_path, kept_ms, counts):
    """Whatever one host says of a topic's retention; Python reads no number of so many digits."""
    config = write_config(tmp_path)
    windows = [TimeWindow(START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS) for hour in range(2)]
    configs = kept_ms and {"retention.ms": kept_ms}
    log = {"topic": "a", "replica_id": 1, "leader_id": 1, "configs": configs}
    state = [
        needed_row(CLUSTER_STATE, window.start_ms, log_start_offset=offset, **log)
        for window, offset in zip(windows, (100, 200), strict=True)
    ]
    health = [needed_row(TOPIC_HEALTH, window.start_ms, topic="a", placement="keys") for window in windows]
    for table, rows in ((CLUSTER_STATE, state), (TOPIC_HEALTH, health)):
        replace_rows(rows_of(table, rows, run_id="r"), config.warehouse, table, cluster="lab", windows=windows)
    over, later = instant_of(START_MS - HOUR_MS), instant_of(START_MS + 5 * HOUR_MS)
    segments = [
        needed_row(LOG_SEGMENTS, topic="a", broker_id=broker, base_offset=first, last_offset=last, deletable_at=at)
        for broker, first, last, at in (
            (1, 0, 99, over),  # deleted before the first window
            (1, 100, 199, over),  # deleted in the second
            (1, 200, 299, over),
            (1, 300, None, over),  # its batches were not read: judged by its name
            (1, 400, 499, later),
            (2, 200, 299, over),  # of a broker that holds no replica
        )
    ]
    insert_rows(rows_of(LOG_SEGMENTS, segments, run_id="r"), config.warehouse, LOG_SEGMENTS)
    (run,) = plan_runs(config, TimeWindow(START_MS, windows[-1].end_ms), run_id="r", now_ms=windows[-1].end_ms)
    measure_rules(run, windows)
    found = load_rows(config.warehouse, RULE_MEASURES, where="rule = 'segments_past_retention'").sort_by("window_start")
    assert found["value"].to_pylist() == counts
