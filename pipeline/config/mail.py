"""The configuration's section `mail`: who is notified of incidents, through which channel, and what is muted."""

from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from pipeline.config.http_access import HttpLogin, HttpUrl, hide_secrets, is_this_machine, list_parts
from pipeline.config.section import ConfigPath, Duration, Section, TimeoutSeconds
from pipeline.environment import environment_secret


def _check_address(text: str) -> str:
    header = EmailMessage(policy=SMTP)
    try:
        header["To"] = text
        (address,) = header["To"].addresses
        address.addr_spec.encode("ascii")
        is_sound = bool(address.username and address.domain) and not header["To"].defects
        is_sound &= "," not in text  # which parts the recipients of a message
    except (ValueError, LookupError):
        is_sound = False
    if not is_sound:
        raise ValueError(f"found {text!r}; expected one address in ASCII, such as ops@example.org (domain as xn--...)")
    return text


Address = Annotated[str, AfterValidator(_check_address)]  # with a display name or without


class Smtp(Section):
    """The mail server. The password comes from the environment variable named here, never from the file."""

    host: str
    """Name or address of the server."""
    port: int = Field(25, gt=0, lt=65536)
    """Its port."""
    user: str | None = None
    """Login; none where the server asks for none."""
    password_variable: str | None = None
    """Environment variable that holds the password."""
    tls: Literal["none", "starttls", "tls"] = "starttls"
    """`starttls`, `tls` from the first byte, or `none`; with `user` only on this machine, as the password would be sent
    in clear."""
    ca_file: ConfigPath | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    timeout_s: TimeoutSeconds = 20

    @model_validator(mode="after")
    def _keep_password_secret(self) -> Self:
        if self.user is not None and self.tls == "none" and not is_this_machine(self.host):
            raise ValueError("the password would be sent in clear: set tls to starttls or tls")
        return self

    @property
    def password(self) -> str | None:
        """The secret, read when it is used; `ConfigError` where the variable is named but not set."""
        return environment_secret(self.password_variable)

    def hide(self, words: str) -> str:
        """A server's words without the password that was sent to it."""
        return hide_secrets(words, self.password, user=self.user or "")


CHANNEL_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"


class Webhook(Section):
    """A webhook: a copy of every mail is posted there as JSON."""

    name: str = Field(pattern=CHANNEL_NAME)
    """Channel of its messages in the outbox."""
    url_variable: str = Field(min_length=1)
    """Environment variable that holds the address, which is a secret."""
    form: Literal["generic", "slack"] = "generic"
    """`generic` JSON, or `slack` for what takes Slack's incoming webhooks."""
    timeout_s: TimeoutSeconds = 20

    @property
    def url(self) -> str:
        return environment_secret(self.url_variable) or ""

    def hide(self, words: str) -> str:
        """A server's words without the address, or parts of it."""
        return hide_secrets(words, *list_parts(self.url))


class Alertmanager(HttpLogin):
    """An Alertmanager that gets every incident as an alert, and whose silences hold for mail and webhooks too."""

    name: str = Field("alertmanager", pattern=CHANNEL_NAME)
    """Channel of its messages in the outbox."""
    url: HttpUrl
    """Its address, such as `http://alertmanager:9093`; of a cluster one entry per instance."""
    labels: dict[Annotated[str, Field(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")], str] = Field(default_factory=dict)
    """Further labels of each alert, such as `team`; `severity` is `critical` unless given."""
    keep: Duration = timedelta(days=2)
    """How long an alert fires without news of its incident; for `gate.repeat` and a window at least."""


MAIL_CHANNEL = "mail"


class Mail(Section):
    """Sender, recipients and server of mail; without `smtp` every mail becomes a file in the outbox folder."""

    sender: Address = "partition-health@localhost"
    """Address that mails come from."""
    to: tuple[Address, ...] = ("platform@localhost",)
    """Recipients of mails about clusters without `mail_to`, and about failed and late runs."""
    smtp: Smtp | None = None
    """The mail server."""
    to_files: bool = False
    """Without `smtp` mails become files at once, even if a server took some within the last 30 days."""
    webhooks: tuple[Webhook, ...] = ()
    """Webhooks that get a copy of each mail."""
    alertmanagers: tuple[Alertmanager, ...] = ()
    """Alertmanagers that get incidents as alerts."""
    digest_above: int = Field(10, ge=1)
    """More changes than that in one window of a cluster share one message."""
    daily: bool = False
    """One mail a day to `to`, about all clusters: which are healthy, which have incidents, which were not judged."""
    mutes: ConfigPath = Path("mutes.yaml")
    """File with the mutes and their ends; `partition-health mute` writes it."""
    tell_within: Duration = timedelta(days=1)
    """No message is sent about windows that ended longer before the run, unless `--notify` is given, so backfills send
    none. A message about the end of a reported incident is sent all the same."""
    give_up_after: Duration = timedelta(days=3)
    """A message that cannot be delivered for that long is given up, with a note."""

    @field_validator("webhooks", "alertmanagers")
    @classmethod
    def _named_once(cls, channels: tuple[Any, ...], validation: ValidationInfo) -> tuple[Any, ...]:
        names = [MAIL_CHANNEL, *(one.name for one in (*validation.data.get("webhooks", ()), *channels))]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"channel {name}: that name is taken")
        return channels
