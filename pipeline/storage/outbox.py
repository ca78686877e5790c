"""`gold.alert_outbox` for whoever delivers: what is pending, what was tried, what is done or given up. No Spark.

A message is marked after it was handed over: a crash in between repeats it, and never loses it.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.config.mail import MAIL_CHANNEL
from pipeline.model.window import format_instant, milliseconds_of
from pipeline.storage.rows import commit, load_rows
from pipeline.tables.incidents import ALERT_OUTBOX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """A message that waits to be handed over.

    Attributes:
        message_id: Message-ID without brackets.
        cluster: Cluster it is about.
        incident_id: Incident it is about.
        state: Incident state it tells.
        subject_line: Mail subject.
        recipients: Addresses, comma-separated.
        payload: The whole message: RFC 5322, or JSON for a webhook.
        channel: `mail`, or the name of a webhook.
        queued_at_ms: When it was queued, UTC milliseconds.
        attempt_count: Attempts so far.
        next_attempt_at_ms: Not tried before, UTC milliseconds; 0 for at once.
        given_up_at_ms: When it was given up, or None.
        last_error: Why the last attempt failed, or None.
    """

    message_id: str
    cluster: str
    incident_id: str
    state: str
    subject_line: str
    recipients: str
    payload: bytes
    channel: str
    queued_at_ms: int
    attempt_count: int
    next_attempt_at_ms: int
    given_up_at_ms: int | None
    last_error: str | None


_PLAIN = (
    *("message_id", "cluster", "incident_id", "state", "subject_line", "recipients", "payload", "attempt_count"),
    "last_error",
)


def undelivered(warehouse: Path) -> list[OutboxMessage]:
    """Messages not delivered yet, given up or not, in the order of the windows they tell about."""
    rows = [row for row in load_rows(warehouse, ALERT_OUTBOX).to_pylist() if row["delivered_at"] is None]
    rows.sort(key=lambda row: (row["window_start"], row["queued_at"], row["message_id"]))
    return [
        OutboxMessage(
            channel=row["channel"] or MAIL_CHANNEL,
            queued_at_ms=milliseconds_of(row["queued_at"]),
            next_attempt_at_ms=0 if row["next_attempt_at"] is None else milliseconds_of(row["next_attempt_at"]),
            given_up_at_ms=None if row["given_up_at"] is None else milliseconds_of(row["given_up_at"]),
            **{name: row[name] for name in _PLAIN},
        )
        for row in rows
    ]


def pending(warehouse: Path) -> list[OutboxMessage]:
    """Messages that wait to be handed over, in the order of the windows they tell about."""
    return [message for message in undelivered(warehouse) if message.given_up_at_ms is None]


def told_changes(warehouse: Path, cluster: str) -> dict[str, set[str]]:
    """Keys of the changes of a cluster that messages tell, delivered or not, by channel."""
    told: dict[str, set[str]] = defaultdict(set)
    rows = load_rows(warehouse, ALERT_OUTBOX, cluster=cluster, columns=("channel", "tells", "incident_id", "state"))
    for row in rows.to_pylist():
        keys = row["tells"].split(",") if row["tells"] else [f"{row['incident_id']}-{row['state']}"]
        told[row["channel"] or MAIL_CHANNEL].update(keys)
    return told


@contextlib.contextmanager
def delivering(warehouse: Path) -> Iterator[bool]:
    """Holds the outbox for one delivering process; the system lets go of it when the process ends, however it ends.

    Args:
        warehouse: Folder of all tables.

    Yields:
        Whether it could be had; False while another process delivers.
    """
    warehouse.mkdir(parents=True, exist_ok=True)
    with (warehouse / ".delivering").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def mark_attempt(warehouse: Path, message_id: str, *, error: str, retry_at_ms: int | None, now_ms: int) -> int:
    """Counts an attempt that failed, and keeps why.

    Args:
        warehouse: Folder of all tables.
        message_id: Message-ID without brackets.
        error: What went wrong.
        retry_at_ms: When to try again, UTC milliseconds; None gives the message up.
        now_ms: The clock, UTC milliseconds.

    Returns:
        The table's version afterwards.

    Raises:
        StorageConflictError: if other writers came first every time it was tried.
    """
    later = {"given_up_at": _instant(now_ms)} if retry_at_ms is None else {"next_attempt_at": _instant(retry_at_ms)}
    return _update(warehouse, message_id, {"attempt_count": "attempt_count + 1", "last_error": _quoted(error), **later})


def mark_retry(warehouse: Path, message_id: str) -> int:
    """Takes a message up again that was given up or waits: the next delivery tries it at once.

    Args:
        warehouse: Folder of all tables.
        message_id: Message-ID without brackets.

    Returns:
        The table's version afterwards.

    Raises:
        StorageConflictError: if other writers came first every time it was tried.
    """
    return _update(warehouse, message_id, {"given_up_at": "NULL", "next_attempt_at": "NULL"})


def mark_delivered(warehouse: Path, message_id: str, *, delivered_to: str, now_ms: int) -> int:
    """Takes a message out of the pending ones; of two marks the first one stays.

    Args:
        warehouse: Folder of all tables.
        message_id: Message-ID without brackets.
        delivered_to: `smtp://host:port`, or the file's path.
        now_ms: The clock, UTC milliseconds.

    Returns:
        The table's version afterwards.

    Raises:
        StorageConflictError: if other writers came first every time it was tried.
    """
    told = {"delivered_at": _instant(now_ms), "delivered_to": _quoted(delivered_to), "last_error": "NULL"}
    return _update(warehouse, message_id, {"attempt_count": "attempt_count + 1", **told})


def _update(warehouse: Path, message_id: str, changes: dict[str, str]) -> int:
    predicate = f"message_id = {_quoted(message_id)} AND delivered_at IS NULL"

    def write(on_disk: DeltaTable) -> None:
        on_disk.update(updates=changes, predicate=predicate)

    return commit(warehouse, ALERT_OUTBOX, write)


def _instant(instant_ms: int) -> str:
    return f"arrow_cast('{format_instant(instant_ms)}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
