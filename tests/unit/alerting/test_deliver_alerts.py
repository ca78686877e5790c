"""The outbox handed over. Oracle: what real SMTP servers got, and the rows of `gold.alert_outbox` afterwards."""

from email.message import EmailMessage
from email.policy import SMTP
from itertools import count

import pytest

from pipeline.config.mail import Alertmanager, Smtp
from pipeline.errors import DeliveryError
from pipeline.jobs import deliver_alerts, maintain
from pipeline.model.window import DAY_MS, instant_of, milliseconds_of
from pipeline.storage.outbox import delivering, mark_delivered, mark_retry, pending, reported_changes, undelivered
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.incidents import ALERT_OUTBOX
from tests.mail_parts import read_mail
from tests.unit.alerting.queued_mails import NOW_MS, message_ids, queue_other, queue_post, send, stored, with_mail
from tests.unit.alerting.smtp_servers import Greylist, Mailbox, Picky, free_port, serving
from tests.unit.sources.http_servers import receiving


def tell_failure(*recipients):
    """A mail about a task that failed."""
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"], mail["Subject"] = "health@x.org", ", ".join(recipients), "task failed"
    mail.set_content("why")
    return mail


def test_messages_go_out_by_window_are_marked_and_not_sent_again(config):
    with serving(mailbox := Mailbox()) as smtp:
        report = send(config, smtp)
        again = send(config, smtp)
    assert [message.subject_line.partition("]")[0] for message, _ in report.deliveries] == ["[FAIL", "[RESOLVED"]
    assert message_ids(mailbox) == [f"<{message.message_id}>" for message, _ in report.deliveries]
    assert again.deliveries == ()
    assert pending(config.warehouse) == []
    row = stored(config)["new"]
    assert (row["delivered_to"], row["attempt_count"]) == (f"smtp://127.0.0.1:{smtp.port}", 1)
    assert row["delivered_at"] == instant_of(NOW_MS)


def test_without_a_server_every_message_is_a_file(config):
    report = send(config, None)
    files = sorted(config.outbox.iterdir())
    assert [place for _, place in report.deliveries] == [str(path) for path in files]
    assert files[0].read_bytes() == stored(config)["new"]["payload"]


def test_mails_that_went_to_a_server_become_no_files_while_none_is_known(config):
    """Airflow has no connection for whoever asks while its API server is busy: mails became files that nobody reads."""
    with serving(mailbox := Mailbox()) as smtp:
        send(config, smtp)
        queue_other(config, message_id="later@x")
        report = deliver_alerts.run(config, None, now_ms=NOW_MS + 1)
        assert "no mail server is known" in report.failure
        failure = tell_failure("platform@x.org")
        said, is_sent = deliver_alerts.deliver_or_queue(config, None, failure, "failure@x", now_ms=NOW_MS + 1)
        assert (said.startswith("queued, as no mail server is known"), is_sent) == (True, False)
        assert not list(config.outbox.glob("*.eml"))
        waiting = {(one.message_id, one.attempt_count) for one in pending(config.warehouse)}
        assert waiting == {("later@x", 0), ("failure@x", 0)}
        send(config, smtp, now_ms=NOW_MS + 2)
    assert (len(mailbox.kept), pending(config.warehouse)) == (4, [])
    queue_other(config, message_id="moved@x", cluster="third")
    send(config, None, now_ms=NOW_MS + 31 * DAY_MS)  # somebody has moved to files
    assert len(list(config.outbox.glob("*.eml"))) == 1


def test_who_moves_to_files_on_purpose_says_so(config):
    """Nothing was written for 30 days."""
    with serving(Mailbox()) as smtp:
        send(config, smtp)
    queue_other(config, message_id="moved@x")
    report = deliver_alerts.run(with_mail(config, to_files=True), None, now_ms=NOW_MS + 1)
    assert (len(list(config.outbox.glob("*.eml"))), report.failure, pending(config.warehouse)) == (1, None, [])


def test_what_was_delivered_a_month_ago_is_emptied_and_still_reported(config):
    """The table kept each mail for good, and each attempt at a later one wrote all of them anew."""
    with serving(Mailbox()) as smtp:
        send(config, smtp)
    queue_other(config, message_id="waits@x")
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
    moved = with_mail(config, alertmanagers=(away,))
    report = deliver_alerts.run(moved, None, now_ms=NOW_MS)
    assert len(report.deliveries) == 2
    (left,) = pending(config.warehouse)
    assert (left.channel, left.attempt_count) == ("ops", 1)


def test_the_report_about_its_window_joins_a_mail_unless_it_is_too_large(config):
    """Of the two mails the window of the first has a small report, that of the other one that servers refuse."""
    pages = {"new": b"<!doctype html>", "resolved": b"x" * 2_000_001}
    for state, page in pages.items():
        path = config.report_path("demo", milliseconds_of(stored(config)[state]["window_start"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(page)
    send(config, None)
    new, resolved = (path.read_bytes() for path in sorted(config.outbox.glob("*.eml")))
    attached = list(read_mail(new).iter_attachments())
    held = [(part.get_filename(), part.get_payload(decode=True)) for part in attached]
    assert held == [("report.html", pages["new"])]
    assert resolved == stored(config)["resolved"]["payload"]


def test_a_message_that_fails_does_not_stop_the_others_and_stays(config):
    queue_other(config, "gone@x.org")
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
    empty_outbox(config)
    queue_other(config)
    queue_other(config, cluster="third")
    with serving(mailbox := Greylist()) as smtp:
        with pytest.raises(DeliveryError, match="1 of 2"):
            send(config, smtp)
        too_early = send(config, smtp, NOW_MS + 29_999)
        send(config, smtp, NOW_MS + 30_000)
    assert too_early.deliveries == ()
    assert too_early.notes == ("1 messages wait for their next attempt: partition-health outbox",)
    assert len(mailbox.kept) == 2
    assert pending(config.warehouse) == []


def test_no_mail_about_an_incident_comes_after_the_one_about_its_end(config):
    """The server put the first one off: it came hours after the one that says that all is well."""
    states = {row["message_id"]: state for state, row in stored(config).items()}
    with serving(mailbox := Greylist()) as smtp:
        with pytest.raises(DeliveryError):
            send(config, smtp)
        send(config, smtp, NOW_MS + 30_000)
    assert [states[name.strip("<>")] for name in message_ids(mailbox)] == ["new", "resolved"]


def test_a_server_that_is_not_there_stops_the_run_at_the_first_message(config):
    smtp = Smtp(host="127.0.0.1", port=free_port(), tls="none", timeout_s=1)
    with pytest.raises(DeliveryError, match="0 of 2 messages delivered"):
        send(config, smtp)
    assert sorted(row["attempt_count"] for row in stored(config).values()) == [0, 1]


def test_a_recipient_refused_for_good_is_told_and_not_tried_again(config):
    queue_other(config, "gone@x.org", "ops@x.org")
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
    queue_other(config, "slow@x.org", "ops@x.org")
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
    config = with_mail(config, to=("slow@x.org", *others))
    failure = tell_failure(*config.mail.to)
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
    now_ms, waits, doubled = NOW_MS, [], [*(30 << count for count in range(10)), 21600]
    while waiting := pending(config.warehouse)[1:]:
        mark_delivered(config.warehouse, waiting[0].message_id, delivered_to="elsewhere", now_ms=now_ms)
    while pending(config.warehouse):
        with pytest.raises(DeliveryError, match="stay in the outbox"):
            send(config, smtp, now_ms)
        (left,) = undelivered(config.warehouse)
        waits.append((left.next_attempt_at_ms - now_ms) // 1000)
        assert waits[:11] == doubled[: len(waits)]
        now_ms = max(now_ms, left.next_attempt_at_ms)
    (given_up,) = undelivered(config.warehouse)
    assert given_up.given_up_at_ms - given_up.queued_at_ms >= 3 * 86_400_000
    assert given_up.last_error.startswith(f"given up after {len(waits)} attempts")
    mark_retry(config.warehouse, given_up.message_id)
    with serving(mailbox := Mailbox()) as working:
        send(config, working, now_ms)
    assert len(mailbox.kept) == 1


def test_what_waited_through_a_pause_is_not_given_up_at_its_first_attempt(config):
    """As where a power cut of four days took the mail server too, which comes back after Airflow."""
    away = Smtp(host="127.0.0.1", port=free_port(), tls="none", timeout_s=1)
    later_ms = NOW_MS + 4 * DAY_MS
    with pytest.raises(DeliveryError, match="stay in the outbox"):
        send(config, away, later_ms)
    with serving(mailbox := Mailbox()) as back:
        assert send(config, back, later_ms + 3_600_000).deliveries
    assert len(mailbox.kept) == 2


def test_what_failed_while_the_clock_was_ahead_leaves_once_it_is_right(config):
    """It waited until the time came that the clock had shown."""
    smtp = Smtp(host="127.0.0.1", port=free_port(), tls="none", timeout_s=1)
    for left in pending(config.warehouse):
        deliver_alerts.outbox.mark_attempt(config.warehouse, left.message_id, retry_at_ms=NOW_MS + 400 * DAY_MS)
    with pytest.raises(DeliveryError):  # tried: it is due
        send(config, smtp)
    with serving(mailbox := Mailbox()) as working:
        assert send(config, working, NOW_MS + 6 * 3_600_000).deliveries
    assert len(mailbox.kept) == 2


def test_one_process_delivers_at_a_time(config):
    with delivering(config.warehouse) as is_ours, serving(mailbox := Mailbox()) as smtp:
        report = deliver_alerts.run(config, smtp, now_ms=NOW_MS, wait_s=0.2)
    assert is_ours
    assert (report.deliveries, report.notes) == ((), ("another process is delivering",))
    assert (mailbox.kept, len(pending(config.warehouse))) == ([], 2)


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
    queue_other(config, "j\u00fcrgen@x.org")
    config = with_mail(config, webhooks=(queue_post(config),))
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
    config = with_mail(config, webhooks=(queue_post(config),))
    with receiving() as (url, got):
        monkeypatch.setenv("PAGER_URL", url)
        with pytest.raises(DeliveryError, match=r"1 of 3 messages delivered, 2 stay.*SMTP_PASSWORD"):
            send(config, smtp)
    assert len(got) == 1
    errors = [message.last_error for message in pending(config.warehouse)]
    assert [("SMTP_PASSWORD" in error) for error in errors if error] == [True]
