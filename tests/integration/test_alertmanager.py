"""Incidents in a real Alertmanager, and its silences. Oracles: what it says of its alerts, and whom it notifies."""

import json
import shutil
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from pipeline.alerting.alertmanager import alert_labels, find_covering, read_silences
from pipeline.config.mail import Alertmanager
from pipeline.jobs import deliver_alerts
from pipeline.storage.outbox import undelivered
from pipeline.storage.rows import load_rows
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.lab.process import PATIENCE_S, free_ports, is_listening, start_program, wait_until
from tests.unit.alerting.test_queue_messages import a_run, change, queue
from tests.unit.sources.http_servers import receiving

PROGRAM = shutil.which("prometheus-alertmanager")
NOW = datetime.now(UTC)  # Alertmanager has no other clock
NOW_MS = round(NOW.timestamp() * 1000)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Alertmanager on this machine")


class Running:
    """A server, and what it notified people of."""

    def __init__(self, url, process, notified):
        self.url, self.process, self.notified = url, process, notified

    def ask(self, what, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v2/{what}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def silence(self, **matcher):
        until = (NOW + timedelta(days=1)).isoformat()
        one = {"isRegex": False, "isEqual": True, **matcher}
        body = {"matchers": [one], "startsAt": NOW.isoformat(), "endsAt": until, "createdBy": "ops", "comment": "move"}
        return self.ask("silences", body)["silenceID"]

    def lift(self, silence):
        request = urllib.request.Request(f"{self.url}/api/v2/silence/{silence}", method="DELETE")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def subjects(self):
        return {alert["labels"]["subject"]: alert for alert in self.ask("alerts")}

    def wait_for(self, subject, status):
        def is_notified():
            alerts = [alert for _, _, body in self.notified for alert in json.loads(body)["alerts"]]
            return any(one["labels"]["subject"] == subject and one["status"] == status for one in alerts)

        wait_until(is_notified, f"notice: {subject} {status}", self.process)


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alertmanager")
    port = free_ports(1)[0]
    with receiving() as (hook, notified):
        waits = {"group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
        route = {"receiver": "r", "group_by": ["..."], **waits}
        receiver = {"name": "r", "webhook_configs": [{"url": hook, "send_resolved": True}]}
        (folder / "c.yml").write_text(yaml.safe_dump({"route": route, "receivers": [receiver]}))
        command = [
            PROGRAM, f"--config.file={folder}/c.yml", f"--storage.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
        ]  # fmt: skip  # options, several a line
        process = start_program("alertmanager", command, folder / "log")
        try:
            wait_until(lambda: is_listening(port), "open port", process)
            yield Running(f"http://127.0.0.1:{port}", process, notified)
        finally:
            process.stop()


@pytest.fixture
def run(alertmanager, tmp_path):
    own = Alertmanager(url=alertmanager.url, labels={"team": "kafka"})
    return a_run(tmp_path, now_ms=NOW_MS, alertmanagers=(own,))


def report(run, *changes):
    """Queues changes, stored as the job stores them, and delivers; what went where."""
    run.replace(INCIDENTS, changes, [run.window_at(one.window_start_ms) for one in changes])
    queue(run, *changes)
    done = deliver_alerts.run(run.config, None, now_ms=NOW_MS)
    done.check()
    return sorted((message.channel, message.incident_id) for message, _ in done.deliveries)


def test_an_incident_fires_until_it_is_resolved(alertmanager, run):
    assert report(run, change(11)) == [("alertmanager", "K-00000011"), ("mail", "K-00000011")]
    alert = alertmanager.subjects()["source_11"]
    assert alert["labels"] == {**alert_labels("demo", "source_arrival", "source_11"), "team": "kafka"}
    assert alert["startsAt"] == "2026-11-21T09:00:00.000Z"
    assert datetime.fromisoformat(alert["endsAt"]) > NOW + timedelta(days=1)
    alertmanager.wait_for("source_11", "firing")
    report(run, change(11, "resolved", minute=3))
    assert "source_11" not in alertmanager.subjects()
    alertmanager.wait_for("source_11", "resolved")
    places = {row["delivered_to"] for row in load_rows(run.warehouse, ALERT_OUTBOX).to_pylist()}
    assert "Alertmanager alertmanager" in places


def test_a_silence_holds_mail_back_and_the_outbox_says_so(alertmanager, run):
    silence = alertmanager.silence(name="subject", value="source_21")
    assert report(run, change(21), change(22)) == [
        ("alertmanager", "K-00000021"),
        ("alertmanager", "K-00000022"),
        ("mail", "K-00000022"),
    ]
    assert alertmanager.subjects()["source_21"]["status"]["state"] == "suppressed"
    (held,) = undelivered(run.warehouse)
    assert held.is_silenced
    assert held.last_error.startswith("silenced in Alertmanager until 20")
    assert held.last_error.endswith("by ops: move")
    alertmanager.lift(silence)
    assert report(run, change(21, "continuing", minute=5)) == [("alertmanager", "K-00000021"), ("mail", "K-00000021")]


MATCHERS = [
    {"name": "team", "value": "kafka"},
    {"name": "cluster", "value": "dem", "isRegex": True},
    {"name": "cluster", "value": "d(e|x)m.", "isRegex": True},
    {"name": "subject", "value": "source_(3|4)1", "isRegex": True, "isEqual": False},
    {"name": "broker", "value": "1", "isEqual": False},
    {"name": "rule", "value": "source_arrival", "isEqual": False},
    {"name": "subject", "value": "SOURCE_31", "isRegex": True},
    {"name": "subject", "value": "(?i)SOURCE_31", "isRegex": True},
]


@pytest.mark.parametrize("matcher", MATCHERS, ids=json.dumps)
def test_a_silence_covers_what_it_covers_there(alertmanager, run, matcher):
    report(run, change(31))
    silence = alertmanager.silence(**matcher)
    try:
        (ours,) = read_silences(run.config.mail.alertmanagers[0])
        found = alertmanager.subjects()["source_31"]["status"]
        labels = alert_labels("demo", "source_arrival", "source_31")
        assert find_covering([ours], [labels]) == [[ours] * (silence in found["silencedBy"])]
    finally:
        alertmanager.lift(silence)
    assert read_silences(run.config.mail.alertmanagers[0]) == ()
