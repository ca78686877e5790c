"""Which changes become which messages, and that each is told once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.alerting.digest import describe_digest
from pipeline.alerting.message import join_addresses, render_message
from pipeline.alerting.webhook import render_webhook
from pipeline.config.mail import MAIL_CHANNEL
from pipeline.jobs.raise_incidents.evidence import describe_change
from pipeline.model.window import instant_of
from pipeline.storage.frames import rows_of
from pipeline.storage.outbox import told_changes
from pipeline.storage.rows import merge_rows
from pipeline.tables.incidents import ALERT_OUTBOX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pipeline.alerting.content import Content
    from pipeline.alerting.message import AlertMessage
    from pipeline.model.incident import IncidentChange
    from pipeline.model.verdict import Verdict
    from pipeline.runs import RunContext


def queue_messages(run: RunContext, changes: Sequence[IncidentChange], verdicts: Sequence[Verdict]) -> int:
    """Puts messages about changes into the outbox; what a channel was told before is not told again.

    The end of an incident that a channel was never told of (it was muted, or found by a run without notices) is no news.

    Args:
        run: What the run is about.
        changes: To be told.
        verdicts: Those of the changes' windows among them.

    Returns:
        The outbox's version afterwards.
    """
    told = told_changes(run.warehouse, run.cluster_name)
    described: dict[tuple[str, ...], Content] = {}
    messages = []
    for channel in (MAIL_CHANNEL, *(webhook.name for webhook in run.config.mail.webhooks)):
        for group in _group(_news(changes, told[channel]), run.config.mail.digest_above):
            keys = tuple(change.key for change in group)
            if keys not in described:
                described[keys] = _describe(run, group, verdicts)
            messages.append(_render(run, described[keys], channel))
    rows = [_row(run, message) for message in messages]
    return merge_rows(rows_of(ALERT_OUTBOX, rows, run_id=run.run_id), run.warehouse, ALERT_OUTBOX, insert_only=True)


def _news(changes: Iterable[IncidentChange], told: set[str]) -> list[IncidentChange]:
    known = {_incident_of(key) for key in told}
    news = []
    for change in changes:
        if change.key in told:
            continue
        if change.is_open:
            known.add(change.incident_id)
        elif change.incident_id not in known:
            continue
        news.append(change)
    return news


def _incident_of(key: str) -> str:
    """`K-JKT62CWA` of `K-JKT62CWA-worse-20261121T090000Z`."""
    return "-".join(key.split("-")[:2])


def _group(changes: Sequence[IncidentChange], digest_above: int) -> list[tuple[IncidentChange, ...]]:
    """One change each, or all of a window together where they are many."""
    by_window: dict[int, list[IncidentChange]] = defaultdict(list)
    for change in changes:
        by_window[change.window_start_ms].append(change)
    groups: list[tuple[IncidentChange, ...]] = []
    for found in by_window.values():
        groups += [tuple(found)] if len(found) > digest_above else [(change,) for change in found]
    return groups


def _describe(run: RunContext, group: tuple[IncidentChange, ...], verdicts: Sequence[Verdict]) -> Content:
    if len(group) > 1:
        return describe_digest(run.cluster_name, group, owner=run.cluster.owner)
    return describe_change(run, group[0], verdicts)


def _render(run: RunContext, content: Content, channel: str) -> AlertMessage:
    mail = run.config.mail
    for webhook in mail.webhooks:
        if webhook.name == channel:
            return render_webhook(content, webhook)
    recipients = run.cluster.mail_to or mail.to
    return render_message(content, sender=mail.sender, recipients=recipients, now_ms=run.now_ms)


def _row(run: RunContext, message: AlertMessage) -> dict[str, Any]:
    return {
        "message_id": message.message_id,
        "cluster": message.cluster,
        "incident_id": message.incident_id,
        "state": message.state,
        "channel": message.channel,
        "tells": ",".join(message.tells),
        "window_start": instant_of(message.window_start_ms),
        "subject_line": message.subject_line,
        "recipients": join_addresses(message.recipients),
        "payload": message.payload,
        "queued_at": instant_of(run.now_ms),
        "attempt_count": 0,
    }
