"""Gold tables of incidents and the messages about them."""

from typing import get_args

from pipeline.model.incident import IncidentState
from pipeline.tables.table import CLUSTER, Check, Column, Table, bigint, double, not_negative, of_cluster, string, timestamp

INCIDENTS = of_cluster(
    "gold.incidents", "incident state change", ("cluster", "incident_id", "state", "window_start"),
    timestamp("window_start", "Window that brought the state."),
    string("incident_id", "Id, the same from its first message to its end, whatever windows come late; never given again."),
    string("state", "`new`, `worse` (than reported), `continuing` (reported long ago), `resolved`, or `withdrawn`: windows that came late show that there was none, only excused hash luck is left, or its subject is gone."),
    string("rule", "Rule that was broken."),
    string("subject", "What broke it."),
    timestamp("since", "First window above the limit."),
    double("value", "Measure in the window that brought the state."),
    double("peak_value", "Largest measure since `since`; of hours until a disk is full the smallest."),
    double("limit_value", "Limit.", nullable=False),
    bigint("window_count", "Windows from `since` to this one.", "windows"),
    string("silenced_by", "Why nobody is notified: a mute with its end and reason, or a run without notices; NULL where people are.", nullable=True),
    timestamp("told_since", "Start that the newest message told, where windows that came late have moved `since`; else NULL.", nullable=True),
    timestamp("moved_from", "Start that was told before, where the message about this change tells another; else NULL.", nullable=True),
    string("merged_into", "Of an end: id of the incident that this one turned out to be a part of; else NULL.", nullable=True),
    schema_version=3, has_change_feed=True, checks=(Check("state", one_of=get_args(IncidentState)), *not_negative("window_count")),
)  # fmt: skip  # a table: short fields share a line

ALERT_OUTBOX = Table(
    name="gold.alert_outbox", grain="message to deliver", key=("message_id",), write_mode="merge", schema_version=2,
    columns=(
        string("message_id", "Message-ID without brackets: stable for an incident's state, the same on a repeat."),
        CLUSTER,
        string("incident_id", "Incident the message is about; of a digest its own id."),
        string("state", "Incident state the message reports; `digest` for many."),
        string("channel", "`mail`, or the name of a webhook or an Alertmanager; NULL in older rows: mail.", nullable=True),
        string("tells", "State changes it reports, comma-separated: `<incident_id>-<state>`, with the window where a state comes more than once. NULL in older rows: its own.", nullable=True),
        timestamp("window_start", "Window that brought the state."),
        string("subject_line", "Mail subject."),
        string("recipients", "Addresses, comma-separated; '' where it is not a mail."),
        Column("payload", "binary", "The whole message: RFC 5322, or JSON for a webhook or an Alertmanager; empty 31 days after it was delivered.", nullable=False),
        timestamp("queued_at", "When it was queued.", volatile=True),
        bigint("attempt_count", "Delivery attempts.", "attempts", volatile=True),
        string("last_error", "Why the last attempt failed, or which silence held it back.", nullable=True, volatile=True),
        timestamp("next_attempt_at", "Not tried again before; NULL for at once. Of an alert that Alertmanager got once more, when.", nullable=True, volatile=True),
        timestamp("given_up_at", "When it was given up; `partition-health outbox --retry` tries again.", nullable=True, volatile=True),
        timestamp("delivered_at", "When it was delivered; NULL while pending.", nullable=True, volatile=True),
        string("delivered_to", "`smtp://host:port`, `webhook NAME`, `Alertmanager NAME` or a file's path.", nullable=True, volatile=True),
    ),
)  # fmt: skip  # a table: short fields share a line

ALERTING = (INCIDENTS, ALERT_OUTBOX)
