"""A warehouse whose outbox holds messages, and what becomes of them when it is handed over."""

from dataclasses import replace

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import render_message
from pipeline.alerting.webhook import render_webhook
from pipeline.config.mail import Mail, Webhook
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.jobs import deliver_alerts
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.incidents import ALERT_OUTBOX
from pipeline.tables.values import row_of
from tests.mail_parts import read_mail
from tests.unit.alerting.examples import T0_MS, new_evidence, resolved_evidence

NOW_MS = T0_MS + 3_600_000


def message_for(evidence, recipients=("ops@x.org",)):
    return render_message(describe_broker_share(evidence), sender="health@x.org", recipients=recipients, now_ms=T0_MS)


def configure(folder):
    clusters = {"demo": {"sources": [LogDirectories(kind="log_directories", paths=(folder,))]}}
    return PipelineConfig(warehouse=folder / "warehouse", outbox=folder / "outbox", clusters=clusters)


def make_outbox(folder):
    """The configuration of an outbox that holds a resolved and a new message, queued in the wrong order."""
    config = configure(folder)
    ensure_tables(config.warehouse, (ALERT_OUTBOX,))
    queue(config, message_for(resolved_evidence()), message_for(new_evidence()))
    return config


def queue(config, *messages):
    rows = [row_of(message, ALERT_OUTBOX) for message in messages]
    insert_rows(rows_of(ALERT_OUTBOX, rows, run_id="r1"), config.warehouse, ALERT_OUTBOX)


def queue_other(config, *recipients, cluster="other", **changes):
    """Queues a mail about another cluster."""
    queue(config, replace(message_for(new_evidence(cluster=cluster), recipients or ("ops@x.org",)), **changes))


def queue_post(config, name="pager"):
    """Queues a message for a webhook, and returns it."""
    hook = Webhook(name=name, url_variable="PAGER_URL")
    queue(config, render_webhook(describe_broker_share(new_evidence(cluster="third")), hook, now_ms=T0_MS))
    return hook


def with_mail(config, **mail):
    return config.model_copy(update={"mail": Mail(**mail)})


def stored(config):
    """Rows of the outbox by the state that they tell."""
    return {row["state"]: row for row in load_rows(config.warehouse, ALERT_OUTBOX).to_pylist()}


def send(config, smtp, now_ms=NOW_MS):
    report = deliver_alerts.run(config, smtp, now_ms=now_ms)
    report.check()
    return report


def message_ids(mailbox):
    return [read_mail(kept)["Message-ID"] for kept in mailbox.kept]
