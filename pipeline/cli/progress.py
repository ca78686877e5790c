"""What a long command is doing, on stderr: a line that lives on a terminal, else nothing but a log record a minute."""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG_EVERY_S = 60
_log = logging.getLogger(__name__)


class Progress:
    """Reports steps one after another, with the time each takes.

    Args:
        stream: Where people read; nothing is written to it unless it is a terminal.
        log_every_s: How often a step that goes on is logged.
    """

    def __init__(self, stream: TextIO = sys.stderr, log_every_s: float = _LOG_EVERY_S) -> None:
        self._stream, self._log_every_s = stream, log_every_s

    @contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Reports what is being done for as long as the block lasts, at least every five seconds on a terminal."""
        started_s = time.monotonic()
        done = threading.Event()
        report = self._refresh if self._stream.isatty() else self._log_minutes
        reporting = threading.Thread(target=report, args=(doing, started_s, done), daemon=True)
        reporting.start()
        try:
            yield
        finally:
            done.set()
            reporting.join()

    def _refresh(self, doing: str, started_s: float, done: threading.Event) -> None:
        from rich.console import Console

        with Console(file=self._stream).status(doing) as status:
            while not done.wait(1):
                status.update(f"{doing} ({time.monotonic() - started_s:.0f} s)")

    def _log_minutes(self, doing: str, started_s: float, done: threading.Event) -> None:
        while not done.wait(self._log_every_s):
            _log.info("%s: %.0f s so far", doing, time.monotonic() - started_s)
