"""Gold tables of what people are told: incidents, and the messages about them."""

from __future__ import annotations

from pipeline.tables.table import CLUSTER, RUN_ID, Column, Table

INCIDENTS = Table(
    name="gold.incidents",
    grain="incident state change",
    key=("cluster", "incident_id", "state", "window_start"),
    schema_version=2,
    columns=(
        CLUSTER,
        Column(name="window_start", type="timestamp", nullable=False, doc="Window that brought the state."),
        Column(
            name="incident_id",
            type="string",
            nullable=False,
            doc="Stable id: from cluster, rule, subject and the first window above.",
        ),
        Column(
            name="state",
            type="string",
            nullable=False,
            doc="`new`, `worse` (much above what was told), `continuing` (told long ago) or `resolved`.",
        ),
        Column(name="rule", type="string", nullable=False, doc="Rule that was broken."),
        Column(name="subject", type="string", nullable=False, doc="What broke it."),
        Column(name="since", type="timestamp", nullable=False, doc="First window above the limit."),
        Column(name="value", type="double", doc="Measure in the window that brought the state."),
        Column(name="peak_value", type="double", doc="Largest measure since `since`."),
        Column(name="limit_value", type="double", nullable=False, doc="Limit."),
        Column(
            name="window_count", type="bigint", nullable=False, unit="windows", doc="Windows from `since` to this one."
        ),
        Column(
            name="silenced_by",
            type="string",
            doc="Why nobody is told: a mute with its end and reason, or a run without notices; NULL where people are told.",
        ),
        RUN_ID,
    ),
)

ALERT_OUTBOX = Table(
    name="gold.alert_outbox",
    grain="message to deliver",
    key=("message_id",),
    write_mode="merge",
    schema_version=2,
    columns=(
        Column(
            name="message_id",
            type="string",
            nullable=False,
            doc="Message-ID without brackets: stable for an incident's state, the same on a repeat.",
        ),
        CLUSTER,
        Column(
            name="incident_id",
            type="string",
            nullable=False,
            doc="Incident the message is about; of a digest its own id.",
        ),
        Column(name="state", type="string", nullable=False, doc="Incident state the message tells; `digest` for many."),
        Column(name="channel", type="string", doc="`mail`, or the name of a webhook; NULL in older rows: mail."),
        Column(
            name="tells",
            type="string",
            doc="State changes it tells, comma-separated: `<incident_id>-<state>`, with the window where a state comes more than once. NULL in older rows: its own.",
        ),
        Column(name="window_start", type="timestamp", nullable=False, doc="Window that brought the state."),
        Column(name="subject_line", type="string", nullable=False, doc="Mail subject."),
        Column(name="recipients", type="string", nullable=False, doc="Addresses, comma-separated; '' for a webhook."),
        Column(
            name="payload", type="binary", nullable=False, doc="The whole message: RFC 5322, or JSON for a webhook."
        ),
        Column(name="queued_at", type="timestamp", nullable=False, doc="When it was queued.", volatile=True),
        Column(
            name="attempt_count",
            type="bigint",
            nullable=False,
            unit="attempts",
            doc="Delivery attempts.",
            volatile=True,
        ),
        Column(name="last_error", type="string", doc="Why the last attempt failed.", volatile=True),
        Column(
            name="next_attempt_at", type="timestamp", doc="Not tried again before; NULL for at once.", volatile=True
        ),
        Column(
            name="given_up_at",
            type="timestamp",
            doc="When it was given up; `partition-health outbox --retry` takes it up again.",
            volatile=True,
        ),
        Column(
            name="delivered_at", type="timestamp", doc="When it was handed over; NULL while pending.", volatile=True
        ),
        Column(
            name="delivered_to",
            type="string",
            doc="Where it went: `smtp://host:port`, `webhook NAME` or the file's path.",
            volatile=True,
        ),
    ),
)

ALERTING = (INCIDENTS, ALERT_OUTBOX)
