"""Delivers what is queued in `gold.alert_outbox`: by SMTP or as files, to webhooks and Alertmanagers. No Spark.

At least once: an attempt is noted before it begins, the delivery after it. A crash in between repeats that message once,
with the same Message-ID (over SMTP) or into the same file. While the outbox cannot be written nothing is handed over.

A silence of Alertmanager holds for every channel: a message all of whose incidents are silenced when it is due is not sent, and
the outbox keeps why. Alertmanager itself gets it, and keeps quiet. Silences that cannot be read hold nothing back.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from operator import attrgetter

from pipeline.alerting.alertmanager import Silence, alert_labels, find_covering, post_alert, read_silences
from pipeline.alerting.content import DIGEST
from pipeline.alerting.delivery import Delivery, deliver
from pipeline.alerting.digest import ALL_CLUSTERS
from pipeline.alerting.message import attach_report
from pipeline.alerting.webhook import post
from pipeline.config.mail import MAIL_CHANNEL, Smtp
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.errors import ConfigError, DeliveryError, PipelineError, UnusableServerError
from pipeline.model.incident import AlertMessage
from pipeline.model.window import milliseconds_of
from pipeline.storage.outbox import delivering, mark_attempt, mark_delivered, mark_failed, pending, queue
from pipeline.storage.rows import load_rows
from pipeline.tables.incidents import INCIDENTS

_MOST_REPORT_BYTES = 2_000_000  # servers refuse mails of 10 MB and more; a file grows by a third on its way
_FIRST_WAIT_MS = 30_000
_LONGEST_WAIT_MS = 6 * 3_600_000
_CHANNEL_S = 600
"""Of a run: a slow server holds up the other channels no longer, and its messages go out with later runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    # messages, each with where it went (`smtp://host:port`, a webhook, the file's path)
    deliveries: tuple[tuple[AlertMessage, str], ...] = ()
    notes: tuple[str, ...] = ()  # what people should know
    failure: str | None = None  # how many messages failed and why the first did, else None

    def check(self) -> None:
        """Raises `DeliveryError` if a message or a part of its recipients failed."""
        if self.failure is not None:
            raise DeliveryError(self.failure)


def run(
    config: PipelineConfig, smtp: Smtp | None, *, now_ms: int, clock: Callable[[], float] = time.monotonic
) -> DeliveryReport:
    """Delivers every message that is due once; a failing one does not stop the others.

    A server that cannot be used at all, or whose password or address the environment lacks, is tried once: the messages
    behind would each wait for the same timeout. After a failure a message waits, 30 s at first and twice as long each
    time, at most 6 hours, until it is given up. What failed stays in the outbox and goes out with a later run, but for
    recipients refused for good.
    """
    with delivering(config.local_folder) as is_ours:
        if not is_ours:
            return DeliveryReport(notes=("another process is delivering",))
        return _deliver_due(config, smtp, now_ms, clock)


def deliver_or_queue(
    config: PipelineConfig, smtp: Smtp | None, mail: EmailMessage, message_id: str, *, now_ms: int
) -> str:
    """Sends a mail to the platform's people that no cluster's run makes; queues it where no server takes it. Where it went."""
    payload = mail.as_bytes()
    try:
        to, folder = config.mail.to, config.outbox
        return deliver(payload, to, smtp=smtp, outbox_folder=folder, message_id=message_id).delivered_to
    except DeliveryError as error:
        message = AlertMessage(
            message_id=message_id,
            cluster=ALL_CLUSTERS,
            incident_id=message_id,
            state=DIGEST,
            window_start_ms=now_ms,
            channel=MAIL_CHANNEL,
            tells="",
            subject_line=str(mail["Subject"]),
            recipients=",".join(config.mail.to),
            payload=payload,
            queued_at_ms=now_ms,
        )
        queue(config.warehouse, message, run_id="failure")
        return f"queued, as {error}"


def _deliver_due(config: PipelineConfig, smtp: Smtp | None, now_ms: int, clock: Callable[[], float]) -> DeliveryReport:
    waiting = pending(config.warehouse)
    due = [message for message in waiting if (message.next_attempt_at_ms or 0) <= now_ms]
    delivered: list[tuple[AlertMessage, str]] = []
    failures: list[str] = []
    unusable: set[str | None] = set()
    spent_s: dict[str | None, float] = defaultdict(float)
    alertmanagers = {one.name for one in config.mail.alertmanagers}
    # an alert of Alertmanager has one state: what comes later about an incident waits for what came before
    held: set[tuple[str | None, str]] = {
        (m.channel, m.incident_id) for m in waiting if m not in due and m.channel in alertmanagers
    }
    silenced, notes = _find_silenced(config, due)
    for message in due:
        incident = (message.channel, message.incident_id)
        if message.channel in unusable or incident in held or spent_s[message.channel] > _CHANNEL_S:
            continue
        silenced_by = silenced.get(message.message_id)
        if silenced_by is not None and message.channel not in alertmanagers:
            mark_failed(config.warehouse, message.message_id, error=silenced_by.describe(), given_up_at_ms=now_ms)
            notes.append(f"{message.subject_line}: {silenced_by.describe()}")
            continue
        wait_ms = min(_FIRST_WAIT_MS << min(message.attempt_count, 20), _LONGEST_WAIT_MS)
        mark_attempt(config.warehouse, message.message_id, retry_at_ms=now_ms + wait_ms)
        began_s = clock()
        try:
            delivery = _deliver(config, smtp, message, now_ms)
        except Exception as error:  # noqa: BLE001 - no message stops the others
            reason = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
            failures.append(f"{message.message_id}: {_keep_failure(config, message, reason, now_ms)}")
            if message.channel in alertmanagers:
                held.add(incident)
            if isinstance(error, UnusableServerError | ConfigError):
                unusable.add(message.channel)
            continue
        finally:
            spent_s[message.channel] += clock() - began_s
        place = delivery.delivered_to + "".join(f"; refused {answer}" for answer in delivery.refused)
        mark_delivered(config.warehouse, message.message_id, delivered_to=place, now_ms=now_ms)
        failures += [f"{message.message_id}: {answer}" for answer in delivery.refused]
        delivered.append((message, delivery.delivered_to))
    left_count = len(waiting) - len(due)
    if left_count:
        notes.append(f"{left_count} messages wait for their next attempt: partition-health outbox")
    failure = None
    if failures:
        failure = (
            f"{len(delivered)} of {len(due)} messages delivered, {len(waiting) - len(delivered)} stay in the outbox; "
            f"first failure: {failures[0]}"
        )
    return DeliveryReport(deliveries=tuple(delivered), notes=tuple(notes), failure=failure)


def _find_silenced(config: PipelineConfig, due: Sequence[AlertMessage]) -> tuple[dict[str, Silence], list[str]]:
    """Finds messages of which every incident is silenced, each with the silence that ends first of those it needs.

    Returns them by message id, and a note for each Alertmanager whose silences cannot be read.
    """
    labels: dict[tuple[str, str], dict[str, str]] = {}
    for cluster in {message.cluster for message in due} if config.mail.alertmanagers else ():
        columns = ("incident_id", "rule", "subject")
        for row in load_rows(config.warehouse, INCIDENTS, cluster=cluster, columns=columns).to_pylist():
            labels[cluster, row["incident_id"]] = alert_labels(cluster, row["rule"], row["subject"])
    told = [
        key for key in {(message.cluster, name) for message in due for name in message.incident_ids} if key in labels
    ]
    covering: dict[tuple[str, str], list[Silence]] = defaultdict(list)
    notes = []
    for alertmanager in config.mail.alertmanagers if due else ():
        try:
            found = find_covering(read_silences(alertmanager), [labels[key] for key in told])
        except (DeliveryError, ConfigError) as error:
            notes.append(f"its silences hold nothing back: {error}")
            continue
        for key, silences in zip(told, found, strict=True):
            covering[key] += silences
    silenced, end_of = {}, attrgetter("until_ms")
    for message in due:
        own = [covering[message.cluster, name] for name in message.incident_ids]
        if all(own):
            silenced[message.message_id] = min((max(one, key=end_of) for one in own), key=end_of)
    return silenced, notes


def _deliver(config: PipelineConfig, smtp: Smtp | None, message: AlertMessage, now_ms: int) -> Delivery:
    if message.channel == MAIL_CHANNEL:
        recipients = [address.strip() for address in message.recipients.split(",") if address.strip()]
        return deliver(
            _add_report(config, message),
            recipients,
            smtp=smtp,
            outbox_folder=config.outbox,
            message_id=message.message_id,
        )
    for webhook in config.mail.webhooks:
        if webhook.name == message.channel:
            return Delivery(delivered_to=post(message.payload, webhook, message_id=message.message_id))
    for alertmanager in config.mail.alertmanagers:
        if alertmanager.name == message.channel:
            return Delivery(delivered_to=post_alert(message.payload, alertmanager, now_ms=now_ms))
    raise DeliveryError(f"no webhook {message.channel} under mail.webhooks in the configuration, nor an Alertmanager")


def _add_report(config: PipelineConfig, message: AlertMessage) -> bytes:
    """The mail with the report about its window, where that was written and is not too large for a mail."""
    path = config.report_path(message.cluster, message.window_start_ms)
    try:
        html = path.read_bytes() if path.stat().st_size <= _MOST_REPORT_BYTES else None
    except OSError:
        return message.payload
    return message.payload if html is None else attach_report(message.payload, html)


def _keep_failure(config: PipelineConfig, message: AlertMessage, reason: str, now_ms: int) -> str:
    """Notes why an attempt failed, and gives up what has waited too long. Returns the reason as stored."""
    is_over = now_ms - message.queued_at_ms >= milliseconds_of(config.mail.give_up_after)
    if is_over:
        reason = f"given up after {message.attempt_count + 1} attempts: {reason}"
    mark_failed(config.warehouse, message.message_id, error=reason, given_up_at_ms=now_ms if is_over else None)
    return reason
