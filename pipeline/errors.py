"""One tree of errors; each class has the exit code of the command line."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from pathlib import Path

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
MOST_REASON = 1_000  # characters of an `InputError`'s reason: what it repeats of its input has no bound
FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)  # what a parser raises about its input


class PipelineError(Exception):
    """Base of the errors raised on purpose; shown without a traceback."""

    exit_code = 1


class ConfigError(PipelineError):
    """A configuration or a command line is wrong; raised before Spark starts."""

    exit_code = 2


class NothingUsableError(PipelineError):
    """The input was reachable but holds nothing usable."""

    exit_code = 3


class RowsNotKeptError(NothingUsableError):
    """The rows that a window would be replayed from were dropped (`sums_only`, `retention`); its sums stay as they are."""


class InputError(PipelineError):
    """One piece of bad input: what was found and expected, where, and the first bytes there, for the quarantine table."""

    exit_code = 3

    def __init__(
        self, reason: str, *, path: Path | str | None = None, position: int | None = None, first_bytes: bytes = b""
    ) -> None:
        reason = reason if len(reason) <= MOST_REASON else f"{reason[: MOST_REASON - 1]}…"
        where = "" if path is None else f"{path}" + ("" if position is None else f" at {position}") + ": "
        super().__init__(f"{where}{reason}")
        self.reason = reason
        self.path = path
        self.position = position
        self.first_bytes = first_bytes[:64]


def parser(parse: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Makes whatever a parser raises about its input an `InputError` that names the parser, and nothing of the input."""

    @functools.wraps(parse)
    def parse_or_refuse(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        try:
            return parse(*args, **kwargs)
        except FAILURES as error:
            reason = f"{parse.__qualname__} cannot read it ({type(error).__name__})"
            raise InputError(reason, path=cast("str | None", kwargs.get("path"))) from error

    return parse_or_refuse


class HttpStatusError(InputError):
    """A server answered with another status than 200; `path` is the address without secrets."""

    def __init__(self, status: int, reason: str, *, path: str) -> None:
        super().__init__(reason, path=path)
        self.status = status


class SourceUnreachableError(PipelineError):
    """A source did not answer, or refused the connection; the message says why, where that is known."""

    exit_code = 3


class DataGateError(PipelineError):
    """A data gate failed: the next step must not trust a table. A retry does not help."""

    exit_code = 4


class HealthGateError(PipelineError):
    """The cluster is not healthy; messages about incidents are already queued."""

    exit_code = 4


class GateBrokenError(PipelineError):
    """A check itself failed; nothing is known about the data."""


class DeliveryError(PipelineError):
    """A message could not be delivered; it stays in the outbox."""

    exit_code = 5


class UnusableServerError(DeliveryError):
    """A mail server or webhook cannot be used at all (unreachable, no TLS, no login); the next message would fail too."""


class UnexpectedError(PipelineError):
    """A step ended by an exception that is no `PipelineError`, which stays as its cause: a fault of this program."""


class SystemFailedError(UnexpectedError):
    """The exception was the operating system's (disk, memory, network): a retry may succeed."""


class SparkFailedError(PipelineError):
    """Spark, its JVM or one of its tasks failed; nothing of the step is trusted."""


class StorageError(PipelineError):
    """The warehouse could not be read or written; the message says where, why and what to do."""


class StorageConflictError(PipelineError):
    """Another writer committed first; a retry may succeed."""


class TableMismatchError(PipelineError):
    """A frame, or a table on disk, does not match the declared table."""
