"""`gold.alert_outbox`: messages that wait, attempts, what is delivered or given up. No Spark.

An attempt is noted before the hand-over, the delivery after it: a crash in between repeats the message once, and never loses it.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any

from pipeline.config.mail import MAIL_CHANNEL
from pipeline.config.storage import Folder
from pipeline.errors import StorageError
from pipeline.model.incident import ENDED, SILENCED, AlertMessage
from pipeline.storage.durability import has_table
from pipeline.storage.frames import rows_of
from pipeline.storage.locks import holding
from pipeline.storage.predicates import format_datafusion_instant, format_datafusion_text
from pipeline.storage.rows import commit, insert_rows, load_rows, query_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.values import row_of, tuples_of, values_of

UNCONFIRMED = "the attempt ended before its outcome was noted; the message may have been delivered"  # a `last_error`


def queue(warehouse: Folder, message: AlertMessage, *, run_id: str) -> None:
    ensure_tables(warehouse, (ALERT_OUTBOX,))
    rows = rows_of(ALERT_OUTBOX, [row_of(message, ALERT_OUTBOX)], run_id=run_id)
    insert_rows(rows, warehouse, ALERT_OUTBOX)


def check_kept(warehouse: Folder) -> None:
    """Raises `StorageError` where there are incidents and no outbox: what waited in it is lost."""
    path, incidents = table_path(warehouse, ALERT_OUTBOX), table_path(warehouse, INCIDENTS)
    if has_table(path) or not has_table(incidents):
        return
    if load_rows(warehouse, INCIDENTS, columns=("incident_id",)).num_rows:
        reason = "restore it, or run the next window, which queues the open incidents anew"
        raise StorageError(f"{path}: the outbox is lost, and with it what waited in it: {reason}")


def undelivered(warehouse: Folder, where: str = "true") -> list[AlertMessage]:
    """Messages not delivered yet, given up or not, in the order of their windows; `where` is further SQL."""
    if not has_table(table_path(warehouse, ALERT_OUTBOX)):
        return []  # a first run that failed before it made tables
    load_rows(warehouse, ALERT_OUTBOX, columns=("message_id",))  # asks every file, also those that are gone
    waiting = values_of(AlertMessage, load_rows(warehouse, ALERT_OUTBOX, where=f"delivered_at IS NULL AND {where}"))
    waiting.sort(key=lambda one: (one.window_start_ms, one.queued_at_ms, one.message_id))
    return [replace(one, channel=one.channel or MAIL_CHANNEL) for one in waiting]


def pending(warehouse: Folder) -> list[AlertMessage]:
    return undelivered(warehouse, "given_up_at IS NULL")


def went_by_server(warehouse: Folder, since_ms: int) -> bool:
    where = f"starts_with(delivered_to, 'smtp://') AND delivered_at >= {format_datafusion_instant(since_ms)}"
    is_there = has_table(table_path(warehouse, ALERT_OUTBOX))
    return is_there and load_rows(warehouse, ALERT_OUTBOX, columns=("message_id",), where=where).num_rows > 0


def reported_changes(warehouse: Folder, cluster: str, *, silenced: bool = False) -> dict[str, set[str]]:
    """Loads the keys of changes that messages report, delivered or not, by channel; silenced ones report none, unless asked for."""
    reported: dict[str, set[str]] = defaultdict(set)
    columns = ("channel", "tells", "incident_id", "state")
    is_told = f"last_error IS NULL OR given_up_at IS NULL OR NOT starts_with(last_error, '{SILENCED}')"
    rows = load_rows(warehouse, ALERT_OUTBOX, cluster=cluster, columns=columns, where="true" if silenced else is_told)
    for channel, tells, incident_id, state in tuples_of(rows, *columns):
        reported[channel or MAIL_CHANNEL].update(tells.split(",") if tells else [f"{incident_id}-{state}"])
    return reported


def list_fading(warehouse: Folder, channel: str, clusters: Iterable[str], before_ms: int) -> list[tuple[Any, ...]]:
    """Id, payload, and incident (cluster, id, rule, subject) of newest messages about open incidents that a channel last got before a moment."""
    tables = {"outbox": ALERT_OUTBOX, "incidents": INCIDENTS}
    if not all(has_table(table_path(warehouse, table)) for table in tables.values()):
        return []
    states, named = (", ".join(map(format_datafusion_text, sorted(texts))) for texts in (ENDED, clusters))
    sql = f"""
        SELECT message_id, payload, own.* FROM (
            SELECT *, row_number() OVER (PARTITION BY cluster, incident_id ORDER BY window_start DESC, queued_at DESC) AS place
            FROM outbox WHERE channel = {format_datafusion_text(channel)} AND cluster IN ({named})
        ) AS newest
        JOIN (
            SELECT cluster, incident_id, min(rule) AS rule, min(subject) AS subject FROM incidents
            GROUP BY cluster, incident_id HAVING sum(CASE WHEN state IN ({states}) THEN 1 ELSE 0 END) = 0
        ) AS own ON own.cluster = newest.cluster AND own.incident_id = newest.incident_id
        WHERE place = 1 AND payload <> X'' AND delivered_at < {format_datafusion_instant(before_ms)}
          AND coalesce(next_attempt_at, delivered_at) < {format_datafusion_instant(before_ms)}
        ORDER BY message_id
        """  # noqa: S608 - names of ours, texts quoted
    columns = ("message_id", "payload", "cluster", "incident_id", "rule", "subject")
    return list(tuples_of(query_rows(warehouse, sql, tables), *columns))


def mark_posted_again(warehouse: Folder, message_ids: Iterable[str], *, now_ms: int) -> None:
    again = {"next_attempt_at": format_datafusion_instant(now_ms)}
    _update(warehouse, message_ids, again, where="delivered_at IS NOT NULL")


def empty_delivered(warehouse: Folder, before_ms: int) -> int:
    """Takes the payload, which fills the table, of messages delivered, or posted again, before a moment; tells of how many."""
    if not has_table(table_path(warehouse, ALERT_OUTBOX)):
        return 0
    before = format_datafusion_instant(before_ms)
    is_old = f"payload <> X'' AND delivered_at < {before} AND coalesce(next_attempt_at, delivered_at) < {before}"
    count: int = load_rows(warehouse, ALERT_OUTBOX, columns=("message_id",), where=is_old).num_rows
    if count:
        commit(warehouse, ALERT_OUTBOX, methodcaller("update", updates={"payload": "X''"}, predicate=is_old))
    return count


def delivering(folder: Path, *, wait_s: float = 0) -> AbstractContextManager[bool]:
    return holding(folder, "delivering", wait_s=wait_s)


def mark_attempt(warehouse: Folder, *message_ids: str, retry_at_ms: int) -> int:
    """Counts an attempt before it begins, so that one whose end cannot be noted is repeated later, not at once."""
    begun = {"attempt_count": "attempt_count + 1", "next_attempt_at": format_datafusion_instant(retry_at_ms)}
    return _update(warehouse, message_ids, {**begun, "last_error": format_datafusion_text(UNCONFIRMED)})


def mark_failed(
    warehouse: Folder, *message_ids: str, error: str, given_up_at_ms: int | None = None, left: Iterable[str] = ()
) -> int:
    """Keeps why an attempt failed; with the instant at which the message is given up, and the recipients who lack it, where some do."""
    end = {} if given_up_at_ms is None else {"given_up_at": format_datafusion_instant(given_up_at_ms)}
    rest = {"recipients": format_datafusion_text(",".join(left))} if left else {}
    return _update(warehouse, message_ids, {"last_error": format_datafusion_text(error), **end, **rest})


def mark_retry(warehouse: Folder, message_id: str) -> int:
    return _update(warehouse, (message_id,), {"given_up_at": "NULL", "next_attempt_at": "NULL"})


def mark_delivered(warehouse: Folder, *message_ids: str, delivered_to: str, now_ms: int) -> int:
    """Takes messages out of the pending ones; of two marks the first one stays. Returns the table's version."""
    done = {"delivered_at": format_datafusion_instant(now_ms), "delivered_to": format_datafusion_text(delivered_to)}
    return _update(warehouse, message_ids, {**done, "last_error": "NULL"})


def _update(
    warehouse: Folder, message_ids: Iterable[str], changes: dict[str, str], *, where: str = "delivered_at IS NULL"
) -> int:
    named = ", ".join(map(format_datafusion_text, message_ids))
    predicate = f"message_id IN ({named}) AND {where}"
    return commit(warehouse, ALERT_OUTBOX, methodcaller("update", updates=changes, predicate=predicate))
