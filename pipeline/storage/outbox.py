"""`gold.alert_outbox` for whoever delivers: what is pending, what was tried, what is done. No Spark.

A message is marked after it was handed over: a crash in between repeats it, and never loses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.model.window import format_instant, milliseconds_of
from pipeline.storage.rows import commit, load_rows
from pipeline.tables.gold import ALERT_OUTBOX

if TYPE_CHECKING:
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
        payload: The whole message, RFC 5322.
        queued_at_ms: When it was queued, UTC milliseconds.
        attempt_count: Attempts so far.
    """

    message_id: str
    cluster: str
    incident_id: str
    state: str
    subject_line: str
    recipients: str
    payload: bytes
    queued_at_ms: int
    attempt_count: int


_PLAIN = ("message_id", "cluster", "incident_id", "state", "subject_line", "recipients", "payload", "attempt_count")


def pending(warehouse: Path) -> list[OutboxMessage]:
    """Messages not delivered yet, in the order of the windows they tell about."""
    rows = [row for row in load_rows(warehouse, ALERT_OUTBOX).to_pylist() if row["delivered_at"] is None]
    rows.sort(key=lambda row: (row["window_start"], row["queued_at"], row["message_id"]))
    return [
        OutboxMessage(queued_at_ms=milliseconds_of(row["queued_at"]), **{name: row[name] for name in _PLAIN})
        for row in rows
    ]


def mark_attempt(warehouse: Path, message_id: str, *, error: str) -> int:
    """Counts an attempt that failed, and keeps why.

    Args:
        warehouse: Folder of all tables.
        message_id: Message-ID without brackets.
        error: What went wrong.

    Returns:
        The table's version afterwards.

    Raises:
        StorageConflictError: if other writers came first every time it was tried.
    """
    return _update(warehouse, message_id, {"last_error": _quoted(error)})


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
    delivered_at = f"arrow_cast('{format_instant(now_ms)}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    changes = {"delivered_at": delivered_at, "delivered_to": _quoted(delivered_to), "last_error": "NULL"}
    return _update(warehouse, message_id, changes)


def _update(warehouse: Path, message_id: str, changes: dict[str, str]) -> int:
    predicate = f"message_id = {_quoted(message_id)} AND delivered_at IS NULL"

    def write(on_disk: DeltaTable) -> None:
        on_disk.update(updates={"attempt_count": "attempt_count + 1", **changes}, predicate=predicate)

    return commit(warehouse, ALERT_OUTBOX, write)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
