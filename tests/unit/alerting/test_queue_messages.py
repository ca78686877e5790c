"""Which changes become messages. Oracle: the rows of the outbox, and files as people get them."""

import csv
import io
import json
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.config.mail import Mail, Webhook
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.rules import RuleOverride
from pipeline.evidence.incident import gather_evidence
from pipeline.jobs import deliver_alerts, raise_incidents
from pipeline.jobs.raise_incidents import queue_messages
from pipeline.model.incident import SILENCED
from pipeline.model.window import TimeWindow
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.rules.rule import RuleMeasure
from pipeline.runs import plan_runs
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.storage.outbox import mark_failed
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.gold import VERDICTS
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.incident_rows import new_change, new_verdict
from tests.mail_parts import attached, read_mail
from tests.unit.alerting.examples import MINUTE_MS, T0_MS


def a_run(tmp_path, *, notify=None, now_ms=T0_MS + 60 * MINUTE_MS, **mail):
    config = PipelineConfig(
        warehouse=tmp_path / "warehouse",
        outbox=tmp_path / "outbox",
        window="PT1M",
        mail=Mail(mutes=tmp_path / "mutes.yaml", **mail),
        clusters={"demo": {"sources": [LogDirectories(kind="log_directories", paths=(tmp_path,))]}},
    )
    ensure_tables(config.warehouse, (ALERT_OUTBOX, VERDICTS, INCIDENTS))
    span = TimeWindow(T0_MS, T0_MS + MINUTE_MS)
    return plan_runs(config, span, run_id="r1", now_ms=now_ms, notify=notify)[0]


def change(number, state="new", minute=0):
    of = {"rule": SOURCE_ARRIVAL, "subject": f"source_{number}", "value": 0.5, "limit_value": 0.05}
    return new_change(state, T0_MS + minute * MINUTE_MS, incident_id=f"K-{number:08}", since_ms=T0_MS, **of)


def verdict_of(one):
    of = {"rule": SOURCE_ARRIVAL, "subject": one.subject, "value": 0.5, "limit_value": 0.05}
    return new_verdict(one.window_start_ms, reason="nothing came", **of)


def queue(run, *changes):
    queue_messages(run, changes, [verdict_of(one) for one in changes])
    return sorted(row["message_id"].partition(".")[0] for row in load_rows(run.warehouse, ALERT_OUTBOX).to_pylist())


def test_each_change_is_one_message_and_again_is_none_more(tmp_path):
    run = a_run(tmp_path)
    told = queue(run, change(1), change(2), change(1, "worse", 3))
    assert told == ["K-00000001-new", "K-00000001-worse-20261121T090300Z", "K-00000002-new"]
    assert queue(run, change(2), change(1)) == told


def test_the_end_of_what_nobody_heard_of_is_no_news(tmp_path):
    run = a_run(tmp_path)
    assert queue(run, change(1, "resolved", 4)) == []
    assert queue(run, change(2), change(2, "resolved", 4)) == ["K-00000002-new", "K-00000002-resolved"]


def test_a_thousand_at_once_are_one_mail_that_holds_them_all(tmp_path):
    run = a_run(tmp_path)
    names = {f"source_{number}" for number in range(1000)}
    (told,) = queue(run, *(change(number) for number in range(1000)))
    deliver_alerts.run(run.config, None, now_ms=run.now_ms)
    (path,) = (tmp_path / "outbox").iterdir()
    mail = read_mail(path.read_bytes())
    assert told.startswith("D-")
    assert mail["Subject"].startswith("[DIGEST] demo: 1,000 new incidents in the window from 2026-11-21 09:00 UTC")
    assert {row["subject"] for row in csv.DictReader(io.StringIO(attached(mail, "incidents.csv")))} == names
    assert [part.get_filename() for part in mail.iter_attachments()] == ["incidents.csv"]
    assert "975 more are in the attached incidents.csv." in mail.get_body(("plain",)).get_content()
    assert len(path.read_bytes()) < 200_000


def test_who_comes_late_to_a_told_window_is_told_too_and_nobody_twice(tmp_path):
    run = a_run(tmp_path)
    first = [change(number) for number in range(20)]
    (digest,) = queue(run, *first)
    assert queue(run, *first, change(99)) == sorted([digest, "K-00000099-new"])
    assert "K-00000005-resolved" in queue(run, *first, change(5, "resolved", 2))


def test_windows_are_told_apart_and_few_changes_one_by_one(tmp_path):
    run = a_run(tmp_path, digest_above=2)
    told = queue(run, change(1), change(2), *(change(number, minute=5) for number in (3, 4, 5)))
    assert [key[:2] for key in told] == ["D-", "K-", "K-"]


def test_webhooks_get_the_same_changes_through_the_same_outbox(tmp_path):
    hooks = (Webhook(name="chat", url_variable="CHAT", form="slack"), Webhook(name="pager", url_variable="PAGER"))
    run = a_run(tmp_path, webhooks=hooks)
    queue(run, change(1))
    rows = {row["channel"]: row for row in load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()}
    assert set(rows) == {"mail", "chat", "pager"}
    assert {row["tells"] for row in rows.values()} == {"K-00000001-new"}
    assert json.loads(rows["pager"]["payload"])["incident_id"] == "K-00000001"


def test_a_webhook_added_later_hears_of_what_is_told_from_then_on(tmp_path):
    queue(a_run(tmp_path), change(1))
    run = a_run(tmp_path, webhooks=(Webhook(name="chat", url_variable="CHAT"),))
    queue(run, change(1, "resolved", 4))
    channels = [(row["channel"], row["state"]) for row in load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()]
    assert sorted(channels) == [("mail", "new"), ("mail", "resolved")]


def judged(minute, *, is_blind):
    of = {"rule": SOURCE_ARRIVAL, "subject": "log_directories", "value": float(is_blind), "limit_value": 0.05}
    reason = "nothing came" if is_blind else "all of it"
    return new_verdict(T0_MS + minute * MINUTE_MS, above=int(is_blind), reason=reason, **of)


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("notify", "age_ms", "mail_count"),
    [(None, DAY_MS, 1), (None, DAY_MS + MINUTE_MS + 1, 0), (True, 9 * DAY_MS, 1), (False, DAY_MS, 0)],
)
def test_old_news_is_told_only_when_asked_for(notify, age_ms, mail_count, tmp_path):
    run = a_run(tmp_path, notify=notify, now_ms=T0_MS + age_ms)
    raise_incidents.run(run, [judged(0, is_blind=True)])
    assert load_rows(run.warehouse, ALERT_OUTBOX).num_rows == mail_count


def test_the_end_of_what_people_heard_of_is_told_however_old_its_window_is(tmp_path):
    """Airflow paused for two days, in which it ended: who had the first mail took it for open for good."""
    run = a_run(tmp_path)
    raise_incidents.run(run, [judged(0, is_blind=True)])
    later = replace(run, now_ms=T0_MS + 2 * DAY_MS)
    raise_incidents.run(later, [judged(minute, is_blind=minute == 2) for minute in (1, 2, 3)])
    assert [(row["state"], row["silenced_by"] is None) for row in list_changes(run)] == [
        ("new", True), ("resolved", True), ("new", False), ("resolved", True),
    ]  # fmt: skip
    told = sorted(row["state"] for row in load_rows(run.warehouse, ALERT_OUTBOX).to_pylist())
    assert told == ["new", "resolved"]


def list_changes(run):
    return sorted(load_rows(run.warehouse, INCIDENTS).to_pylist(), key=lambda row: row["window_start"])


@pytest.mark.parametrize(
    ("mutes", "notify", "said"),
    [
        ("- {subject: log_*, until: 2026-11-22, reason: move}", None, "muted until 2026-11-22: move"),
        ("", False, "a run without notices"),
    ],
)
def test_what_is_quiet_is_stored_with_its_reason_and_told_by_nobody(mutes, notify, said, tmp_path):
    run = a_run(tmp_path, notify=notify)
    run.config.mail.mutes.write_text(mutes)
    report = raise_incidents.run(run, [judged(0, is_blind=True), judged(1, is_blind=False)])
    assert [row["silenced_by"] for row in load_rows(run.warehouse, INCIDENTS).to_pylist()] == [said, said]
    assert load_rows(run.warehouse, ALERT_OUTBOX).num_rows == 0
    assert said in report.notes[0]


def test_a_mute_that_ended_lets_an_open_incident_be_told(tmp_path):
    run = a_run(tmp_path)
    run.config.mail.mutes.write_text("- {subject: log_*, until: '2026-11-21T09:02:00Z'}")
    gate = run.cluster.gate.model_copy(update={"repeat": timedelta(minutes=2)})
    cluster = run.cluster.model_copy(update={"gate": gate})
    run = replace(run, config=run.config.model_copy(update={"clusters": {"demo": cluster}}))
    raise_incidents.run(run, [judged(minute, is_blind=True) for minute in range(3)])
    (row,) = load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()
    assert (row["state"], row["subject_line"].partition("]")[0]) == ("continuing", "[DATA STILL MISSING")


def test_mutes_that_cannot_be_read_mute_nothing_and_say_so(tmp_path):
    run = a_run(tmp_path)
    run.config.mail.mutes.write_text("- nonsense")
    report = raise_incidents.run(run, [judged(0, is_blind=True)])
    assert report.notes[0].startswith("nothing is muted: ")
    assert load_rows(run.warehouse, ALERT_OUTBOX).num_rows == 1


def lose_outbox(run, *, made_anew=True):
    shutil.rmtree(table_path(run.warehouse, ALERT_OUTBOX))
    if made_anew:
        ensure_tables(run.warehouse, (ALERT_OUTBOX,))


def told_states(run):
    return sorted(row["state"] for row in load_rows(run.warehouse, ALERT_OUTBOX).to_pylist())


@pytest.mark.parametrize(("is_blind", "states"), [(True, ["new"]), (False, ["new", "resolved"])])
def test_what_waited_in_a_lost_outbox_is_queued_by_the_next_window(is_blind, states, tmp_path):
    run = a_run(tmp_path)
    raise_incidents.run(run, [judged(0, is_blind=True)])
    lose_outbox(run)
    raise_incidents.run(run, [judged(1, is_blind=is_blind)])
    assert told_states(run) == states
    raise_incidents.run(run, [judged(2, is_blind=is_blind)])
    assert told_states(run) == states  # and by no later one


@pytest.mark.parametrize(("notify", "states"), [(None, ["resolved"]), (False, [])])
def test_an_end_that_waited_in_a_lost_outbox_is_queued_by_the_next_window(notify, states, tmp_path):
    run = a_run(tmp_path)
    for minute, is_blind in enumerate((True, False)):
        raise_incidents.run(run, [judged(minute, is_blind=is_blind)])
    lose_outbox(run)
    ensure_tables(run.warehouse, (ALERT_OUTBOX,))
    for minute in (2, 3):
        raise_incidents.run(replace(run, notify=notify), [judged(minute, is_blind=False)])
        assert told_states(run) == states


def test_an_end_of_long_ago_or_of_which_nobody_heard_is_not_told_after_the_loss_of_the_outbox(tmp_path):
    run = a_run(tmp_path)
    run.config.mail.mutes.write_text("- {subject: log_*, until: '2026-11-21T09:01:00Z'}")
    for minute, is_blind in enumerate((True, False)):
        raise_incidents.run(run, [judged(minute, is_blind=is_blind)])
    assert told_states(run) == []
    for minute, is_blind in ((2, True), (3, False)):
        raise_incidents.run(run, [judged(minute, is_blind=is_blind)])
    assert told_states(run) == ["new", "resolved"]
    lose_outbox(run)
    ensure_tables(run.warehouse, (ALERT_OUTBOX,))
    raise_incidents.run(replace(run, now_ms=T0_MS + 4 * DAY_MS), [judged(4, is_blind=False)])
    assert told_states(run) == []


def test_the_end_of_what_a_silence_held_back_is_told_by_no_later_window(tmp_path):
    run = a_run(tmp_path)
    raise_incidents.run(run, [judged(0, is_blind=True)])
    (row,) = load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()
    mark_failed(run.warehouse, row["message_id"], error=f"{SILENCED} until noon", given_up_at_ms=run.now_ms)
    for minute in (1, 2):
        raise_incidents.run(run, [judged(minute, is_blind=False)])
        assert told_states(run) == ["new"]


def test_an_incident_that_ended_before_the_outbox_was_lost_is_not_told_again(tmp_path):
    run = a_run(tmp_path)
    for minute, is_blind in enumerate((True, True, False)):
        raise_incidents.run(run, [judged(minute, is_blind=is_blind)])
    lose_outbox(run)
    raise_incidents.run(run, [judged(1, is_blind=True)])  # a window of before its end, judged again
    assert told_states(run) == []


@pytest.mark.parametrize(
    ("notify", "mutes"), [(False, ""), (None, "- {subject: log_*, until: 2026-11-22}")], ids=["no notices", "muted"]
)
def test_what_was_quiet_before_the_outbox_was_lost_stays_quiet(notify, mutes, tmp_path):
    run = a_run(tmp_path, notify=notify)
    run.config.mail.mutes.write_text(mutes)
    raise_incidents.run(run, [judged(0, is_blind=True)])
    lose_outbox(run)
    run.config.mail.mutes.write_text("")
    raise_incidents.run(replace(run, notify=None), [judged(1, is_blind=True)])
    assert told_states(run) == []


def test_incidents_of_a_group_that_reads_one_topic_are_its_owners(tmp_path):
    run = a_run(tmp_path)
    ensure_tables(run.warehouse, (RULE_MEASURES,))
    run.cluster.rules["assignment_skew"].topics["orders"] = RuleOverride(owner="orders-team")
    owners = []
    for group, topic in (("group billing", "orders"), ("group audit", "")):
        of = {"rule": "assignment_skew", "subject": group, "value": 3.0}
        run.replace(RULE_MEASURES, [RuleMeasure(T0_MS, **of, detail="uneven", topic=topic)], run.windows)
        verdict = new_verdict(T0_MS, limit_value=1.5, reason="uneven", **of)
        owners.append(gather_evidence(run, new_change("new", T0_MS, limit_value=1.5, **of), [verdict]).owner)
    assert owners == ["orders-team", run.cluster.owner]
