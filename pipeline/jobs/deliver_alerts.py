"""Hands over what is queued in `gold.alert_outbox`: by SMTP or as files, and to webhooks. No Spark.

At least once: a message is marked after it was handed over. A crash in between repeats that message, with the same
Message-ID (over SMTP) or into the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.alerting.delivery import deliver
from pipeline.alerting.message import addresses
from pipeline.alerting.webhook import post
from pipeline.config.mail import MAIL_CHANNEL
from pipeline.errors import DeliveryError, UnusableServerError
from pipeline.model.window import milliseconds_of
from pipeline.storage.outbox import delivering, mark_attempt, mark_delivered, pending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.config.mail import Smtp
    from pipeline.config.pipeline_config import PipelineConfig
    from pipeline.storage.outbox import OutboxMessage

_FIRST_WAIT_MS = 30_000
_LONGEST_WAIT_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A message that was delivered.

    Attributes:
        message_id: Message-ID without brackets.
        subject_line: Its subject.
        delivered_to: `smtp://host:port`, or the file's path.
    """

    message_id: str
    subject_line: str
    delivered_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """What a run handed over.

    Attributes:
        deliveries: Messages, in the order of the windows they tell about.
        notes: Things a person should know, in sentences.
    """

    deliveries: tuple[HandedOver, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """A line per message, for people."""
        for delivery in self.deliveries:
            yield f"{delivery.subject_line} -> {delivery.delivered_to}"
        yield from self.notes


def run(config: PipelineConfig, smtp: Smtp | None, *, now_ms: int) -> DeliveryReport:
    """Delivers every message that is due once; a failing one does not stop the others.

    A server that cannot be used at all is asked once: the messages behind would each wait for the same timeout. After a
    failure a message waits, 30 s at first and twice as long each time, at most 6 hours, until it is given up.

    Args:
        config: Names the warehouse, the outbox folder and the webhooks.
        smtp: The mail server; without one mails become files in the outbox folder.
        now_ms: The clock, UTC milliseconds.

    Raises:
        DeliveryError: at the end, if a message or a part of its recipients failed, with the first reason. What failed
            stays in the outbox and goes out with a later run, but for recipients refused for good.
        ConfigError: if the environment lacks a password or an address.
    """
    with delivering(config.warehouse) as is_ours:
        if not is_ours:
            return DeliveryReport(notes=("another process delivers at this moment: left to it",))
        return _deliver_due(config, smtp, now_ms)


def _deliver_due(config: PipelineConfig, smtp: Smtp | None, now_ms: int) -> DeliveryReport:
    waiting = pending(config.warehouse)
    due = [message for message in waiting if message.next_attempt_at_ms <= now_ms]
    handed_over, failures = [], []
    unusable: set[str] = set()
    for message in due:
        if message.channel in unusable:
            continue
        try:
            delivered_to, refused = _deliver_one(config, smtp, message, now_ms)
        except DeliveryError as error:
            told = _put_off(config, message, str(error), now_ms)
            failures.append(f"{message.message_id}: {told}")
            if isinstance(error, UnusableServerError):
                unusable.add(message.channel)
            continue
        failures += [f"{message.message_id}: {answer}" for answer in refused]
        handed_over.append(
            HandedOver(message_id=message.message_id, subject_line=message.subject_line, delivered_to=delivered_to)
        )
    if failures:
        left_count = len(waiting) - len(handed_over)
        raise DeliveryError(
            f"{len(handed_over)} of {len(due)} messages delivered, {left_count} stay in the outbox; "
            f"first failure: {failures[0]}"
        )
    left_count = len(waiting) - len(due)
    notes = (f"{left_count} messages wait for their next try: partition-health outbox",) if left_count else ()
    return DeliveryReport(deliveries=tuple(handed_over), notes=notes)


def _put_off(config: PipelineConfig, message: OutboxMessage, reason: str, now_ms: int) -> str:
    """Marks a failed attempt: tried again later, or given up. Returns what to tell."""
    retry_at_ms: int | None = now_ms + min(_FIRST_WAIT_MS << min(message.attempt_count, 20), _LONGEST_WAIT_MS)
    told = reason
    if now_ms - message.queued_at_ms >= milliseconds_of(config.mail.give_up_after):
        retry_at_ms, told = None, f"given up after {message.attempt_count + 1} attempts: {reason}"
    mark_attempt(config.warehouse, message.message_id, error=told, retry_at_ms=retry_at_ms, now_ms=now_ms)
    return told


def _deliver_one(
    config: PipelineConfig, smtp: Smtp | None, message: OutboxMessage, now_ms: int
) -> tuple[str, tuple[str, ...]]:
    """Delivers, then marks. Returns where it went, and recipients refused for good."""
    delivered_to, refused = _hand_over(config, smtp, message)
    told = delivered_to + "".join(f"; refused {answer}" for answer in refused)
    mark_delivered(config.warehouse, message.message_id, delivered_to=told, now_ms=now_ms)
    return delivered_to, refused


def _hand_over(config: PipelineConfig, smtp: Smtp | None, message: OutboxMessage) -> tuple[str, tuple[str, ...]]:
    if message.channel == MAIL_CHANNEL:
        delivery = deliver(
            message.payload,
            addresses(message.recipients),
            smtp=smtp,
            outbox_folder=config.outbox,
            message_id=message.message_id,
        )
        return delivery.delivered_to, delivery.refused
    for webhook in config.mail.webhooks:
        if webhook.name == message.channel:
            return post(message.payload, webhook, message_id=message.message_id), ()
    raise DeliveryError(f"no webhook {message.channel} under mail.webhooks in the configuration")
