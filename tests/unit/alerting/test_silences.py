"""Silences of Alertmanager: what they cover, and that none holds a mail back by mistake. The real one is in `tests/integration`."""

import json
from dataclasses import replace

import httpx
import pytest

from pipeline.alerting.alertmanager import (
    Matcher,
    Silence,
    _match,
    alert_labels,
    find_covering,
    post_alert,
    read_silences,
)
from pipeline.config.mail import Alertmanager
from pipeline.errors import DeliveryError, UnusableServerError
from pipeline.jobs import deliver_alerts
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.incidents import INCIDENTS
from tests.memory import tracing_memory
from tests.unit.alerting import smtp_servers
from tests.unit.alerting.examples import T0_MS
from tests.unit.alerting.queued_mails import NOW_MS, queue_other, send, with_mail
from tests.unit.alerting.smtp_servers import Mailbox
from tests.unit.alerting.test_alertmanager import AWAY
from tests.unit.sources.http_servers import Answer, running, serving

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


def test_a_silence_without_matchers_covers_nothing():
    assert find_covering([silence_of()], [LABELS]) == [[]]


def answer_without_end(request, _):
    """With the status in the path, and a JSON list or words."""
    status = int(request.path.split("/")[1])
    return status, [(b"[" if status == 200 else b"no") * 1_000_000] * 200


@pytest.mark.parametrize(
    ("status", "reason"), [(200, "its answer has more than 16,777,216 bytes"), (500, "answered 500: nonono")]
)
def test_an_endless_answer_is_read_to_a_bound(status, reason):
    with running(answer_without_end) as url, tracing_memory() as peak_bytes:
        with pytest.raises(DeliveryError, match=reason):
            read_silences(Alertmanager(url=f"{url}/{status}"))
        assert peak_bytes() < 60_000_000


def answer_with(text, monkeypatch):
    """Alertmanager answers all questions with a text."""
    answer = (httpx.Response(200), text.encode())
    monkeypatch.setattr("pipeline.http_request.exchange_once", lambda *_, **__: answer)


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


def send_past_alertmanager(config, **alertmanager):
    """The mails that leave, and what is noted, where an Alertmanager is configured that is away."""
    away = Alertmanager(url="http://away:1", **alertmanager)
    with smtp_servers.serving(mailbox := Mailbox()) as smtp:
        report = send(with_mail(config, alertmanagers=(away,)), smtp)
    return mailbox.kept, "\n".join(report.notes)


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), UnicodeError("x"), RuntimeError("x")], ids=repr)
def test_whatever_goes_wrong_with_an_alertmanager_mails_leave(config, error, monkeypatch):
    def fail(_):
        raise error

    ensure_tables(config.warehouse, (INCIDENTS,))
    monkeypatch.setattr(deliver_alerts.alertmanager, "read_silences", fail)
    kept, notes = send_past_alertmanager(config)
    assert len(kept) == 2
    assert f"hold nothing back: alertmanager: {type(error).__name__}" in notes


@pytest.mark.parametrize("token", ["tök", "a\nb"])
def test_a_token_that_cannot_be_sent_stops_no_mail(config, token, monkeypatch):
    ensure_tables(config.warehouse, (INCIDENTS,))
    monkeypatch.setenv("TOKEN", token)
    kept, notes = send_past_alertmanager(config, bearer_token_variable="TOKEN")
    assert len(kept) == 2
    assert "environment variable TOKEN holds no token" in notes


def test_incidents_that_cannot_be_read_hold_back_no_mail(config):
    kept, notes = send_past_alertmanager(config)
    assert len(kept) == 2
    assert "silences hold nothing back" in notes


def silence_cluster(cluster, until_ms, known, monkeypatch):
    """Silences a cluster's incidents, of which the labels of those `known` are read."""
    silence = replace(silence_of(match("cluster", cluster, is_regex=False)), until_ms=until_ms)
    monkeypatch.setattr(deliver_alerts, "_load_labels", lambda *_: known)
    monkeypatch.setattr(deliver_alerts.alertmanager, "read_silences", lambda _: (silence,))


@pytest.mark.parametrize(("ends_after_ms", "sent_count"), [(-1, 2), (0, 2), (1, 0)])
def test_a_silence_that_ended_holds_nothing_back_whatever_its_state(config, ends_after_ms, sent_count, monkeypatch):
    known = {("demo", "K-JKT62CWA"): {"cluster": "demo"}}
    silence_cluster("demo", NOW_MS + ends_after_ms, known, monkeypatch)
    kept, _ = send_past_alertmanager(config)
    assert len(kept) == sent_count


def test_a_mail_leaves_if_one_of_its_incidents_is_not_silenced(config, monkeypatch):
    queue_other(config, tells="K-first-new,K-second-new")
    known = {("other", "K-first"): {"cluster": "other"}, ("other", "K-second"): {"cluster": "another"}}
    silence_cluster("other", NOW_MS + 1, known, monkeypatch)
    kept, _ = send_past_alertmanager(config)
    assert len(kept) == 3
