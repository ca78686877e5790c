"""Windows that come late to an incident that people know. Oracle: the rows of the tables, and the mails as people get them."""

import shutil
from dataclasses import replace

import pytest

from pipeline.alerting.incident_mail import describe_broker_share, describe_source
from pipeline.alerting.incidents import IncidentPolicy, fold_verdicts
from pipeline.alerting.mutes import Mute, find_mute
from pipeline.jobs import raise_incidents
from pipeline.model.number_text import format_clock
from pipeline.model.verdict import Verdict
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.gold import VERDICTS
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.values import row_of
from tests.mail_parts import read_mail
from tests.unit.alerting.examples import MINUTE_MS, T0_MS, new_evidence, resolved_evidence
from tests.unit.alerting.test_queue_messages import a_run, judged


def windows(drawing, *, first=0):
    """Verdicts on one source, a minute a letter: `A` missing, `.` there; each counts those above in a row before it."""
    rows, count = [], 0
    for place, letter in enumerate(drawing):
        count = count + 1 if letter == "A" else 0
        rows.append(replace(judged(first + place, is_blind=letter == "A"), above_count=count))
    return rows


def incidents(run):
    rows = load_rows(run.warehouse, INCIDENTS).to_pylist()
    return sorted(rows, key=lambda row: (row["window_start"], row["incident_id"], row["state"]))


def mails(run):
    rows = load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()
    return {row["message_id"].partition(".")[0]: read_mail(row["payload"]) for row in rows}


def judge(run, rows):
    """Judges windows as the job is given them: those of the run, and those after them that have verdicts."""
    return raise_incidents.run(run, rows)


def test_a_window_before_its_start_moves_the_start_and_not_the_id(tmp_path):
    run = a_run(tmp_path)
    judge(run, windows("AAA", first=10))
    (first,) = incidents(run)
    judge(run, windows("AAAAAA", first=7))
    (moved,) = incidents(run)
    assert moved["incident_id"] == first["incident_id"]
    assert moved["since"] < first["since"] == moved["told_since"]
    assert list(mails(run)) == [f"{first['incident_id']}-new"]


def test_the_next_mail_says_once_that_the_start_moved(tmp_path):
    run = a_run(tmp_path)
    judge(run, windows("AAA", first=10))
    judge(run, windows("AAAAAA", first=7))
    judge(run, windows("A.", first=12))
    told = mails(run)
    (name,) = {row["incident_id"] for row in incidents(run)}
    text = " ".join(told[f"{name}-resolved"].get_body(("plain",)).get_content().split())
    assert f"{format_clock(T0_MS + 10 * MINUTE_MS)} was reported before late windows came" in text
    assert "was reported before" not in told[f"{name}-new"].get_body(("plain",)).get_content()


def test_its_mute_goes_on_muting(tmp_path):
    run = a_run(tmp_path)
    judge(run, windows("AAA", first=10))
    (first,) = incidents(run)
    run.config.mail.mutes.write_text(f"- {{incident: {first['incident_id']}, until: 2026-12-01}}")
    judge(run, windows("AAAAAA.", first=7))
    assert [row["state"] for row in incidents(run)] == ["new", "resolved"]
    assert len(mails(run)) == 1


def test_what_was_told_and_is_not_true_is_withdrawn_and_its_id_is_not_given_again(tmp_path):
    run = a_run(tmp_path)
    judge(run, windows("A"))
    judge(run, windows("."))
    judge(run, windows("AA"))
    first, end, again = incidents(run)
    assert (first["state"], end["state"], again["state"]) == ("new", "withdrawn", "new")
    assert first["incident_id"] == end["incident_id"] != again["incident_id"]
    ended = first["incident_id"]
    text = mails(run)[f"{ended}-withdrawn"].get_body(("plain",)).get_content()
    assert "by the windows and limits known now there was no incident" in " ".join(text.split())


def test_a_window_between_two_makes_them_one_and_says_so(tmp_path):
    run = a_run(tmp_path)
    first, between, last = windows("A"), windows(".", first=1), windows("A", first=2)
    judge(run, [*first, *between, *last])
    old, new = (row["incident_id"] for row in incidents(run) if row["state"] == "new")
    judge(run, windows("AAA"))
    rows = incidents(run)
    assert {row["incident_id"] for row in rows} == {old, new}
    assert {row["incident_id"]: row["merged_into"] for row in rows if row["state"] == "resolved"} == {old: new}
    (going_on,) = (row for row in rows if row["incident_id"] == new)
    assert going_on["since"] == next(row["since"] for row in rows if row["incident_id"] == old)
    judge(run, windows("A.", first=2))
    text = " ".join(mails(run)[f"{new}-resolved"].get_body(("plain",)).get_content().split())
    assert f"it was reported as {old}; late windows show" in text


def test_an_end_in_a_window_without_the_subject_is_told(tmp_path):
    """Broker 9 is well once and then gone; later a smaller k ends its incident, in a window that knows no such broker."""
    run = a_run(tmp_path)
    ensure_tables(run.warehouse, (RULE_MEASURES,))
    one = {"rule": "late_load", "subject": "broker 9", "limit_value": 0.2, "reason": ""}
    above = {"value": 0.5, "is_above": True, "above_count": 3, "verdict": "fail"}
    rows = [
        Verdict(window_start_ms=T0_MS + minute * MINUTE_MS, **one, **of)
        for minute, of in enumerate((above, {"value": 0.0, "verdict": "ok"}))
    ]
    judge(run, rows)
    (name,) = {row["incident_id"] for row in incidents(run)}
    rules = run.cluster.rules | {"late_load": run.cluster.rules["late_load"].model_copy(update={"k": 1})}
    cluster = run.cluster.model_copy(update={"rules": rules})
    run = replace(run, config=run.config.model_copy(update={"clusters": {"demo": cluster}}))
    judge(run, windows(".", first=2))
    assert mails(run).keys() == {f"{name}-new", f"{name}-resolved"}


def test_two_runs_of_different_windows_leave_one_mail_each(tmp_path):
    run = a_run(tmp_path)
    for rows in (windows("A", first=5), windows("AA", first=4), windows("AAA", first=3), windows("AAA", first=3)):
        judge(run, rows)
    assert len(mails(run)) == len({row["incident_id"] for row in incidents(run)}) == 1
    assert load_rows(run.warehouse, VERDICTS).num_rows == 3


def test_an_incident_of_an_older_warehouse_keeps_its_id(tmp_path):
    run = a_run(tmp_path)
    shutil.rmtree(table_path(run.warehouse, INCIDENTS))
    new = {"told_since", "moved_from", "merged_into"}
    older = replace(INCIDENTS, columns=tuple(one for one in INCIDENTS.columns if one.name not in new), schema_version=2)
    ensure_tables(run.warehouse, (older,))
    (change,) = fold_verdicts(
        windows("A", first=10), cluster="demo", policy_of=lambda _: IncidentPolicy(resolves_at=0.05, k=1)
    )
    row = {name: value for name, value in row_of(change, INCIDENTS).items() if name not in new}
    run.replace(older, [{**row, "incident_id": "K-OLDER"}], [run.window_at(change.window_start_ms)])
    run.replace(VERDICTS, windows("A", first=10), [run.window_at(change.window_start_ms)])
    judge(run, windows("AA", first=9))
    assert {row["incident_id"] for row in incidents(run)} == {"K-OLDER"}


def test_a_mute_of_a_merged_incident_holds_for_the_one_it_became():
    change = new_evidence().change
    mute = Mute(incident="K-OLD", until="2026-12-01")
    assert find_mute([mute], "demo", change, ["K-OLD"]) == mute
    assert find_mute([mute], "demo", change) is None


@pytest.mark.parametrize("describe", [describe_broker_share, describe_source])
def test_a_withdrawn_incident_claims_no_recovery(describe):
    evidence = resolved_evidence()
    change = replace(evidence.change, state="withdrawn", subject="broker 1")
    content = describe(replace(evidence, change=change))
    assert content.tone == "calm"
    assert "there was no incident" in content.headline
    assert "recovered" not in content.headline
    assert dict(content.brief.facts)["Over"].startswith("withdrawn")


def test_of_many_changes_the_first_are_noted_and_how_many_more(tmp_path):
    run = a_run(tmp_path)
    rows = [replace(one, subject=f"broker {number}") for number in range(60) for one in windows("AAA", first=10)]
    assert judge(run, rows).notes[-1] == "  and 10 more"
    assert len(incidents(run)) == 60
