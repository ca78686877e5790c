"""Delivers what is queued in `gold.alert_outbox`, at least once: an attempt is noted before it begins, the delivery after it."""

import contextlib
import json
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from operator import attrgetter

from pipeline.alerting import alertmanager
from pipeline.alerting.delivery import Delivery, deliver
from pipeline.alerting.digest import ALL_CLUSTERS
from pipeline.alerting.message import DIGEST, attach_report
from pipeline.alerting.webhook import post
from pipeline.config.mail import MAIL_CHANNEL, Smtp
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.errors import ConfigError, DeliveryError, PipelineError, StorageError, UnusableServerError
from pipeline.model.incident import ENDED, AlertMessage
from pipeline.model.window import DAY_MS, milliseconds_of
from pipeline.storage import outbox
from pipeline.storage.rows import load_rows
from pipeline.tables.incidents import INCIDENTS

_MOST_REPORT_BYTES = 2_000_000  # servers refuse mails of 10 MB and more; a file grows by a third on its way
_FIRST_WAIT_MS = 30_000
_LONGEST_WAIT_MS = 6 * 3_600_000
_LEAST_ATTEMPTS = 7  # with the waits between half an hour: after a pause the server may come back later
_CHANNEL_S = 600  # of a run: a slow server holds up the other channels no longer
_SERVER_DAYS = 30
_NO_SERVER = (
    f"no mail server is known, and mails went to one within {_SERVER_DAYS} days, so none becomes a file: define the Airflow "
    "connection smtp_default, or set mail.smtp; mail.to_files where files are wanted"
)
_Clock = Callable[[], float]
_Alert = tuple[str | None, str]  # an Alertmanager's channel, and the alert's labels


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    # messages, each with where it went (`smtp://host:port`, a webhook, the file's path)
    deliveries: tuple[tuple[AlertMessage, str], ...] = ()
    notes: tuple[str, ...] = ()  # what people should know
    failure: str | None = None  # how many messages failed and why the first did, else None

    def check(self) -> None:
        if self.failure is not None:
            raise DeliveryError(self.failure)


def run(
    config: PipelineConfig, smtp: Smtp | None, *, now_ms: int, clock: _Clock = time.monotonic, wait_s: float = 60
) -> DeliveryReport:
    """Delivers every message that is due; one that fails stops no other, and waits twice as long each time, until it is given up."""
    with outbox.delivering(config.local_folder, wait_s=wait_s) as is_ours:
        if not is_ours:
            return DeliveryReport(notes=("another process is delivering",))
        return _deliver_due(config, smtp, now_ms, clock)


def deliver_or_queue(
    config: PipelineConfig, smtp: Smtp | None, mail: EmailMessage, message_id: str, *, now_ms: int
) -> tuple[str, bool]:
    """Sends a mail about a failure to the platform's people, or queues it; where it went, and whether all have it."""
    payload, left = mail.as_bytes(), config.mail.to
    try:
        if _lacks_server(config, smtp, now_ms):
            raise UnusableServerError(_NO_SERVER)
        delivery = deliver(payload, left, smtp=smtp, outbox_folder=config.outbox, message_id=message_id)
        if not delivery.put_off:
            return delivery.delivered_to, True
        left, reason = tuple(delivery.put_off), delivery.describe_rest()
    except (DeliveryError, ConfigError) as error:
        reason = str(error)
    message = AlertMessage(
        message_id=message_id,
        cluster=ALL_CLUSTERS,
        incident_id=message_id,
        state=DIGEST,
        window_start_ms=now_ms,
        channel=MAIL_CHANNEL,
        tells="",
        subject_line=str(mail["Subject"]),
        recipients=",".join(left),
        payload=payload,
        queued_at_ms=now_ms,
    )
    outbox.queue(config.warehouse, message, run_id="failure")
    return f"queued, as {reason}", False


def _deliver_due(config: PipelineConfig, smtp: Smtp | None, now_ms: int, clock: _Clock) -> DeliveryReport:
    waiting, notes = _leave_out_gone(config, outbox.pending(config.warehouse), now_ms)
    due = _list_due(waiting, now_ms)
    delivered: list[tuple[AlertMessage, str]] = []
    failures = _hold_mails(config, smtp, due, now_ms)
    unusable: set[str | None] = {MAIL_CHANNEL} if failures else set()
    spent_s: dict[str | None, float] = defaultdict(float)
    alerts = _find_alerts(config, waiting)
    # an alert of Alertmanager has one state: what comes later about it waits for what came before
    held = {alerts[m.message_id] for m in waiting if m.message_id in alerts and _has_to_wait(m, now_ms)}
    heard, told = _leave_out_silenced(config, due, alerts, now_ms)
    lots, notes = _list_lots(heard, alerts), [*notes, *told]
    untold = set[tuple[str, ...]]()  # incidents of which a message failed: the one about their end waits for it
    while lots:
        lot = [m for m in lots.popleft() if m.channel not in unusable and alerts.get(m.message_id) not in held]
        lot = [m for m in lot if m.state not in ENDED or untold.isdisjoint(m.incidents)]
        if not lot or spent_s[channel := lot[0].channel] > _CHANNEL_S:
            continue
        began_s, ids = clock(), [message.message_id for message in lot]
        wait_ms = min(_FIRST_WAIT_MS << min(lot[0].attempt_count, 20), _LONGEST_WAIT_MS)
        outbox.mark_attempt(config.warehouse, *ids, retry_at_ms=now_ms + wait_ms)
        try:
            delivery = _deliver(config, smtp, lot, now_ms)
        except Exception as error:  # noqa: BLE001 - no message stops the others
            is_unusable = isinstance(error, UnusableServerError | ConfigError)
            if len(lot) > 1 and not is_unusable:
                lots.extendleft([message] for message in reversed(lot))  # one of them may be to blame
                continue
            reason = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
            is_quiet = not is_unusable and _fails_no_task(lot[0])
            (notes if is_quiet else failures).extend(_keep_failure(config, lot, reason, now_ms))
            untold |= set() if is_quiet else lot[0].incidents
            held |= {alerts[message_id] for message_id in ids if message_id in alerts}
            unusable |= {channel} if is_unusable else set()
            continue
        finally:
            spent_s[channel] += clock() - began_s
        failures += [f"{lot[0].message_id}: {answer}" for answer in delivery.refused]
        if delivery.put_off:  # a mail, which is a lot of its own
            outbox.mark_failed(config.warehouse, *ids, error=delivery.describe_rest(), left=delivery.put_off)
            notes.append(f"{ids[0]}: {delivery.describe_rest()}")
            continue
        place = delivery.delivered_to + "".join(f"; refused {answer}" for answer in delivery.refused)
        outbox.mark_delivered(config.warehouse, *ids, delivered_to=place, now_ms=now_ms)
        delivered += [(message, delivery.delivered_to) for message in lot]
    notes += alertmanager.keep_firing(config, now_ms=now_ms)
    if left_count := len(waiting) - len(due):
        notes.append(f"{left_count} messages wait for their next attempt: partition-health outbox")
    counts = f"{len(delivered)} of {len(due)} messages delivered, {len(waiting) - len(delivered)} stay in the outbox"
    failure = f"{counts}; first failure: {failures[0]}" if failures else None
    return DeliveryReport(deliveries=tuple(delivered), notes=tuple(notes), failure=failure)


def _has_to_wait(message: AlertMessage, now_ms: int) -> bool:
    """Whether its next attempt is later; what is later than anybody ever waits was tried while the clock was ahead."""
    return 0 < (message.next_attempt_at_ms or 0) - now_ms <= _LONGEST_WAIT_MS


def _list_due(waiting: Sequence[AlertMessage], now_ms: int) -> list[AlertMessage]:
    """What is due, and what waits about incidents whose end is due: that is not to come first."""
    over = {one for m in waiting if m.state in ENDED and not _has_to_wait(m, now_ms) for one in m.incidents}
    return [m for m in waiting if not (_has_to_wait(m, now_ms) and over.isdisjoint(m.incidents))]


def _hold_mails(config: PipelineConfig, smtp: Smtp | None, due: Sequence[AlertMessage], now_ms: int) -> list[str]:
    """Says why mails wait where no server is known, to whom it may concern and in the outbox; nothing where they can leave."""
    ids = [message.message_id for message in due if message.channel == MAIL_CHANNEL]
    if not ids or not _lacks_server(config, smtp, now_ms):
        return []
    outbox.mark_failed(config.warehouse, *ids, error=_NO_SERVER)
    return [_NO_SERVER]


def _lacks_server(config: PipelineConfig, smtp: Smtp | None, now_ms: int) -> bool:
    """No mail server is named where mails went to one: Airflow says that it has no connection where it cannot ask for it."""
    try:
        went = outbox.went_by_server(config.warehouse, now_ms - _SERVER_DAYS * DAY_MS)
        return smtp is None and not config.mail.to_files and went
    except StorageError:  # a mail may be about this
        return False


def _fails_no_task(message: AlertMessage) -> bool:
    """Whether others have a mail, or it is itself about a failed task: each failure for it would be one more mail, to the same people."""
    if message.channel != MAIL_CHANNEL:
        return False
    to = message_from_bytes(message.payload, policy=SMTP)["To"]
    is_partly_delivered = to is not None and len(_list_recipients(message)) < len(to.addresses)
    return is_partly_delivered or message.incident_id == message.message_id


def _leave_out_gone(
    config: PipelineConfig, waiting: Sequence[AlertMessage], now_ms: int
) -> tuple[list[AlertMessage], list[str]]:
    webhooks, alertmanagers = config.mail.webhooks, config.mail.alertmanagers
    known = {MAIL_CHANNEL, *(one.name for one in webhooks), *(one.name for one in alertmanagers)}
    gone: dict[str, list[str]] = defaultdict(list)
    for message in waiting:
        if message.channel not in known:
            gone[str(message.channel)].append(message.message_id)
    notes = []
    for channel, ids in gone.items():
        reason = f"given up: the configuration has no webhook or Alertmanager {channel} any more"
        outbox.mark_failed(config.warehouse, *ids, error=reason, given_up_at_ms=now_ms)
        notes.append(f"{len(ids)} message{'' if len(ids) == 1 else 's'} {reason}")
    return [message for message in waiting if message.channel in known], notes


def _leave_out_silenced(
    config: PipelineConfig, due: Sequence[AlertMessage], alerts: Container[str], now_ms: int
) -> tuple[list[AlertMessage], list[str]]:
    """Gives up messages of which every incident is silenced, but Alertmanager's own; the others, and notes."""
    try:
        labels = _load_labels(config, due)
    except PipelineError as error:
        return list(due), [f"silences hold nothing back: {error}"]
    told = [key for key in {(one.cluster, name) for one in due for name in one.incident_ids} if key in labels]
    covering: dict[tuple[str, str], list[alertmanager.Silence]] = defaultdict(list)
    notes = []
    for server in config.mail.alertmanagers if due else ():
        try:
            silences = [one for one in alertmanager.read_silences(server) if one.until_ms > now_ms]
            found = alertmanager.find_covering(silences, [labels[key] for key in told])
        except Exception as error:  # noqa: BLE001 - no Alertmanager stops the mails
            said = error if isinstance(error, PipelineError) else f"{server.name}: {type(error).__name__}"
            notes.append(f"its silences hold nothing back: {said}")
            continue
        for key, own in zip(told, found, strict=True):
            covering[key] += own
    heard, end_of = [], attrgetter("until_ms")
    for message in due:
        needed = [covering[message.cluster, name] for name in message.incident_ids]
        if message.message_id in alerts or not all(needed):
            heard.append(message)
            continue
        reason = min((max(one, key=end_of) for one in needed), key=end_of).describe()
        outbox.mark_failed(config.warehouse, message.message_id, error=reason, given_up_at_ms=now_ms)
        notes.append(f"{message.subject_line}: {reason}")
    return heard, notes


def _load_labels(config: PipelineConfig, due: Sequence[AlertMessage]) -> dict[tuple[str, str], dict[str, str]]:
    labels, columns = {}, ("incident_id", "rule", "subject")
    for cluster in {message.cluster for message in due} if config.mail.alertmanagers else ():
        for row in load_rows(config.warehouse, INCIDENTS, cluster=cluster, columns=columns).to_pylist():
            labels[cluster, row["incident_id"]] = alertmanager.alert_labels(cluster, row["rule"], row["subject"])
    return labels


def _list_lots(due: Sequence[AlertMessage], alerts: Mapping[str, _Alert]) -> deque[list[AlertMessage]]:
    """What is handed over at once, mail first: states of alerts as lists, of each alert one at a time; others one by one."""
    lots: dict[tuple[bool, bool, int, str | None, int], list[AlertMessage]] = defaultdict(list)
    earlier: Counter[_Alert] = Counter()
    for number, message in enumerate(due):
        if alert := alerts.get(message.message_id):
            lots[True, True, earlier[alert], message.channel, message.attempt_count].append(message)
            earlier[alert] += 1
        else:
            lots[False, message.channel != MAIL_CHANNEL, number, "", 0].append(message)
    most = alertmanager.MOST_ALERTS
    return deque(lots[key][at : at + most] for key in sorted(lots) for at in range(0, len(lots[key]), most))


def _find_alerts(config: PipelineConfig, messages: Iterable[AlertMessage]) -> dict[str, _Alert]:
    """By message to an Alertmanager, whose state it tells: alerts are their labels, which incidents of one subject share."""
    channels = {one.name for one in config.mail.alertmanagers}
    alerts = {}
    for message in (one for one in messages if one.channel in channels):
        with contextlib.suppress(ValueError, LookupError, TypeError):  # of a channel that was a webhook: it fails alone
            labels = json.loads(message.payload)[0]["labels"]
            alerts[message.message_id] = message.channel, json.dumps(labels, sort_keys=True)
    return alerts


def _deliver(config: PipelineConfig, smtp: Smtp | None, lot: Sequence[AlertMessage], now_ms: int) -> Delivery:
    payload, message_id, channel = lot[0].payload, lot[0].message_id, lot[0].channel
    if channel == MAIL_CHANNEL:
        path, to = config.report_path(lot[0].cluster, lot[0].window_start_ms), _list_recipients(lot[0])
        with contextlib.suppress(OSError):  # there may be none
            if path.stat().st_size <= _MOST_REPORT_BYTES:
                payload = attach_report(payload, path.read_bytes())
        return deliver(payload, to, smtp=smtp, outbox_folder=config.outbox, message_id=message_id)
    for webhook in config.mail.webhooks:
        if webhook.name == channel:
            return Delivery(delivered_to=post(payload, webhook, message_id=message_id))
    server = next(one for one in config.mail.alertmanagers if one.name == channel)
    payload, keep_ms = alertmanager.join_alerts([one.payload for one in lot]), alertmanager.find_keep_ms(config, server)
    return Delivery(delivered_to=alertmanager.post_alert(payload, server, now_ms=now_ms, keep_ms=keep_ms))


def _list_recipients(message: AlertMessage) -> list[str]:
    return [address.strip() for address in message.recipients.split(",") if address.strip()]


def _keep_failure(config: PipelineConfig, lot: Sequence[AlertMessage], reason: str, now_ms: int) -> list[str]:
    """Notes why an attempt failed, and gives up what has waited too long and was tried often. Returns the reasons as stored, by message."""
    give_up_after_ms, kept = milliseconds_of(config.mail.give_up_after), []
    tried = lot[0].attempt_count + 1 >= _LEAST_ATTEMPTS
    for is_over in (True, False):
        ids = [m.message_id for m in lot if (tried and now_ms - m.queued_at_ms >= give_up_after_ms) is is_over]
        said = f"given up after {lot[0].attempt_count + 1} attempts: {reason}" if is_over else reason
        if ids:
            outbox.mark_failed(config.warehouse, *ids, error=said, given_up_at_ms=now_ms if is_over else None)
        kept += [f"{message_id}: {said}" for message_id in ids]
    return kept
