"""Actions of the gates' Checkpoints: incidents are queued, and what the configuration adds is done.

Oracle: what was called, and what a web server on this machine got.
"""

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Literal

import pytest
from great_expectations.checkpoint import ValidationAction

from expectations.measures_gate import check_health
from pipeline.config.rules import Gate
from pipeline.errors import ConfigError, StorageError
from pipeline.verdicts.broker_share import judge_broker_share
from tests.gates.rows import MINUTE_0_MS, gate_run
from tests.gates.test_health_gate import EVEN, HOT, LIMITS, MINUTE_MS, shares


def judge(windows):
    return judge_broker_share(shares(windows), Gate(**LIMITS), window_ms=MINUTE_MS, judged_from_ms=MINUTE_0_MS)


def with_actions(run, *actions):
    config = run.config.model_copy(update={"checkpoint_actions": actions})
    return dataclasses.replace(run, config=config)


@pytest.fixture
def web():
    """A web server: its address, and what was posted to it."""
    posted = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", posted
    server.shutdown()
    thread.join()
    server.server_close()


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
def test_a_configured_action_is_done_after_ours(tmp_path, web, windows, count):
    url, posted = web
    before = []
    slack = {"type": "slack", "name": "tell us", "slack_webhook": url, "notify_on": "failure"}
    check_health(with_actions(gate_run(tmp_path), slack), judge(windows), lambda: before.append(len(posted)))
    assert (before, len(posted)) == ([0], count)
    assert all("health" in json.dumps(message) for message in posted)


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
