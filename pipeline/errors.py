"""One tree of errors; each class knows the exit code of the command line.

Codes: 0 fine, 1 unexpected, 2 usage or configuration, 3 nothing usable in the input, 4 a gate failed,
5 delivery failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class PipelineError(Exception):
    """Any error this project raises on purpose; shown without a traceback."""

    exit_code = 1


class ConfigError(PipelineError):
    """A configuration or a command line that cannot be used: fails before Spark starts."""

    exit_code = 2


class NothingUsableError(PipelineError):
    """The input was reachable but held nothing that could be used."""

    exit_code = 3


class InputError(PipelineError):
    """One piece of bad input: what was found, what was expected, and where.

    Args:
        reason: What was found and what was expected, in one sentence.
        path: The file, or None for bytes that came from elsewhere.
        position: Byte position (or line number, for text) of the first bad byte, or None.
        first_bytes: The first bytes at the position, for the quarantine table; at most 64 are kept.
    """

    exit_code = 3

    def __init__(
        self, reason: str, *, path: Path | str | None = None, position: int | None = None, first_bytes: bytes = b""
    ) -> None:
        where = "" if path is None else f"{path}" + ("" if position is None else f" at {position}") + ": "
        super().__init__(f"{where}{reason}")
        self.reason = reason
        self.path = path
        self.position = position
        self.first_bytes = first_bytes[:64]


class HttpStatusError(InputError):
    """A server answered, and not with what was asked for.

    Args:
        status: The answer's status code.
        reason: What came and what to do.
        path: The address without secrets.
    """

    def __init__(self, status: int, reason: str, *, path: str) -> None:
        super().__init__(reason, path=path)
        self.status = status


class SourceUnreachableError(PipelineError):
    """A source did not answer, or refused us; the message says why, as far as it could be found out."""

    exit_code = 3


class DataGateError(PipelineError):
    """The next step may not trust a table: the data gate failed; retrying does not help."""

    exit_code = 4


class HealthGateError(PipelineError):
    """The cluster is not healthy; incidents were queued before this was raised."""

    exit_code = 4


class GateBrokenError(PipelineError):
    """A check itself raised; nothing is known about the data."""


class DeliveryError(PipelineError):
    """A message could not be delivered; it stays in the outbox."""

    exit_code = 5


class UnusableServerError(DeliveryError):
    """A mail server or webhook cannot be used at all: not reached, no TLS, no login. The next message would fare alike."""


class StorageConflictError(PipelineError):
    """Another writer committed first; worth a retry."""


class TableMismatchError(PipelineError):
    """A frame, or a table on disk, does not fit the declared table."""
