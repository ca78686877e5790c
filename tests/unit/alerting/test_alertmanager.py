"""Alertmanager as a channel: labels, silences, order. Oracle: rows of the outbox; the real one is in `tests/integration`."""

import contextlib
import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from deltalake import DeltaTable

from pipeline.alerting.alertmanager import (
    Matcher,
    Silence,
    _match,
    alert_labels,
    find_covering,
    keep_firing,
    post_alert,
    read_silences,
    render_alert,
)
from pipeline.alerting.delivery import Delivery
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.mutes import Mute, write_mutes
from pipeline.cli import main
from pipeline.config.mail import Alertmanager, Mail, Webhook
from pipeline.errors import DeliveryError, UnusableServerError
from pipeline.jobs import deliver_alerts
from pipeline.jobs.raise_incidents import queue_messages
from pipeline.model.incident import incident_of
from pipeline.model.window import HOUR_MS
from pipeline.storage.outbox import mark_failed, reported_changes, undelivered
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.config_files import write_configuration
from tests.memory import tracing_memory
from tests.unit.alerting.examples import LOGS, T0_MS, new_evidence
from tests.unit.alerting.test_queue_messages import a_run, change, queue, verdict_of
from tests.unit.sources.http_servers import Answer, serving

AWAY = Alertmanager(url="http://127.0.0.1:1", timeout_s=5)
LABELS = alert_labels("demo", "broker_share", "broker 1")


def match(name, value, is_regex, is_equal=True):
    return Matcher(name=name, value=value, is_regex=is_regex, is_equal=is_equal)


def silence_of(*matchers, **labels):
    return Silence(until_ms=T0_MS, created_by="ops", comment="x", matchers=matchers, further_labels=labels)


@pytest.mark.parametrize(
    ("matcher", "holds"),
    [
        (("cluster", "demo", False, True), True),
        (("cluster", "dem", False, True), False),
        (("cluster", "dem", True, True), False),  # anchored
        (("cluster", "d.*", True, True), True),
        (("cluster", "d.*", True, False), False),
        (("cluster", "prod", False, False), True),
        (("topic", "", False, True), True),  # a label that is missing is empty
        (("topic", ".+", True, True), False),
        (("cluster", "(", True, False), False),  # no expression: holds nothing back
        (("cluster", "\ud800", True, False), False),
        (("cluster", "a{99999999999}", True, True), False),
        (("cluster", "demo" + "|x" * 5_000, True, True), False),  # RE2 would read millions for minutes
        (("alertname", "((.|.)*)*x", True, True), False),  # in linear time, as Alertmanager's
    ],
)
def test_a_matcher_holds_as_alertmanagers_does(matcher, holds):
    one = match(*matcher)
    assert one.hold([LABELS]) == [holds]
    silence = silence_of(one, team="a")
    assert find_covering([silence], [LABELS, LABELS]) == [[silence] * holds] * 2


def test_an_expression_is_read_once_for_all_alerts_and_only_for_so_long(monkeypatch):
    """A thousand of these take minutes to read (RE2 needs about a tenth of a second for each)."""
    silence = silence_of(*(match("cluster", f"((a{{1,100}}){{1,8}}|{number})", is_regex=True) for number in range(3)))
    _match.cache_clear()
    labels = [{**LABELS, "cluster": "aaa"}] * 1_000
    assert find_covering([silence] * 50, labels) == [[silence] * 50] * 1_000
    assert _match.cache_info().misses == 3
    monkeypatch.setattr("pipeline.alerting.alertmanager._MATCHING_S", -1)
    with pytest.raises(DeliveryError, match="takes longer than -1 s"):
        find_covering([silence], labels)


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
    site = AlertSite(refused="K-00000002" if is_refused else "")
    with running(site) as url:
        run = a_run(tmp_path, alertmanagers=(Alertmanager(url=url),), digest_above=2)
        queue(run, *(change(number) for number in range(5)))
        queue(run, change(1, "resolved", minute=3))
        before = DeltaTable(str(table_path(run.warehouse, ALERT_OUTBOX))).version()
        report = deliver_alerts.run(run.config, None, now_ms=run.now_ms)
    names = [f"K-{number:08}" for number in range(5)]
    lists = [names, *([[name] for name in names] if is_refused else []), ["K-00000001"]]
    assert site.lists == lists
    assert site.states["K-00000001"] == "resolved"
    assert [message.channel for message, _ in report.deliveries[:2]] == ["mail", "mail"]
    assert [one.incident_id for one in undelivered(run.warehouse)] == (["K-00000002"] if is_refused else [])
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

    def __call__(self, *arguments):
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"[]")

            def do_POST(self):
                told = [one["annotations"] for one in json.loads(self.rfile.read(int(self.headers["Content-Length"])))]
                site.lists.append([one["incident_id"] for one in told])
                site.states |= {one["incident_id"]: one["state"] for one in told}
                self.send_response(400 if site.refused in site.lists[-1] else 200)
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler(*arguments)


@contextmanager
def running(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


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


class Server(BaseHTTPRequestHandler):
    """Answers with the status in the path, and a JSON list or words without end."""

    def do_GET(self):
        status = int(self.path.split("/")[1])
        self.send_response(status)
        self.end_headers()
        with contextlib.suppress(OSError):  # the client has read enough
            for _ in range(200):
                self.wfile.write((b"[" if status == 200 else b"no") * 1_000_000)

    def log_message(self, *_args):
        pass


@pytest.mark.parametrize(
    ("status", "reason"), [(200, "its answer has more than 16,777,216 bytes"), (500, "answered 500: nonono")]
)
def test_an_endless_answer_is_read_to_a_bound(status, reason):
    with running(Server) as url, tracing_memory() as peak_bytes:
        with pytest.raises(DeliveryError, match=reason):
            read_silences(Alertmanager(url=f"{url}/{status}"))
        assert peak_bytes() < 60_000_000


def test_a_silence_without_matchers_covers_nothing():
    assert find_covering([silence_of()], [LABELS]) == [[]]


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


def answer_with(text, monkeypatch):
    """Alertmanager answers all questions with a text."""
    answer = (httpx.Response(200), text.encode())
    monkeypatch.setattr("pipeline.alerting.http_request.exchange_once", lambda *_, **__: answer)


def test_a_silence_until_the_end_of_the_calendar_can_be_described(monkeypatch):
    """Its last instant is rounded into the year 10000."""
    answer_with(json.dumps([SILENCE | {"endsAt": "9999-12-31T23:59:59.9999Z"}]), monkeypatch)
    assert read_silences(AWAY)[0].describe().startswith("silenced in Alertmanager until 9999-12-31T23:59:59.99")


MATCHER = {"name": "cluster", "value": "demo", "isRegex": True}
SILENCE = {"status": {"state": "active"}, "endsAt": "2026-11-21T09:00:00Z", "createdBy": "x", "comment": "x"}
SILENCE |= {"matchers": [MATCHER]}
NO_LISTS = [
    "[" * 100_000,
    json.dumps([SILENCE | {"matchers": [MATCHER | {"name": {}}]}]),
    json.dumps([SILENCE | {"matchers": [MATCHER | {"value": 1}]}]),
    json.dumps([SILENCE | {"matchers": "x"}]),
    json.dumps([SILENCE | {"endsAt": 1}]),
    json.dumps([SILENCE | {"endsAt": "9999-12-31T23:59:59-23:00"}]),
    json.dumps(["x"]),
    "1",
    json.dumps([SILENCE | {"matchers": [MATCHER | {"value": f"(\\pL?){{{n}}}"} for n in range(1001)]}]),
]


@pytest.mark.parametrize("answer", NO_LISTS, ids=range(len(NO_LISTS)))
def test_what_is_no_list_of_silences_is_an_error_of_that_server(answer, monkeypatch):
    """Mails and webhooks go on."""
    answer_with(answer, monkeypatch)
    with pytest.raises(DeliveryError, match="Alertmanager alertmanager"):
        read_silences(AWAY)


@pytest.mark.parametrize("address", ["mailto:a", "data:,x", "http://xn--a/"])
@pytest.mark.parametrize("ask", [read_silences, lambda server: post_alert(b"[{}]", server, now_ms=T0_MS, keep_ms=9)])
def test_a_redirect_to_no_address_is_an_error_of_that_server(ask, address):
    found = Answer(status=302, headers={"Location": address})
    with (
        serving({"/api/v2/silences": found, "/api/v2/alerts": found}) as site,
        pytest.raises(UnusableServerError, match="Alertmanager alertmanager"),
    ):
        ask(Alertmanager(url=site.url, timeout_s=5))


def test_the_incidents_of_a_message_are_read_from_the_keys_of_its_changes():
    """Also where an id has dashes of its own."""
    states = ("new", "worse", "continuing", "resolved")
    changes = [replace(change(1, state), incident_id="K-a-new-b") for state in states]
    assert {incident_of(one.key) for one in changes} == {"K-a-new-b"}


def test_channels_have_names_of_their_own():
    hook = Webhook(name="alertmanager", url_variable="X")
    with pytest.raises(ValueError, match="channel alertmanager: that name is taken"):
        Mail(webhooks=(hook,), alertmanagers=(AWAY,))
