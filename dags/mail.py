"""Mail from tasks: over the Airflow connection `smtp_default` where it is defined, else as the configuration says."""

import contextlib
import hashlib
import logging
import time
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied
from pydantic import SecretStr, ValidationError

from dags.secrets import lend_secrets
from pipeline.alerting.message import ID_DOMAIN, format_subject
from pipeline.config.mail import Smtp
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.section import format_problems
from pipeline.config_file import load_usable
from pipeline.errors import ConfigError
from pipeline.jobs import deliver_alerts
from pipeline.model.number_text import escape_hidden

CONNECTION_ID = "smtp_default"
_log = logging.getLogger(__name__)


class ConnectionSmtp(Smtp):
    secret: SecretStr | None = None

    @property
    def password(self) -> str | None:
        return None if self.secret is None else self.secret.get_secret_value()


def smtp_of(connection: Any) -> Smtp:  # Connection, or whatever has its fields
    """Reads a connection as Airflow's own SMTP provider does: TLS, unless `disable_ssl`; STARTTLS, unless `disable_tls`."""
    extra = connection.extra_dejson
    tls = "tls" if not extra.get("disable_ssl") else "none" if extra.get("disable_tls") else "starttls"
    return ConnectionSmtp(
        host=connection.host,
        port=connection.port or {"tls": 465, "starttls": 587, "none": 25}[tls],
        user=connection.login or None,
        secret=SecretStr(connection.password) if connection.password else None,
        tls=tls,
        timeout_s=float(extra.get("timeout", 20)),
    )


class _WrongConnection(Smtp):
    """In place of a server: mails wait, and other messages leave."""

    reason: str

    @property
    def password(self) -> str | None:
        raise ConfigError(f"the connection {self.host} of Airflow names no mail server that can be used: {self.reason}")


def configured_smtp(config: PipelineConfig) -> Smtp | None:
    """The connection `smtp_default`, which a deadline's callback cannot see, else the configuration's server, if any."""
    try:
        return smtp_of(Connection.get(CONNECTION_ID))
    except (AirflowNotFoundException, AirflowSecretsBackendAccessDenied):
        return config.mail.smtp
    except ValidationError as error:
        return _WrongConnection(host=CONNECTION_ID, reason=format_problems(error, ConnectionSmtp))
    except (AttributeError, TypeError, ValueError):
        return _WrongConnection(host=CONNECTION_ID, reason="extra or timeout is not as Airflow's SMTP provider has it")


def deliver_queued(now_ms: int) -> list[str]:
    config = load_usable()
    lend_secrets(config)
    report = deliver_alerts.run(config, configured_smtp(config), now_ms=now_ms)
    report.check()
    return [*(f"{message.subject_line} -> {place}" for message, place in report.deliveries), *report.notes]


def deliver_text(subject: str, text: str) -> str:
    """Sends a plain mail to the platform's people, and what waits in the outbox; queues it where no server takes it."""
    config = load_usable()
    with contextlib.suppress(Exception):  # a deadline's callback sees no connections
        lend_secrets(config)
    subject, text = escape_hidden(subject), escape_hidden(text, keep="\n")  # a task's log may hold half a character
    message = EmailMessage(policy=SMTP)
    digest = hashlib.blake2b(f"{subject}\n{text}".encode(), digest_size=8).hexdigest()
    message_id = f"failure.{digest}@{ID_DOMAIN}"
    message["From"], message["To"] = config.mail.sender, ", ".join(config.mail.to)
    message["Subject"], message["Message-ID"] = format_subject(" ".join(subject.split())), f"<{message_id}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    now_ms = time.time_ns() // 1_000_000  # of a task that failed before it began there is no other clock
    smtp = configured_smtp(config)
    place, is_sent = deliver_alerts.deliver_or_queue(config, smtp, message, message_id, now_ms=now_ms)
    _log.info("failure mail: %s", place)
    if is_sent:
        try:  # while ingest fails nothing else sends what waits
            deliver_alerts.run(config, smtp, now_ms=now_ms, wait_s=0)
        except Exception:  # noqa: BLE001 - the mail itself has left
            _log.exception("what waits in the outbox stays there")
    return place
