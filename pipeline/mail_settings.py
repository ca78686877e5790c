"""The configuration's section `mail`: who is told of incidents, and by which way."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.environment import environment_secret


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Smtp(_Frozen):
    """Where mail is handed over. The password comes from the environment variable named here, never from the file."""

    host: str
    port: int = Field(25, gt=0, lt=65536)
    user: str | None = None
    password_variable: str | None = None
    tls: Literal["none", "starttls", "tls"] = "starttls"
    timeout_s: float = Field(20, gt=0)

    @property
    def password(self) -> str | None:
        """The secret, read when it is used.

        Raises:
            ConfigError: if the variable is named but not set.
        """
        return environment_secret(self.password_variable)


class Mail(_Frozen):
    """Who mail comes from and where it goes; without `smtp` every mail becomes a file in the outbox folder."""

    sender: str = "partition-health@localhost"
    to: tuple[str, ...] = ("platform@localhost",)
    smtp: Smtp | None = None
