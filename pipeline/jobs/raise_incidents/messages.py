"""Which changes become which messages; each change is reported once per channel."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipeline.alerting.alertmanager import render_alert
from pipeline.alerting.broker_share import describe_broker_share
from pipeline.alerting.content import Content
from pipeline.alerting.digest import describe_digest
from pipeline.alerting.incident_mail import describe_rule, describe_source
from pipeline.alerting.message import render_message
from pipeline.alerting.webhook import render_webhook
from pipeline.config.mail import MAIL_CHANNEL
from pipeline.evidence.gathering import gather_evidence
from pipeline.evidence.incident import BrokerShareEvidence
from pipeline.model.incident import AlertMessage, IncidentChange, incident_of
from pipeline.model.verdict import Verdict
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.runs import RunContext
from pipeline.storage.outbox import reported_changes
from pipeline.storage.rows import merge_rows
from pipeline.tables.incidents import ALERT_OUTBOX


def queue_messages(
    run: RunContext,
    changes: Sequence[IncidentChange],
    verdicts: Sequence[Verdict],
    *,
    ended: Sequence[IncidentChange] = (),
) -> int:
    """Puts messages about changes into the outbox; what a channel has reported is not reported again.

    The end of an incident that a channel never reported (it was muted, or found by a run without notices) is no news.
    Alertmanager groups by itself: it gets no digest. It also gets `ended`, all ends of incidents, muted ones too: its
    alerts would go on firing.

    Verdicts of the changes' windows are among `verdicts`. Returns the outbox's version afterwards.
    """
    reported = reported_changes(run.warehouse, run.cluster_name)
    described: dict[tuple[str, ...], Content] = {}
    messages = []

    def describe(group: tuple[IncidentChange, ...]) -> Content:
        keys = tuple(change.key for change in group)
        if keys not in described:
            described[keys] = (
                describe_change(run, group[0], verdicts)
                if len(group) == 1
                else describe_digest(run.cluster_name, group, owner=run.cluster.owner)
            )
        return described[keys]

    mail = run.config.mail
    for channel in (MAIL_CHANNEL, *(webhook.name for webhook in mail.webhooks)):
        groups = _group(_news(changes, reported[channel]), mail.digest_above)
        messages += [_render(run, describe(group), channel) for group in groups]
    every = sorted({change.key: change for change in (*changes, *ended)}.values(), key=lambda c: c.window_start_ms)
    for alertmanager in mail.alertmanagers:
        for change in _news(every, reported[alertmanager.name]):
            report = run.config.report_link(run.cluster_name, change.window_start_ms)
            alert = render_alert(describe((change,)), change, alertmanager, report=report, now_ms=run.now_ms)
            messages.append(alert)
    rows = run.table_of(ALERT_OUTBOX, messages)
    return merge_rows(rows, run.warehouse, ALERT_OUTBOX, insert_only=True)


def describe_change(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> Content:
    """Describes a change for its message; the verdicts of its window are among `verdicts`."""
    evidence = gather_evidence(run, change, verdicts)
    if isinstance(evidence, BrokerShareEvidence):
        return describe_broker_share(evidence)
    return describe_source(evidence) if change.rule == SOURCE_ARRIVAL else describe_rule(evidence)


def _news(changes: Iterable[IncidentChange], reported: set[str]) -> list[IncidentChange]:
    """Changes a channel has not reported."""
    known = {incident_of(key) for key in reported}
    news = []
    for change in changes:
        if change.is_open:
            known.add(change.incident_id)
        if change.key not in reported and change.incident_id in known:
            news.append(change)
    return news


def _group(changes: Sequence[IncidentChange], digest_above: int) -> list[tuple[IncidentChange, ...]]:
    """One change each, or all of a window together where they are many."""
    by_window: dict[int, list[IncidentChange]] = defaultdict(list)
    for change in changes:
        by_window[change.window_start_ms].append(change)
    groups: list[tuple[IncidentChange, ...]] = []
    for together in by_window.values():
        groups += [tuple(together)] if len(together) > digest_above else [(change,) for change in together]
    return groups


def _render(run: RunContext, content: Content, channel: str) -> AlertMessage:
    mail = run.config.mail
    for webhook in mail.webhooks:
        if webhook.name == channel:
            return render_webhook(content, webhook, now_ms=run.now_ms)
    recipients = run.cluster.mail_to or mail.to
    return render_message(content, sender=mail.sender, recipients=recipients, now_ms=run.now_ms)
