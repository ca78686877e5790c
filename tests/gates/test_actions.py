"""Actions of the gates' Checkpoints: incidents are queued, and what the configuration adds is done.

Oracle: what was called, and what a web server on this machine got.
"""

import dataclasses
import logging
import threading
import time
from typing import Literal

import pytest
from great_expectations.checkpoint import ValidationAction

from expectations import configured_actions
from expectations.gates import check_health
from pipeline.config.rules import Gate
from pipeline.errors import ConfigError, StorageError
from pipeline.verdicts.broker_share import judge_broker_share
from tests.gates.rows import MINUTE_0_MS, gate_run
from tests.gates.test_health_gate import EVEN, HOT, LIMITS, MINUTE_MS, shares
from tests.unit.sources.http_servers import Answer, answering, receiving, running, serving


def judge(windows):
    return judge_broker_share(shares(windows), Gate(**LIMITS), window_ms=MINUTE_MS, judged_from_ms=MINUTE_0_MS)


def with_actions(run, *actions):
    config = run.config.model_copy(update={"checkpoint_actions": actions})
    return dataclasses.replace(run, config=config)


@pytest.mark.parametrize("windows", [[EVEN] * 3, [HOT] * 3])
def test_the_health_gate_queues_incidents_once_whatever_it_found_and_before_its_pages(tmp_path, windows):
    queued, run = [], gate_run(tmp_path)
    pages = run.config.data_docs_index("lab")
    report = check_health(run, judge(windows), lambda: queued.append(pages.exists()))
    assert (queued, pages.exists()) == ([False], True)
    assert report.success == (windows[0] == EVEN)


def test_messages_that_cannot_be_queued_fail_the_run(tmp_path):
    def queue():
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="the disk is full"):
        check_health(gate_run(tmp_path), judge([HOT] * 3), queue)


@pytest.mark.parametrize(("windows", "count"), [([EVEN] * 3, 0), ([HOT] * 3, 1)])
def test_a_configured_action_is_done_after_ours(tmp_path, windows, count):
    before = []
    with receiving() as (url, posted):
        slack = {"type": "slack", "name": "tell us", "slack_webhook": url, "notify_on": "failure"}
        check_health(with_actions(gate_run(tmp_path), slack), judge(windows), lambda: before.append(len(posted)))
    assert (before, len(posted)) == ([0], count)
    assert all(b"health" in body for _, _, body in posted)


def test_an_action_that_great_expectations_has_not_is_named(tmp_path):
    run = with_actions(gate_run(tmp_path), {"type": "carrier_pigeon", "name": "tell us"})
    with pytest.raises(ConfigError, match=r"checkpoint_actions.*carrier_pigeon"):
        check_health(run, ())


class Note(ValidationAction):
    """An action of somebody's own, which finds nobody there."""

    type: Literal["note"] = "note"
    fails: bool = False

    def run(self, checkpoint_result, action_context=None):
        if self.fails:
            raise ValueError("too many values to unpack")
        NOTES.append(checkpoint_result.success)


NOTES = []


def test_an_action_that_fails_changes_no_verdict_and_stops_no_other(tmp_path, caplog):
    NOTES.clear()
    actions = ({"type": "note", "name": "broken", "fails": True}, {"type": "note", "name": "sound"})
    report = check_health(with_actions(gate_run(tmp_path), *actions), judge([HOT] * 3))
    assert not report.success
    assert NOTES == [False]
    (told,) = [message for message in caplog.messages if "checkpoint_actions" in message]
    assert (
        told == "action broken of checkpoint_actions failed, the verdict stands: ValueError: too many values to unpack"
    )


def test_the_type_that_great_expectations_cannot_send_by_is_refused(tmp_path):
    run = with_actions(gate_run(tmp_path), {"type": "api", "name": "tell us", "url": "http://127.0.0.1:1/"})
    with pytest.raises(ConfigError, match=r"cannot send by `api`; known: slack, email"):
        check_health(run, ())


@pytest.mark.parametrize(
    ("kind", "key"), [("slack", "slack_webhook"), ("microsoft", "teams_webhook")], ids=["Slack", "Teams"]
)
def test_no_log_has_the_address_of_an_action_or_a_servers_words_without_end(tmp_path, caplog, monkeypatch, kind, key):
    secret, words = "/services/T0SECRET/B0SECRET", b"no hook /services/T0SECRET/B0SECRET \x1b[31m" + b"x" * 5_000
    with running(lambda *_: (404, [words])) as url, caplog.at_level(logging.DEBUG, "great_expectations"):
        monkeypatch.setenv("CHAT_HOOK", url.rstrip("/") + secret)
        check_health(with_actions(gate_run(tmp_path), {"type": kind, "name": "chat", key: "${CHAT_HOOK}"}), ())
    (told,) = [message for message in caplog.messages if "404" in message]
    assert "SECRET" not in caplog.text
    assert "\x1b" not in told
    assert len(told) <= 300


def test_an_action_follows_no_redirect_and_names_it(tmp_path, caplog):
    elsewhere = "http://elsewhere.invalid/path"
    with serving({"/hook": Answer(b"", 302, {"Location": elsewhere})}) as site:
        slack = {"type": "slack", "name": "chat", "slack_webhook": f"{site.url}/hook"}
        check_health(with_actions(gate_run(tmp_path), slack), judge([HOT] * 3))
        assert [path for path, _ in site.asked] == ["/hook"]
    (told,) = [message for message in caplog.messages if "checkpoint_actions" in message]
    assert f"its server redirects to {elsewhere}" in told


def test_a_server_that_does_not_answer_holds_no_gate(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(configured_actions, "_MOST_S", 0.5)
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", forever=(b"x",)) as url:
        slack = {"type": "slack", "name": "chat", "slack_webhook": url}
        check_health(with_actions(gate_run(tmp_path), slack, {"type": "note", "name": "sound"}), judge([HOT] * 3))
        until_s = time.monotonic() + 20
        while any(one.name.endswith("(act)") for one in threading.enumerate()) and time.monotonic() < until_s:
            time.sleep(0.05)
        assert time.monotonic() < until_s  # nobody reads on
    assert "action chat of checkpoint_actions failed, the verdict stands: it took longer than 0.5 s" in caplog.messages
