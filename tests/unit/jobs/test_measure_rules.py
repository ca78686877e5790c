"""Measures of rules as a run stores them: one of a subject and window, whatever names look alike. Oracle: rows by hand."""

from pipeline.jobs.measure_rules import run as measure_rules
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.silver import PRODUCER_NODES
from tests.unit.jobs.test_ingest_windows import plan, window, zero_row


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
