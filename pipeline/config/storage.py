"""The section `storage`: connection to an object store, and folders in one. It holds no secret."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import AfterValidator, GetPydanticSchema, PlainSerializer, ValidationInfo
from pydantic_core import core_schema

from pipeline.config.section import ConfigPath, Section, under_folder
from pipeline.environment import variable
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pyarrow import fs

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def is_remote(location: str | Path) -> bool:
    return "://" in str(location)


def _from_folder(location: str, validation: ValidationInfo) -> str:
    return location if is_remote(location) else str(under_folder(Path(location), validation))


Location = Annotated[str, AfterValidator(_from_folder)]  # or `s3a://bucket/path`


class Credentials(NamedTuple):
    """Credentials of an object store; empty where the library looks for them itself."""

    key_id: str = ""
    secret: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return "Credentials(...)"


class Storage(Section):
    endpoint: str | None = None
    """URL of a store that is not Amazon's, such as `http://minio:9000`."""
    region: str = "us-east-1"
    """Region of the bucket."""
    credentials: ConfigPath | None = None
    """File as the AWS tools write it, profile `default`; else AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY count, or the
    machine's role."""

    def read_credentials(self) -> Credentials:
        """Reads credentials from the file, else from the environment; empty without. `ConfigError` shows none of them."""
        if self.credentials is None:
            return Credentials(*(variable(key.upper()) or "" for key in _KEYS))
        parser = configparser.ConfigParser()
        try:
            parser.read_string(self.credentials.read_text(encoding="utf-8"))
            profile = parser["default"]
            return Credentials(profile[_KEYS[0]], profile[_KEYS[1]], profile.get(_KEYS[2], ""))
        except OSError as error:
            raise ConfigError(f"{self.credentials} cannot be read: {error.strerror or error}") from error
        except (configparser.Error, KeyError, ValueError):
            # its message could hold what was found
            reason = f"{self.credentials}: expected [default] with aws_access_key_id and aws_secret_access_key"
            raise ConfigError(reason) from None


NO_STORAGE = Storage()


@dataclass(frozen=True)
class RemoteFolder:
    """A folder in an object store. Credentials are read where they are used: by the driver, and by every executor."""

    location: str  # such as `s3a://bucket/path`
    storage: Storage = NO_STORAGE

    def __str__(self) -> str:
        return self.location

    def joinpath(self, *names: str) -> RemoteFolder:
        return RemoteFolder("/".join((self.location.rstrip("/"), *names)), self.storage)

    @property
    def path(self) -> str:
        return self.location.partition("://")[2].rstrip("/")

    @property
    def is_s3(self) -> bool:
        """Whether the store speaks Amazon's protocol; others take no settings from the section `storage`."""
        return self.location.partition("://")[0] in {"s3", "s3a"}

    def delta_options(self) -> dict[str, str]:
        """Options of delta-rs. It commits by a PUT that fails where the version is there already."""
        if not self.is_s3:
            return {}
        key_id, secret, token = self.storage.read_credentials()
        endpoint = self.storage.endpoint or ""
        given = {
            "aws_region": self.storage.region,
            "aws_endpoint": endpoint,
            "aws_allow_http": str(endpoint.startswith("http://")).lower(),
            "aws_access_key_id": key_id,
            "aws_secret_access_key": secret,
            "aws_session_token": token,
        }
        return {"aws_conditional_put": "etag"} | {name: value for name, value in given.items() if value}

    def file_system(self) -> fs.FileSystem:
        from pyarrow import fs  # noqa: PLC0415 - loaded where a store is used

        if not self.is_s3:
            return fs.FileSystem.from_uri(self.location)[0]
        key_id, secret, token = self.storage.read_credentials()
        return fs.S3FileSystem(
            endpoint_override=self.storage.endpoint,
            region=self.storage.region,
            access_key=key_id or None,
            secret_key=secret or None,
            session_token=token or None,
        )


Folder = Path | RemoteFolder


def open_in_arrow(folder: Folder) -> tuple[fs.FileSystem | None, str]:
    """A folder's file system, None for local files; and the folder as Arrow names it there, in a store without the scheme."""
    if isinstance(folder, Path):
        return None, str(folder)
    return folder.file_system(), folder.path


# in a table's path delta-rs 1.6 panics at these, or looks elsewhere: it reads `%41` as `A`
_UNUSABLE = re.compile(r"[|\[\]^\\]|%[0-9A-Fa-f]{2}")


def _read_folder(given: object, read: core_schema.ValidatorFunctionWrapHandler, validation: ValidationInfo) -> Folder:
    if isinstance(given, RemoteFolder):
        return given
    if isinstance(given, str) and is_remote(given):
        return RemoteFolder(given, validation.data.get("storage", NO_STORAGE))
    folder: Path = read(given)
    if unusable := sorted({*_UNUSABLE.findall(str(folder))}):
        raise ValueError(f"Delta tables cannot be in {folder}: {' '.join(unusable)} in a path makes their library fail")
    return folder


ConfigFolder = Annotated[
    Folder,
    GetPydanticSchema(lambda _, make: core_schema.with_info_wrap_validator_function(_read_folder, make(ConfigPath))),
    PlainSerializer(str),
]  # A folder as `ConfigPath`, or one in an object store; the field `storage` stands before it
