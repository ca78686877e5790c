"""The section `storage`: connection to an object store. It holds no secret."""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ValidationInfo

from pipeline.config.section import ConfigPath, Section
from pipeline.environment import variable
from pipeline.errors import ConfigError

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def is_remote(location: str | Path) -> bool:
    """Returns whether a location is in an object store."""
    return "://" in str(location)


def _from_folder(location: str, validation: ValidationInfo) -> str:
    folder: Path | None = (validation.context or {}).get("folder")
    return location if folder is None or is_remote(location) else str(folder / Path(location).expanduser())


Location = Annotated[str, AfterValidator(_from_folder)]
"""A folder, or `s3a://bucket/path`; a relative folder is taken from that of the configuration's file."""


class Credentials(NamedTuple):
    """Credentials of an object store; empty where the library looks for them itself."""

    key_id: str = ""
    secret: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return "Credentials(...)"


class Storage(Section):
    """Connection to an object store.

    Attributes:
        endpoint: URL of a store that is not Amazon's, such as `http://minio:9000`.
        region: Region of the bucket.
        credentials: File as the AWS tools write it, profile `default`; else AWS_ACCESS_KEY_ID and
            AWS_SECRET_ACCESS_KEY count, or the machine's role.
    """

    endpoint: str | None = None
    region: str = "us-east-1"
    credentials: ConfigPath | None = None

    def read_credentials(self) -> Credentials:
        """Reads credentials from the file, else from the environment; empty where neither has any.

        Raises:
            ConfigError: The file cannot be read or has no keys; what it holds is not shown.
        """
        if self.credentials is None:
            return Credentials(*(variable(key.upper()) or "" for key in _KEYS))
        parser = configparser.ConfigParser()
        try:
            parser.read_string(self.credentials.read_text(encoding="utf-8"))
            found = parser["default"]
            return Credentials(found[_KEYS[0]], found[_KEYS[1]], found.get(_KEYS[2], ""))
        except OSError as error:
            raise ConfigError(f"{self.credentials} cannot be read: {error.strerror or error}") from error
        except (configparser.Error, KeyError, ValueError):
            # its message could hold what was found
            reason = f"{self.credentials}: expected [default] with aws_access_key_id and aws_secret_access_key"
            raise ConfigError(reason) from None


NO_STORAGE = Storage()
