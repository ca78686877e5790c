"""Incidents of a rule, a source or a broker that is there no more. Oracle: `gold.incidents` by hand."""

import pytest

from pipeline.alerting.incidents import load_open
from pipeline.config.mail import Mail
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.jobs import raise_incidents
from pipeline.jobs.raise_incidents import find_gone, list_skipped
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.incidents import INCIDENTS
from tests.incident_rows import new_change, new_verdict
from tests.table_rows import zero_row
from tests.unit.alerting.examples import MINUTE_MS, T0_MS

OPENED_MS = T0_MS - 26 * HOUR_MS
OFF = {"rules": {"below_min_isr": {"severity": "off"}}}
OVERRIDDEN = {"rules": {"below_min_isr": {"topics": {"ord*": {"severity": "off"}}}}}


def a_run(tmp_path, cluster):
    config = PipelineConfig(
        warehouse=tmp_path / "warehouse",
        outbox=tmp_path / "outbox",
        window="PT1M",
        mail=Mail(mutes=tmp_path / "mutes.yaml"),
        clusters={"lab": {"sources": [LogDirectories(kind="log_directories", paths=(tmp_path,))], **cluster}},
    )
    ensure_tables(config.warehouse)
    span = TimeWindow(T0_MS, T0_MS + MINUTE_MS)
    return plan_runs(config, span, run_id="r1", now_ms=span.end_ms)[0]


def store(run, table, column, *held, **fields):
    """Rows of some windows, as hours before the newest and what is there; columns that the table lacks are left out."""
    of_all = {name: value for name, value in fields.items() if name in table.column_names}
    rows = [
        zero_row(table, T0_MS - hours * HOUR_MS, **{column: name}, **of_all) for hours, names in held for name in names
    ]
    run.replace(table, rows, [run.window_at(T0_MS - hours * HOUR_MS) for hours, _ in held])


def opened(rule, subject, incident_id="K-1"):
    return new_change("new", OPENED_MS, rule=rule, subject=subject, incident_id=incident_id)


@pytest.mark.parametrize(
    ("rule", "subject", "cluster", "brokers", "sources", "is_gone"),
    [
        ("broker_share", "broker 9", {}, ((25, (1, 9)), (2, (1,)), (0, (1,))), (), True),
        ("broker_share", "broker 9", {}, ((25, (1, 9)), (2, (1, 9)), (0, (1,))), (), False),  # away for two hours
        ("broker_share", "broker 9", {}, ((25, (1,)), (0, (1, 9))), (), False),  # back
        ("disk_hours_to_full", "broker 9", {}, ((25, (1,)), (0, (1,))), (), True),
        ("source_arrival", "metrics", {}, (), ((25, ("log", "metrics")), (0, ("log",))), True),
        ("source_arrival", "metrics", {}, (), ((25, ("log",)), (0, ("log", "metrics"))), False),
        ("below_min_isr", "topic orders", OFF, ((0, (1,)),), (), True),
        ("below_min_isr", "topic orders", OVERRIDDEN, ((0, (1,)),), (), True),
        ("below_min_isr", "topic payments", OVERRIDDEN, ((0, (1,)),), (), False),
        ("assignment_skew", "group g", {}, ((25, (1,)), (0, (1,))), (), False),  # nobody can tell
    ],
)
def test_an_incident_ends_quietly_once_its_subject_is_gone_for_a_day(
    tmp_path, *, rule, subject, cluster, brokers, sources, is_gone
):
    run = a_run(tmp_path, cluster)
    for table, column, held in ((BROKER_SHARE, "broker_id", brokers), (WINDOW_STATUS, "source", sources)):
        if held:
            store(run, table, column, *held, expected_share=0.5)
    failed = new_verdict(OPENED_MS, rule=rule, subject=subject)
    for table, row in ((VERDICTS, failed), (INCIDENTS, opened(rule, subject))):
        run.replace(table, [row], [run.window_at(OPENED_MS)])
    for _ in range(2):  # the same again
        raise_incidents.run(run, [new_verdict(T0_MS, above=0)])
        rows = sorted(load_rows(run.warehouse, INCIDENTS).to_pylist(), key=lambda row: row["window_start"])
        told = [(row["incident_id"], row["state"], row["silenced_by"]) for row in rows]
        end = ("K-1", "withdrawn", "no window of its subject is judged any more")
        assert told == [("K-1", "new", None), *([end] if is_gone else [])]
    assert bool(load_open(run, T0_MS + MINUTE_MS)) != is_gone


def test_a_broker_that_died_and_stays_registered_is_gone_after_a_day(tmp_path):
    """It has a row in each window, and a verdict that says nothing: its incident stayed open for good."""
    run = a_run(tmp_path, {})
    run.replace(INCIDENTS, [opened("broker_share", "broker 9")], [run.window_at(OPENED_MS)])
    for hours, share in ((25, 0.5), (0, 0.0)):
        store(run, BROKER_SHARE, "broker_id", (hours, (9,)), expected_share=share)
    silent = new_verdict(T0_MS, above=0, subject="broker 9", value=None, verdict="not_enough_traffic")
    raise_incidents.run(run, [silent])
    assert not load_open(run, T0_MS + MINUTE_MS)


def test_windows_that_lack_records_are_looked_for_once_for_all_incidents(tmp_path, monkeypatch):
    """Of five hundred topics that were deleted it was once for each."""
    run = a_run(tmp_path, {})
    changes = [opened("leaderless", f"topic {name}", f"K-{name}") for name in "abc"]
    run.replace(INCIDENTS, changes, [run.window_at(OPENED_MS)])
    failed = [new_verdict(OPENED_MS, rule=one.rule, subject=one.subject) for one in changes]
    run.replace(VERDICTS, failed, [run.window_at(OPENED_MS)])
    asked, values = [], type(run).values
    monkeypatch.setattr(type(run), "values", lambda *args, **more: asked.append(args[2]) or values(*args, **more))
    raise_incidents.run(run, [new_verdict(T0_MS, above=0)])
    assert [table.name for table in asked].count(WINDOW_STATUS.name) == 1


@pytest.mark.parametrize(
    ("rule", "subject", "before", "now", "is_gone"),
    [
        ("leaderless", "topic orders", ["a", "orders"], ["a"], True),
        ("leaderless", "topic orders", ["a"], ["a", "orders"], False),
        ("assignment_skew", "group g", ["group g"], ["group h"], True),
        ("assignment_skew", "group g", ["group g"], ["group g"], False),
        ("assignment_skew", "group g", ["group g"], [], False),  # nothing was seen
        ("zone_share", "zone a", ["zone a", "zone b"], ["zone b", "zone c"], True),
    ],
)
def test_so_does_that_of_a_topic_or_a_group_which_is_deleted(tmp_path, *, rule, subject, before, now, is_gone):
    """Its incident stayed open for good."""
    run = a_run(tmp_path, {})
    change, held = opened(rule, subject), ((25, before), (0, now))
    table, column = (TOPIC_HEALTH, "topic") if rule == "leaderless" else (RULE_MEASURES, "subject")
    store(run, table, column, *held, rule="other")
    assert find_gone(run, change, list_skipped(run, OPENED_MS)) is None  # nobody observed its like
    store(run, table, column, *held, rule=rule, partition_count=1)
    assert (find_gone(run, change, list_skipped(run, OPENED_MS)) == T0_MS) is is_gone
    store(run, WINDOW_STATUS, "source", (0, ("log_directories",)), expected_count=3, arrived_count=2)
    assert (find_gone(run, change, list_skipped(run, OPENED_MS)) == T0_MS) is (is_gone and table is not TOPIC_HEALTH)
