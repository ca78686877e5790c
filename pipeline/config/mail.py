"""The configuration's section `mail`: who is notified of incidents, through which channel, and what is muted."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from pipeline.config.section import ConfigPath, Duration, Section
from pipeline.environment import environment_secret


class Smtp(Section):
    """The mail server. The password comes from the environment variable named here, never from the file."""

    host: str
    port: int = Field(25, gt=0, lt=65536)
    user: str | None = None
    password_variable: str | None = None
    tls: Literal["none", "starttls", "tls"] = "starttls"
    timeout_s: float = Field(20, gt=0)

    @property
    def password(self) -> str | None:
        """The secret, read when it is used; `ConfigError` where the variable is named but not set."""
        return environment_secret(self.password_variable)


class Webhook(Section):
    """Where a copy of every mail is posted as JSON.

    Attributes:
        url_variable: Environment variable that holds the address, which is a secret.
        form: `generic` JSON, or `slack` for what takes Slack's incoming webhooks.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    url_variable: str = Field(min_length=1)
    form: Literal["generic", "slack"] = "generic"
    timeout_s: float = Field(20, gt=0)

    @property
    def url(self) -> str:
        """The address, read when it is used; `ConfigError` where the variable is not set."""
        return environment_secret(self.url_variable) or ""


MAIL_CHANNEL = "mail"


class Mail(Section):
    """Who mail comes from and where it goes; without `smtp` every mail becomes a file in the outbox folder.

    Attributes:
        digest_above: More changes than that in one window of a cluster share one message.
        mutes: File with what is muted, and until when; `partition-health mute` writes it.
        tell_within: Windows that ended longer before the run's now notify nobody, unless asked to: backfills stay silent.
        give_up_after: A message that cannot be delivered for that long is given up, with a note.
    """

    sender: str = "partition-health@localhost"
    to: tuple[str, ...] = ("platform@localhost",)
    smtp: Smtp | None = None
    webhooks: tuple[Webhook, ...] = ()
    digest_above: int = Field(10, ge=1)
    mutes: ConfigPath = Path("mutes.yaml")
    tell_within: Duration = timedelta(days=1)
    give_up_after: Duration = timedelta(days=3)

    @field_validator("webhooks")
    @classmethod
    def _named_once(cls, webhooks: tuple[Webhook, ...]) -> tuple[Webhook, ...]:
        names = [MAIL_CHANNEL, *(webhook.name for webhook in webhooks)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"webhook {name}: that name is taken")
        return webhooks
