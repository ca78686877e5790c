"""Alertmanager as a channel: labels, silences, order. Oracle: rows of the outbox; the real one is in `tests/integration`."""

import json
import socket
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from pipeline.alerting.alertmanager import keep_firing, render_alert
from pipeline.alerting.delivery import Delivery
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.mutes import Mute, write_mutes
from pipeline.cli import main
from pipeline.config.mail import Alertmanager, Mail, Webhook
from pipeline.config.rules import Gate
from pipeline.errors import DeliveryError
from pipeline.jobs import deliver_alerts
from pipeline.jobs.raise_incidents import queue_messages
from pipeline.model.incident import incident_of
from pipeline.model.window import DAY_MS, HOUR_MS
from pipeline.storage.outbox import empty_delivered, mark_failed, reported_changes, undelivered
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.config_files import write_configuration
from tests.unit.alerting.examples import LOGS, T0_MS, new_evidence
from tests.unit.alerting.queued_mails import NOW_MS, message_for
from tests.unit.alerting.test_queue_messages import a_run, change, queue, verdict_of
from tests.unit.sources.http_servers import running

AWAY = Alertmanager(url="http://127.0.0.1:1", timeout_s=5)


def test_an_alert_is_named_by_its_rule_and_says_where_to_look():
    evidence = new_evidence()
    own = Alertmanager(url="http://a:9093", labels={"team": "kafka", "severity": "warning"})
    content = describe_broker_share(evidence)
    message = render_alert(content, evidence.change, own, report="https://r/x.html", now_ms=T0_MS)
    (alert,) = json.loads(message.payload)
    assert alert["labels"] == {
        "alertname": "PartitionHealthBrokerShare", "cluster": evidence.cluster, "rule": "broker_share",
        "subject": "broker 1", "broker": "1", "severity": "warning", "team": "kafka",
    }  # fmt: skip  # fields of a value, several a line
    assert alert["generatorURL"] == alert["annotations"]["report"] == "https://r/x.html"
    assert "endsAt" not in alert
    assert alert["startsAt"].startswith("2026-11-21T09:0")
    ended = replace(evidence.change, state="resolved")
    over = render_alert(content, ended, own, report="/r/x.html", now_ms=T0_MS)
    (alert,) = json.loads(over.payload)
    assert alert["endsAt"] == "2026-11-21T09:00:00Z"
    assert "generatorURL" not in alert


def test_alertmanager_gets_each_change_and_no_digest(tmp_path):
    run = a_run(tmp_path, alertmanagers=(AWAY,), digest_above=2)
    ids = queue(run, *(change(number) for number in range(3)))
    assert len([one for one in ids if one.startswith("D-")]) == 1
    assert len([one for one in ids if one.startswith("K-")]) == 3


def test_the_end_of_a_muted_incident_reaches_alertmanager_alone(tmp_path):
    run = a_run(tmp_path, alertmanagers=(AWAY,))
    queue(run, change(1))
    end = change(1, "resolved", minute=3)
    never_reported = change(2, "resolved", minute=3)
    verdicts = [verdict_of(end), verdict_of(never_reported)]
    queue_messages(run, (), verdicts, ended=(end, never_reported))
    rows = load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()
    assert sorted((row["channel"], row["incident_id"], row["state"]) for row in rows) == [
        ("alertmanager", "K-00000001", "new"),
        ("alertmanager", "K-00000001", "resolved"),
        ("mail", "K-00000001", "new"),
    ]


def test_a_later_state_waits_for_an_earlier_one(tmp_path):
    with socket.socket() as bound:  # bound and not listening: refused
        bound.bind(("127.0.0.1", 0))
        own = Alertmanager(url=f"http://127.0.0.1:{bound.getsockname()[1]}")
        run = a_run(tmp_path, alertmanagers=(own,))
        queue(run, change(1))
        with pytest.raises(DeliveryError, match="ConnectError"):
            deliver_alerts.run(run.config, None, now_ms=run.now_ms).check()
        queue(run, change(1, "resolved", minute=3))
        report = deliver_alerts.run(run.config, None, now_ms=run.now_ms + 1)
    report.check()  # the end was not tried
    assert [message.channel for message, _ in report.deliveries] == ["mail"]
    left = [one for one in undelivered(run.warehouse) if one.channel == "alertmanager"]
    assert [(one.state, one.attempt_count) for one in left] == [("new", 1), ("resolved", 0)]
    said = "its silences hold nothing back: Alertmanager alertmanager: ConnectError"
    assert any(said in note for note in report.notes)


@pytest.mark.parametrize("is_refused", [False, True])
def test_alerts_leave_as_a_list_after_mail_and_one_that_is_refused_stops_no_other(tmp_path, is_refused):
    """Each commit writes the outbox anew: with two for each of thousands of alerts, it was held for an hour."""
    site = AlertSite(refused="K-00000001" if is_refused else "")
    with running(site) as url:
        run = a_run(tmp_path, alertmanagers=(Alertmanager(url=url),), digest_above=2)
        queue(run, *(change(number) for number in range(5)))
        queue(run, change(1, "resolved", minute=3))
        before = DeltaTable(str(table_path(run.warehouse, ALERT_OUTBOX))).version()
        report = deliver_alerts.run(run.config, None, now_ms=run.now_ms)
    names = [f"K-{number:08}" for number in range(5)]
    assert site.lists == [names, *([[name] for name in names] if is_refused else [["K-00000001"]])]
    assert site.states["K-00000001"] == ("new" if is_refused else "resolved")
    assert [message.channel for message, _ in report.deliveries[:2]] == ["mail", "mail"]
    assert [one.incident_id for one in undelivered(run.warehouse)] == ["K-00000001"] * 2 * is_refused  # its end waits
    if not is_refused:
        assert DeltaTable(str(table_path(run.warehouse, ALERT_OUTBOX))).version() - before == 2 * (2 + 2)


def test_an_incident_that_ends_does_not_resolve_the_next_one_of_its_subject(tmp_path):
    """An alert is its labels, and both have the same: what is told last of them is what holds."""
    site = AlertSite(refused="nothing")
    second = replace(change(1, minute=4), incident_id="K-second")
    with running(site) as url:
        run = a_run(tmp_path, alertmanagers=(Alertmanager(url=url),), digest_above=9)
        queue(run, change(1))
        queue(run, change(1, "resolved", minute=3))
        queue(run, second)
        deliver_alerts.run(run.config, None, now_ms=run.now_ms)
    assert site.lists == [["K-00000001"], ["K-00000001"], ["K-second"]]


def test_an_alert_goes_on_while_no_window_of_its_incident_is_judged(tmp_path):
    """It ended after two days, though the incident was open."""
    site = AlertSite(refused="nothing")
    with running(site) as url:
        run = a_run(tmp_path, alertmanagers=(Alertmanager(url=url),))
        ensure_tables(run.warehouse, (INCIDENTS,))
        for told in ([change(1), change(2)], [change(2, "resolved", minute=3)]):
            queue(run, *told)
            run.replace(INCIDENTS, told, [run.window_at(told[0].window_start_ms)])
        for hours in (0, 23, 25, 26, 50):
            deliver_alerts.run(run.config, None, now_ms=run.now_ms + hours * HOUR_MS)
    first = [["K-00000001", "K-00000002"], ["K-00000002"]]
    assert site.lists == [*first, ["K-00000001"], ["K-00000001"]]  # after 25 hours, and after 50
    empty_delivered(run.config.warehouse, run.now_ms + 32 * HOUR_MS)  # as a month later
    (kept,) = (row for row in load_rows(run.config.warehouse, ALERT_OUTBOX).to_pylist() if row["payload"])
    assert kept["incident_id"] == "K-00000001"
    write_mutes(run.config.mail.mutes, (Mute(until="2036-01-01", incident="K-00000001"),))
    assert keep_firing(run.config, now_ms=run.now_ms + 80 * HOUR_MS) == []
    run.config.mail.mutes.write_text("[")
    gone = run.config.model_copy(update={"clusters": {"other": run.cluster}})
    assert keep_firing(gone, now_ms=run.now_ms + 80 * HOUR_MS) == []
    assert len(site.lists) == 4  # neither while it is muted nor for a cluster that the configuration has no more
    away = run.config.model_copy(update={"mail": Mail(alertmanagers=(AWAY,), mutes=run.config.mail.mutes)})
    (note,) = keep_firing(away, now_ms=run.now_ms + 80 * HOUR_MS)
    assert note.startswith("alerts of open incidents were not posted again, 1 in all: Alertmanager alertmanager: ")


class AlertSite:
    """Alertmanager, as far as alerts go; it refuses lists that hold a certain one."""

    def __init__(self, refused):
        self.refused, self.lists, self.states = refused, [], {}

    def __call__(self, request, body):
        if request.command == "GET":
            return 200, [b"[]"]
        told = [one["annotations"] for one in json.loads(body)]
        self.lists.append([one["incident_id"] for one in told])
        self.states |= {one["incident_id"]: one["state"] for one in told}
        return 400 if self.refused in self.lists[-1] else 200, []


def test_a_silenced_message_is_neither_reported_nor_taken_up_with_the_others(tmp_path, capsys):
    run = a_run(tmp_path)
    queue(run, change(1), change(2))
    silenced, given_up = undelivered(run.warehouse)
    for message, error in ((silenced, "silenced in Alertmanager until x"), (given_up, "given up after 9 attempts")):
        mark_failed(run.warehouse, message.message_id, error=error, given_up_at_ms=run.now_ms)
    assert reported_changes(run.warehouse, "demo")["mail"] == {"K-00000002-new"}
    file = write_configuration(tmp_path, {"demo": LOGS})
    assert main(["outbox", "--retry", "all", "--json", "--config", str(file)]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == ["silenced", "waits"]


def test_a_message_that_breaks_our_code_stops_no_other(tmp_path, monkeypatch):
    run = a_run(tmp_path)
    queue(run, change(1), change(2))
    tried = []

    def break_once(*arguments):
        tried.append(arguments)
        if len(tried) == 1:
            raise ValueError("year 10000 is out of range")
        return Delivery(delivered_to="there")

    monkeypatch.setattr(deliver_alerts, "_deliver", break_once)
    report = deliver_alerts.run(run.config, None, now_ms=run.now_ms)
    assert len(report.deliveries) == 1
    assert "ValueError: year 10000 is out of range" in report.failure


def test_the_incidents_of_a_message_are_read_from_the_keys_of_its_changes():
    """Also where an id has dashes of its own."""
    states = ("new", "worse", "continuing", "resolved")
    changes = [replace(change(1, state), incident_id="K-a-new-b") for state in states]
    assert {incident_of(one.key) for one in changes} == {"K-a-new-b"}


def test_channels_have_names_of_their_own():
    hook = Webhook(name="alertmanager", url_variable="X")
    with pytest.raises(ValueError, match="channel alertmanager: that name is taken"):
        Mail(webhooks=(hook,), alertmanagers=(AWAY,))


def test_an_alert_fires_until_the_next_news_of_its_incident(config, monkeypatch):
    """Those of a cluster that tells once a week ended after two days, though the incident went on."""
    kept_ms = []
    monkeypatch.setattr(
        deliver_alerts.alertmanager, "post_alert", lambda *_, keep_ms, **__: kept_ms.append(keep_ms) or ""
    )
    weekly = config.clusters["demo"].model_copy(update={"gate": Gate(repeat=timedelta(days=7))})
    message = replace(message_for(new_evidence(), ["ops@x.org"]), channel="alertmanager")
    mail = Mail(alertmanagers=(Alertmanager(url="http://a"),))
    for cluster in (config.clusters["demo"], weekly):
        own = config.model_copy(update={"mail": mail, "clusters": {"demo": cluster}})
        deliver_alerts._deliver(own, None, [message], NOW_MS)
    assert kept_ms == [2 * DAY_MS, 7 * DAY_MS + 3_600_000]
