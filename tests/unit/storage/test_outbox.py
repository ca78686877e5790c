"""The outbox: a message is pending until it is marked, and marks survive writers at the same time."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline.storage.frames import rows_of
from pipeline.storage.outbox import mark_attempt, mark_delivered, mark_failed, pending
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.incidents import ALERT_OUTBOX

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NOON_MS = round(NOON.timestamp() * 1000)


def queue(warehouse, *message_ids):
    """Messages about later and later windows, all queued at noon."""
    rows = [
        {
            "message_id": message_id, "cluster": "c", "incident_id": "i", "state": "new", "subject_line": "s",
            "window_start": NOON + dt.timedelta(minutes=minute), "recipients": "a@b", "payload": b"\x00mail",
            "queued_at": NOON, "attempt_count": 0,
        }
        for minute, message_id in enumerate(message_ids)
    ]  # fmt: skip  # fields of a value, several a line
    insert_rows(rows_of(ALERT_OUTBOX, rows, run_id="r"), warehouse, ALERT_OUTBOX)


def ids(warehouse):
    return [message.message_id for message in pending(warehouse)]


@pytest.fixture
def warehouse(tmp_path):
    ensure_tables(tmp_path, [ALERT_OUTBOX])
    return tmp_path


def test_messages_come_in_the_order_of_their_windows_with_their_bytes(warehouse):
    queue(warehouse, "z", "a", "m")
    assert ids(warehouse) == ["z", "a", "m"]
    assert (pending(warehouse)[0].payload, pending(warehouse)[0].queued_at_ms) == (b"\x00mail", NOON_MS)


def test_a_failed_attempt_is_counted_and_leaves_the_message_pending(warehouse):
    queue(warehouse, "it's")
    for error in ("450 'try\nlater'", "451"):
        mark_attempt(warehouse, "it's", retry_at_ms=NOON_MS)
        mark_failed(warehouse, "it's", error=error, given_up_at_ms=None)
    (row,) = load_rows(warehouse, ALERT_OUTBOX).to_pylist()
    assert (ids(warehouse), row["attempt_count"], row["last_error"]) == (["it's"], 2, "451")


def test_a_delivered_message_is_done_and_queueing_it_again_changes_nothing(warehouse):
    queue(warehouse, "a", "b")
    mark_attempt(warehouse, "a", retry_at_ms=NOON_MS)
    for place in ("smtp://first:25", "smtp://second:25"):
        mark_delivered(warehouse, "a", delivered_to=place, now_ms=NOON_MS + 1)
    queue(warehouse, "a", "b")
    row = next(row for row in load_rows(warehouse, ALERT_OUTBOX).to_pylist() if row["message_id"] == "a")
    assert ids(warehouse) == ["b"]
    assert (row["delivered_to"], row["attempt_count"], row["last_error"]) == ("smtp://first:25", 1, None)
    assert row["delivered_at"] == NOON + dt.timedelta(milliseconds=1)


def test_marks_made_at_the_same_time_are_all_kept(warehouse):
    names = [f"m{number}" for number in range(8)]
    queue(warehouse, *names)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: mark_attempt(warehouse, name, retry_at_ms=NOON_MS), names))
        list(pool.map(lambda name: mark_delivered(warehouse, name, delivered_to="x", now_ms=NOON_MS), names))
    assert ids(warehouse) == []
    assert {row["attempt_count"] for row in load_rows(warehouse, ALERT_OUTBOX).to_pylist()} == {1}


def test_before_the_first_run_nothing_waits(tmp_path):
    assert pending(tmp_path) == []
