"""Hands over what is queued in `gold.alert_outbox`: by SMTP, or as files. No Spark.

At least once: a message is marked after it was handed over. A crash in between repeats that message, with the same
Message-ID (over SMTP) or into the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.alerting.delivery import deliver
from pipeline.alerting.message import addresses
from pipeline.errors import DeliveryError, MailServerError
from pipeline.storage.outbox import mark_attempt, mark_delivered, pending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.config import PipelineConfig
    from pipeline.mail_settings import Smtp
    from pipeline.storage.outbox import OutboxMessage

JOB = "deliver_alerts"


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
    """

    deliveries: tuple[HandedOver, ...] = ()

    def lines(self) -> Iterator[str]:
        """A line per message, for people."""
        for delivery in self.deliveries:
            yield f"{delivery.subject_line} -> {delivery.delivered_to}"


def run(config: PipelineConfig, smtp: Smtp | None, *, now_ms: int) -> DeliveryReport:
    """Delivers every pending message once; a failing one does not stop the others.

    A server that cannot be used at all stops the run: the messages behind would each wait for the same timeout.

    Args:
        config: Names the warehouse and the outbox folder.
        smtp: The mail server; without one messages become files in the outbox folder.
        now_ms: The clock, UTC milliseconds.

    Raises:
        DeliveryError: at the end, if a message or a part of its recipients failed, with the first reason. What failed
            stays pending and goes out with the next run, but for recipients refused for good.
        ConfigError: if the environment lacks the password.
    """
    handed_over, failures = [], []
    waiting = pending(config.warehouse)
    for message in waiting:
        try:
            delivered_to, refused = _deliver_one(config, smtp, message, now_ms)
        except DeliveryError as error:
            mark_attempt(config.warehouse, message.message_id, error=str(error))
            failures.append(f"{message.message_id}: {error}")
            if isinstance(error, MailServerError):
                break
            continue
        failures += [f"{message.message_id}: {answer}" for answer in refused]
        handed_over.append(
            HandedOver(message_id=message.message_id, subject_line=message.subject_line, delivered_to=delivered_to)
        )
    if failures:
        left_count = len(waiting) - len(handed_over)
        raise DeliveryError(
            f"{len(handed_over)} of {len(waiting)} messages delivered, {left_count} stay in the outbox; "
            f"first failure: {failures[0]}"
        )
    return DeliveryReport(deliveries=tuple(handed_over))


def _deliver_one(
    config: PipelineConfig, smtp: Smtp | None, message: OutboxMessage, now_ms: int
) -> tuple[str, tuple[str, ...]]:
    """Delivers, then marks. Returns where it went, and recipients refused for good."""
    delivery = deliver(
        message.payload,
        addresses(message.recipients),
        smtp=smtp,
        outbox_folder=config.outbox,
        message_id=message.message_id,
    )
    told = delivery.delivered_to + "".join(f"; refused {answer}" for answer in delivery.refused)
    mark_delivered(config.warehouse, message.message_id, delivered_to=told, now_ms=now_ms)
    return delivery.delivered_to, delivery.refused
