"""Gold tables of incidents and the messages about them."""

from __future__ import annotations

from pipeline.tables.columns import instant, number, text, whole
from pipeline.tables.table import CLUSTER, RUN_ID, Column, Table

INCIDENTS = Table(
    name="gold.incidents",
    grain="incident state change",
    key=("cluster", "incident_id", "state", "window_start"),
    schema_version=2,
    columns=(
        CLUSTER,
        instant("window_start", "Window that brought the state."),
        text("incident_id", "Stable id: from cluster, rule, subject and the first window above."),
        text("state", "`new`, `worse` (much above what was reported), `continuing` (reported long ago) or `resolved`."),
        text("rule", "Rule that was broken."),
        text("subject", "What broke it."),
        instant("since", "First window above the limit."),
        number("value", "Measure in the window that brought the state."),
        number("peak_value", "Largest measure since `since`."),
        number("limit_value", "Limit.", nullable=False),
        whole("window_count", "Windows from `since` to this one.", "windows"),
        text(
            "silenced_by",
            "Why it is not reported: a mute with its end and reason, or a run without notices; NULL where it is reported.",
            nullable=True,
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
        text("message_id", "Message-ID without brackets: stable for an incident's state, the same on a repeat."),
        CLUSTER,
        text("incident_id", "Incident the message is about; of a digest its own id."),
        text("state", "Incident state the message reports; `digest` for many."),
        text("channel", "`mail`, or the name of a webhook; NULL in older rows: mail.", nullable=True),
        text(
            "tells",
            "State changes it reports, comma-separated: `<incident_id>-<state>`, with the window where a state comes more than once. NULL in older rows: its own.",
            nullable=True,
        ),
        instant("window_start", "Window that brought the state."),
        text("subject_line", "Mail subject."),
        text("recipients", "Addresses, comma-separated; '' for a webhook."),
        Column(
            name="payload", type="binary", nullable=False, doc="The whole message: RFC 5322, or JSON for a webhook."
        ),
        instant("queued_at", "When it was queued.", volatile=True),
        whole("attempt_count", "Delivery attempts.", "attempts", volatile=True),
        text("last_error", "Why the last attempt failed.", nullable=True, volatile=True),
        instant("next_attempt_at", "Not tried again before; NULL for at once.", nullable=True, volatile=True),
        instant(
            "given_up_at",
            "When it was given up; `partition-health outbox --retry` takes it up again.",
            nullable=True,
            volatile=True,
        ),
        instant("delivered_at", "When it was handed over; NULL while pending.", nullable=True, volatile=True),
        text(
            "delivered_to",
            "Where it went: `smtp://host:port`, `webhook NAME` or the file's path.",
            nullable=True,
            volatile=True,
        ),
    ),
)

ALERTING = (INCIDENTS, ALERT_OUTBOX)
