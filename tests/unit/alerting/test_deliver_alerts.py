"""The outbox handed over. Oracle: what real SMTP servers got, and the rows of `gold.alert_outbox` afterwards."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from itertools import count

import pytest

from pipeline.alerting.alertmanager import Matcher, Silence
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import render_message
from pipeline.alerting.webhook import render_webhook
from pipeline.cli import main
from pipeline.config.mail import Alertmanager, Mail, Smtp, Webhook
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.rules import Gate
from pipeline.errors import DeliveryError, StorageError
from pipeline.jobs import deliver_alerts, maintain
from pipeline.model.window import DAY_MS, instant_of, milliseconds_of
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.storage.frames import rows_of
from pipeline.storage.outbox import delivering, mark_delivered, mark_retry, pending, reported_changes, undelivered
from pipeline.storage.rows import load_rows, merge_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.values import row_of
from tests.config_files import write_configuration
from tests.unit.alerting.examples import LOGS, T0_MS, new_evidence, resolved_evidence
from tests.unit.alerting.smtp_servers import Greylist, Mailbox, Picky, free_port, serving
from tests.unit.alerting.test_webhook import receiving

NOW_MS = T0_MS + 3_600_000


def message_for(evidence, recipients):
    return render_message(describe_broker_share(evidence), sender="health@x.org", recipients=recipients, now_ms=T0_MS)


@pytest.fixture
def config(tmp_path):
    """A warehouse whose outbox holds a resolved and a new message, queued in the wrong order."""
    config = PipelineConfig(
        warehouse=tmp_path / "warehouse",
        outbox=tmp_path / "outbox",
        clusters={"demo": {"sources": [LogDirectories(kind="log_directories", paths=(tmp_path,))]}},
    )
    ensure_tables(config.warehouse, (ALERT_OUTBOX,))
    queue(config, message_for(resolved_evidence(), ["ops@x.org"]), message_for(new_evidence(), ["ops@x.org"]))
    return config


def queue(config, *messages):
    rows = [row_of(message, ALERT_OUTBOX) for message in messages]
    merge_rows(rows_of(ALERT_OUTBOX, rows, run_id="r1"), config.warehouse, ALERT_OUTBOX, insert_only=True)


def queue_post(config, name="pager"):
    """Queues a message for a webhook, and returns it."""
    hook = Webhook(name=name, url_variable="PAGER_URL")
    queue(config, render_webhook(describe_broker_share(new_evidence(cluster="third")), hook, now_ms=T0_MS))
    return hook


def stored(config):
    rows = load_rows(config.warehouse, ALERT_OUTBOX).to_pylist()
    return {row["state"]: row for row in rows}


def send(config, smtp, now_ms=NOW_MS):
    report = deliver_alerts.run(config, smtp, now_ms=now_ms)
    report.check()
    return report


def send_past_alertmanager(config, **alertmanager):
    """The mails that leave, and what is noted, where an Alertmanager is configured that is away."""
    mail = Mail(alertmanagers=(Alertmanager(url="http://away:1", **alertmanager),))
    with serving(mailbox := Mailbox()) as smtp:
        report = send(config.model_copy(update={"mail": mail}), smtp)
    return mailbox.kept, "\n".join(report.notes)


def message_ids(mailbox):
    return [message_from_bytes(kept, policy=default)["Message-ID"] for kept in mailbox.kept]


def test_messages_go_out_by_window_are_marked_and_not_sent_again(config):
    with serving(mailbox := Mailbox()) as smtp:
        report = send(config, smtp)
        again = send(config, smtp)

    assert [message.subject_line.partition("]")[0] for message, _ in report.deliveries] == ["[FAIL", "[RESOLVED"]
    assert message_ids(mailbox) == [f"<{message.message_id}>" for message, _ in report.deliveries]
    assert again.deliveries == ()
    assert pending(config.warehouse) == []
    row = stored(config)["new"]
    assert (row["delivered_to"], row["delivered_at"], row["attempt_count"]) == (
        f"smtp://127.0.0.1:{smtp.port}",
        instant_of(NOW_MS),
        1,
    )


def test_without_a_server_every_message_is_a_file(config):
    report = send(config, None)

    files = sorted(config.outbox.iterdir())
    assert [place for _, place in report.deliveries] == [str(path) for path in files]
    assert files[0].read_bytes() == stored(config)["new"]["payload"]


def test_mails_that_went_to_a_server_become_no_files_while_none_is_known(config):
    """Airflow has no connection for whoever asks while its API server is busy: mails became files that nobody reads."""
    with serving(mailbox := Mailbox()) as smtp:
        send(config, smtp)
        queue(config, replace(message_for(new_evidence(cluster="other"), ["ops@x.org"]), message_id="later@x"))
        report = deliver_alerts.run(config, None, now_ms=NOW_MS + 1)
        assert "no mail server is known" in report.failure
        mail = EmailMessage(policy=SMTP)
        mail["From"] = mail["To"] = "platform@x.org"
        mail["Subject"] = "task failed"
        said, is_sent = deliver_alerts.deliver_or_queue(config, None, mail, "failure@x", now_ms=NOW_MS + 1)
        assert (said.startswith("queued, as no mail server is known"), is_sent) == (True, False)
        assert not list(config.outbox.glob("*.eml"))
        waiting = {(one.message_id, one.attempt_count) for one in pending(config.warehouse)}
        assert waiting == {("later@x", 0), ("failure@x", 0)}
        send(config, smtp, now_ms=NOW_MS + 2)
    assert (len(mailbox.kept), pending(config.warehouse)) == (4, [])
    queue(config, replace(message_for(new_evidence(cluster="third"), ["ops@x.org"]), message_id="moved@x"))
    send(config, None, now_ms=NOW_MS + 31 * DAY_MS)  # somebody has moved to files
    assert len(list(config.outbox.glob("*.eml"))) == 1


def test_who_moves_to_files_on_purpose_says_so(config):
    """Nothing was written for 30 days."""
    with serving(Mailbox()) as smtp:
        send(config, smtp)
    queue(config, replace(message_for(new_evidence(cluster="other"), ["ops@x.org"]), message_id="moved@x"))
    on_purpose = config.model_copy(update={"mail": config.mail.model_copy(update={"to_files": True})})
    report = deliver_alerts.run(on_purpose, None, now_ms=NOW_MS + 1)
    assert (len(list(config.outbox.glob("*.eml"))), report.failure, pending(config.warehouse)) == (1, None, [])


def test_what_was_delivered_a_month_ago_is_emptied_and_still_reported(config):
    """The table kept each mail for good, and each attempt at a later one wrote all of them anew."""
    with serving(Mailbox()) as smtp:
        send(config, smtp)
    queue(config, replace(message_for(new_evidence(cluster="other"), ["ops@x.org"]), message_id="waits@x"))
    told = reported_changes(config.warehouse, "demo")
    maintain.run(config, now_ms=NOW_MS + 30 * DAY_MS)
    assert all(row["payload"] for row in load_rows(config.warehouse, ALERT_OUTBOX).to_pylist())
    notes = maintain.run(config, now_ms=NOW_MS + 32 * DAY_MS).notes
    assert "gold.alert_outbox: 2 messages emptied, delivered 31 days ago" in notes
    rows = load_rows(config.warehouse, ALERT_OUTBOX).to_pylist()
    assert {row["message_id"] for row in rows if row["payload"]} == {"waits@x"}
    assert reported_changes(config.warehouse, "demo") == told


def test_a_webhook_that_became_an_alertmanager_stops_no_other_message(config):
    ensure_tables(config.warehouse)
    queue_post(config, "ops")
    away = Alertmanager(name="ops", url="http://127.0.0.1:1", timeout_s=5)
    moved = config.model_copy(update={"mail": Mail(alertmanagers=(away,))})
    report = deliver_alerts.run(moved, None, now_ms=NOW_MS)
    assert len(report.deliveries) == 2
    (left,) = pending(config.warehouse)
    assert (left.channel, left.attempt_count) == ("ops", 1)


def test_an_alert_fires_until_the_next_news_of_its_incident(config, monkeypatch):
    """Those of a cluster that tells once a week ended after two days, though the incident went on."""
    kept_ms = []
    monkeypatch.setattr(deliver_alerts, "post_alert", lambda *_, keep_ms, **__: kept_ms.append(keep_ms) or "")
    weekly = config.clusters["demo"].model_copy(update={"gate": Gate(repeat=timedelta(days=7))})
    message = replace(message_for(new_evidence(), ["ops@x.org"]), channel="alertmanager")
    mail = Mail(alertmanagers=(Alertmanager(url="http://a"),))
    for cluster in (config.clusters["demo"], weekly):
        own = config.model_copy(update={"mail": mail, "clusters": {"demo": cluster}})
        deliver_alerts._deliver(own, None, [message], NOW_MS)
    assert kept_ms == [2 * DAY_MS, 7 * DAY_MS + 3_600_000]


def test_the_report_about_its_window_joins_a_mail_unless_it_is_too_large(config):
    """Of the two mails the window of the first has a small report, that of the other one that servers refuse."""
    pages = {"new": b"<!doctype html>", "resolved": b"x" * 2_000_001}
    for state, page in pages.items():
        path = config.report_path("demo", milliseconds_of(stored(config)[state]["window_start"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(page)
    send(config, None)
    new, resolved = (path.read_bytes() for path in sorted(config.outbox.glob("*.eml")))
    attached = list(message_from_bytes(new, policy=default).iter_attachments())
    assert [(part.get_filename(), part.get_payload(decode=True)) for part in attached] == [
        ("report.html", pages["new"])
    ]
    assert resolved == stored(config)["resolved"]["payload"]


def test_a_message_that_fails_does_not_stop_the_others_and_stays(config):
    gone = new_evidence(cluster="other")
    queue(config, message_for(gone, ["gone@x.org"]))
    with (
        serving(mailbox := Picky(answers={"gone@x.org": "550 no such user"})) as smtp,
        pytest.raises(DeliveryError, match=r"2 of 3 messages delivered, 1 stay in the outbox.*550 no such user"),
    ):
        send(config, smtp)

    assert len(mailbox.kept) == 2
    (left,) = pending(config.warehouse)
    assert (left.cluster, left.attempt_count) == ("other", 1)
    row = next(row for row in load_rows(config.warehouse, ALERT_OUTBOX).to_pylist() if row["cluster"] == "other")
    assert "550 no such user" in row["last_error"]


def test_greylisted_messages_arrive_with_the_next_run(config):
    with serving(mailbox := Greylist()) as smtp:
        with pytest.raises(DeliveryError, match="1 of 2"):
            send(config, smtp)
        too_early = send(config, smtp, NOW_MS + 29_999)
        send(config, smtp, NOW_MS + 30_000)

    assert (too_early.deliveries, too_early.notes) == (
        (),
        ("1 messages wait for their next attempt: partition-health outbox",),
    )
    assert len(mailbox.kept) == 2
    assert pending(config.warehouse) == []


def test_a_server_that_is_not_there_stops_the_run_at_the_first_message(config):
    config_smtp = {"host": "127.0.0.1", "port": free_port(), "tls": "none", "timeout_s": 1}
    smtp = config.mail.model_validate({"smtp": config_smtp}).smtp

    with pytest.raises(DeliveryError, match="0 of 2 messages delivered"):
        send(config, smtp)

    assert sorted(row["attempt_count"] for row in stored(config).values()) == [0, 1]


def test_a_recipient_refused_for_good_is_told_and_not_tried_again(config):
    queue(config, message_for(new_evidence(cluster="other"), ["gone@x.org", "ops@x.org"]))
    with (
        serving(Picky(answers={"gone@x.org": "550 gone"})) as smtp,
        pytest.raises(DeliveryError, match=r"3 of 3 messages delivered, 0 stay.*gone@x\.org: 550 gone"),
    ):
        send(config, smtp)

    assert pending(config.warehouse) == []
    places = {row["delivered_to"] for row in load_rows(config.warehouse, ALERT_OUTBOX).to_pylist()}
    assert f"smtp://127.0.0.1:{smtp.port}; refused gone@x.org: 550 gone" in places


def empty_outbox(config):
    for message in pending(config.warehouse):
        mark_delivered(config.warehouse, message.message_id, delivered_to="elsewhere", now_ms=NOW_MS)


def send_until_given_up(config, smtp):
    """Tries what waits as soon as it is due, without a failed task, until nothing waits; the notes on the way."""
    notes, now_ms = [], NOW_MS
    while waiting := pending(config.warehouse):
        notes += send(config, smtp, now_ms).notes
        now_ms = max([now_ms, *(one.next_attempt_at_ms or 0 for one in pending(config.warehouse) or waiting)])
    return notes


def test_a_mail_put_off_for_one_recipient_is_sent_to_nobody_else_again_and_fails_no_task(config):
    """All others got it some 20 times in three days, and each time a mail about the failed task."""
    empty_outbox(config)
    queue(config, message_for(new_evidence(cluster="other"), ["slow@x.org", "ops@x.org"]))
    with serving(mailbox := Picky(answers={"slow@x.org": "450 later"})) as smtp:
        notes = send_until_given_up(config, smtp)
    assert mailbox.recipients == [["ops@x.org"]]
    assert "put off slow@x.org: 450 later; the others have the message" in notes[0]
    (left,) = undelivered(config.warehouse)
    assert left.recipients == "slow@x.org"
    assert left.last_error.startswith("given up after")
    mark_retry(config.warehouse, left.message_id)
    with serving(mailbox := Mailbox()) as smtp:
        send(config, smtp)
    assert mailbox.recipients == [["slow@x.org"]]
    assert undelivered(config.warehouse) == []


@pytest.mark.parametrize("others", [["ops@x.org"], []])
def test_a_mail_about_a_failure_that_is_put_off_brings_no_further_one(config, others):
    """Each run failed for the one before, and its mail was put off, too."""
    empty_outbox(config)
    mail = config.mail.model_copy(update={"to": ("slow@x.org", *others)})
    config = config.model_copy(update={"mail": mail})
    failure = EmailMessage(policy=SMTP)
    failure["From"], failure["To"], failure["Subject"] = "health@x.org", ", ".join(mail.to), "task failed"
    failure.set_content("why")
    with serving(mailbox := Picky(answers={"slow@x.org": "450 later"})) as smtp:
        place, is_sent = deliver_alerts.deliver_or_queue(config, smtp, failure, "failure.1@x", now_ms=NOW_MS)
        assert (place.startswith("queued, as smtp://127.0.0.1:"), is_sent) == (True, False)
        assert [one.recipients for one in pending(config.warehouse)] == ["slow@x.org"]
        notes = send_until_given_up(config, smtp)
    assert mailbox.recipients == ([others] if others else [])
    assert "failure.1@x" in notes[0]


def test_a_message_to_a_channel_that_the_configuration_lost_is_given_up_at_once(config):
    """It failed each run for three days."""
    empty_outbox(config)
    queue_post(config)
    notes = send(config, None).notes
    assert notes == ("1 message given up: the configuration has no webhook or Alertmanager pager any more",)
    assert pending(config.warehouse) == []
    (left,) = undelivered(config.warehouse)
    assert (left.attempt_count, "pager" in left.last_error) == (0, True)


def test_each_failure_doubles_the_wait_up_to_six_hours_and_three_days_end_it(config):
    smtp = Smtp(host="127.0.0.1", port=free_port(), tls="none", timeout_s=1)
    now_ms, waits = NOW_MS, []
    while waiting := pending(config.warehouse)[1:]:
        mark_delivered(config.warehouse, waiting[0].message_id, delivered_to="elsewhere", now_ms=now_ms)
    while pending(config.warehouse):
        with pytest.raises(DeliveryError, match="stay in the outbox"):
            send(config, smtp, now_ms)
        (left,) = undelivered(config.warehouse)
        waits.append((left.next_attempt_at_ms - now_ms) // 1000)
        now_ms = max(now_ms, left.next_attempt_at_ms)

    assert waits[:11] == [30, 60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 21600]
    (given_up,) = undelivered(config.warehouse)
    assert given_up.given_up_at_ms - given_up.queued_at_ms >= 3 * 86_400_000
    assert given_up.last_error.startswith(f"given up after {len(waits)} attempts")
    mark_retry(config.warehouse, given_up.message_id)
    with serving(mailbox := Mailbox()) as working:
        send(config, working, now_ms)
    assert len(mailbox.kept) == 1


def test_one_process_delivers_at_a_time(config):
    with delivering(config.warehouse) as is_ours, serving(mailbox := Mailbox()) as smtp:
        report = deliver_alerts.run(config, smtp, now_ms=NOW_MS, wait_s=0.2)

    assert is_ours
    assert (report.deliveries, report.notes) == ((), ("another process is delivering",))
    assert (mailbox.kept, len(pending(config.warehouse))) == ([], 2)


class KillsAfterAnswering(Mailbox):
    """Kills the sender when it says good-bye: it has read the 250, and has not marked the message yet."""

    victim: int

    async def handle_QUIT(self, server, session, envelope):  # noqa: N802 - aiosmtpd calls it so
        os.kill(self.victim, signal.SIGKILL)
        return "221 too late"


SENDER = """
import sys
from pathlib import Path
from pipeline.errors import StorageError
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.config.mail import Smtp
from pipeline.jobs import deliver_alerts
base = Path(sys.argv[1])
config = PipelineConfig(warehouse=base / "warehouse", outbox=base / "outbox",
    clusters={"demo": {"sources": [LogDirectories(kind="log_directories", paths=(base,))]}})
for line in sys.stdin:
    try:
        deliver_alerts.run(config, Smtp(host="127.0.0.1", port=int(sys.argv[2]), tls="none"), now_ms=int(line))
        print("done", flush=True)
    except StorageError as error:
        print(error, flush=True)
"""


def start_sender(folder, smtp):
    arguments = [sys.executable, "-c", SENDER, str(folder), str(smtp.port)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_kill_between_the_servers_250_and_the_mark_repeats_one_message_with_its_id(config, tmp_path):
    with serving(mailbox := KillsAfterAnswering()) as smtp:
        sender = start_sender(tmp_path, smtp)
        mailbox.victim = sender.pid
        sender.communicate("0\n", timeout=600)
    with serving(later := Mailbox()) as smtp:
        send(config, smtp)

    assert sender.returncode == -signal.SIGKILL
    assert message_ids(mailbox) == message_ids(later)[:1]
    assert len(later.kept) == 2
    assert mailbox.kept[0] == later.kept[0]


class FillsTheDisk(Mailbox):
    """Takes the sender's disk away when it has the message: from then on no file of the sender may hold a byte."""

    victim: int

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd calls it so
        resource.prlimit(self.victim, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return await super().handle_DATA(server, session, envelope)


def test_a_full_disk_repeats_one_message_once_however_many_runs_it_lasts(config, tmp_path):
    with serving(mailbox := FillsTheDisk()) as smtp:
        sender = start_sender(tmp_path, smtp)
        mailbox.victim = sender.pid

        def run(now_ms):
            sender.stdin.write(f"{now_ms}\n")
            sender.stdin.flush()
            return sender.stdout.readline()

        answers = [run(NOW_MS + hour * 3_600_000) for hour in range(10)]
        in_the_meantime = message_ids(mailbox)
        mailbox.victim = os.getpid()  # not its disk any more
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(sender.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        mailbox.__class__ = Mailbox
        last = run(NOW_MS + 10 * 3_600_000)
        sender.communicate(timeout=600)

    assert limits == resource.getrlimit(resource.RLIMIT_FSIZE)
    assert all("alert_outbox" in answer and "free space" in answer for answer in answers)
    assert in_the_meantime == message_ids(mailbox)[:1]
    assert last == "done\n"
    assert sorted(Counter(message_ids(mailbox)).values()) == [1, 2]
    assert pending(config.warehouse) == []


def test_a_slow_channel_sends_the_rest_with_the_next_run(config):
    slow = count(0.0, 3_600.0).__next__
    with serving(mailbox := Mailbox()) as smtp:
        first = deliver_alerts.run(config, smtp, now_ms=NOW_MS, clock=slow)
        second = deliver_alerts.run(config, smtp, now_ms=NOW_MS, clock=slow)
    assert [len(one.deliveries) for one in (first, second)] == [1, 1]
    assert len(set(message_ids(mailbox))) == 2
    assert pending(config.warehouse) == []


def test_what_cannot_be_sent_is_counted_and_stops_nothing_else(config, monkeypatch):
    """Rows queued by a version that did not check addresses; a password and a webhook's address that are not set."""
    queue(config, message_for(new_evidence(cluster="other"), ["j\u00fcrgen@x.org"]))
    config = config.model_copy(update={"mail": Mail(webhooks=(queue_post(config),))})
    monkeypatch.setenv("PAGER_URL", "http://127.0.0.1:1/s\u00e9cret\udce9")
    with serving(mailbox := Mailbox()) as smtp, pytest.raises(DeliveryError, match="2 of 4 messages delivered"):
        send(config, smtp)

    assert len(mailbox.kept) == 2
    left = {message.cluster: message for message in pending(config.warehouse)}
    assert {cluster: message.attempt_count for cluster, message in left.items()} == {"other": 1, "third": 1}
    assert "UnicodeEncodeError" in left["other"].last_error
    assert left["third"].last_error == "webhook pager: UnicodeEncodeError; check PAGER_URL"


def test_a_password_that_is_not_set_stops_its_channel_only_and_is_shown(config, monkeypatch):
    monkeypatch.delenv("SMTP_PASSWORD", raising=False)
    smtp = Smtp(host="127.0.0.1", port=free_port(), tls="none", user="alerts", password_variable="SMTP_PASSWORD")
    config = config.model_copy(update={"mail": Mail(webhooks=(queue_post(config),))})
    with receiving() as (url, got):
        monkeypatch.setenv("PAGER_URL", url)
        with pytest.raises(DeliveryError, match=r"1 of 3 messages delivered, 2 stay.*SMTP_PASSWORD"):
            send(config, smtp)

    assert len(got) == 1
    errors = [message.last_error for message in pending(config.warehouse)]
    assert [("SMTP_PASSWORD" in error) for error in errors if error] == [True]


def test_the_command_sends_what_is_due_and_fails_where_it_cannot(config, tmp_path, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        smtp = {"host": "127.0.0.1", "port": closed.getsockname()[1], "tls": "none"}
        file = write_configuration(tmp_path, {"demo": LOGS}, mail={"smtp": smtp})
        assert main(["outbox", "--send", "--config", str(file)]) == DeliveryError.exit_code
    assert "0 of 2 messages delivered" in capsys.readouterr().err

    file = write_configuration(tmp_path, {"demo": LOGS})  # no server: files
    assert main(["outbox", "--retry", "all", "--send", "--config", str(file)]) == 0
    assert len(list(config.outbox.iterdir())) == len(stored(config)) == 2
    assert capsys.readouterr().out == "everything is delivered\n"
    assert undelivered(config.warehouse) == []


@pytest.mark.parametrize("damage", ["no log", "a file", "a file above"])
def test_an_outbox_without_its_log_is_damage_and_nothing_is_sent(config, tmp_path, capsys, damage):
    """It said that all is delivered, made the table anew and sent both messages again."""
    folder = table_path(config.warehouse, ALERT_OUTBOX)
    if damage == "no log":
        shutil.rmtree(folder / "_delta_log")
    else:
        target = folder if damage == "a file" else config.warehouse
        shutil.rmtree(target)
        target.write_text("x")
    file = write_configuration(tmp_path, {"demo": LOGS})
    assert main(["outbox", "--send", "--config", str(file)]) == StorageError.exit_code
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert ("data without a log" if damage == "no log" else "not a folder") in line
    assert printed.out == ""
    with pytest.raises(StorageError):
        ensure_tables(config.warehouse, (ALERT_OUTBOX,))
    assert list(config.outbox.glob("*.eml")) == []


def test_an_outbox_without_its_data_is_damage_though_all_is_delivered(config, tmp_path, capsys):
    """By the statistics of its log no message waits, so that no file would be opened to see."""
    file = write_configuration(tmp_path, {"demo": LOGS})
    assert main(["outbox", "--send", "--config", str(file)]) == 0
    capsys.readouterr()
    for data in table_path(config.warehouse, ALERT_OUTBOX).rglob("*.parquet"):
        data.unlink()
    for words in ([], ["--send"]):
        assert main(["outbox", *words, "--config", str(file)]) == StorageError.exit_code
        printed = capsys.readouterr()
        (line,) = printed.err.splitlines()
        assert "restore this folder" in line
        assert printed.out == ""
    assert len(list(config.outbox.glob("*.eml"))) == 2


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), UnicodeError("x"), RuntimeError("x")], ids=repr)
def test_whatever_goes_wrong_with_an_alertmanager_mails_leave(config, error, monkeypatch):
    def fail(_):
        raise error

    ensure_tables(config.warehouse, (INCIDENTS,))
    monkeypatch.setattr(deliver_alerts, "read_silences", fail)
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


@pytest.mark.parametrize(("ends_after_ms", "sent_count"), [(-1, 2), (0, 2), (1, 0)])
def test_a_silence_that_ended_holds_nothing_back_whatever_its_state(config, ends_after_ms, sent_count, monkeypatch):
    ensure_tables(config.warehouse, (INCIDENTS,))
    until_ms, of_demo = NOW_MS + ends_after_ms, Matcher(name="cluster", value="demo", is_regex=False, is_equal=True)
    silence = Silence(until_ms=until_ms, created_by="x", comment="x", matchers=(of_demo,), further_labels={})
    labels = {("demo", "K-JKT62CWA"): {"cluster": "demo"}}
    monkeypatch.setattr(deliver_alerts, "_load_labels", lambda *_: labels)
    monkeypatch.setattr(deliver_alerts, "read_silences", lambda _: (silence,))
    kept, _ = send_past_alertmanager(config)
    assert len(kept) == sent_count
