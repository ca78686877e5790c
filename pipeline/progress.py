"""Progress of a long command on stderr: a live line on a terminal, else a log record a minute."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

Count = Callable[[], tuple[int, int]]
Begin = Callable[[str], None]  # is given the name of the phase that begins

PHASES: Mapping[str, tuple[str, ...]] = {
    "ingest_windows": ("sources", "bronze_and_silver", "gate"),
    "replay_windows": ("keys", "sessions", "candidates", "gate"),
    "judge_windows": ("measures", "advice", "verdicts", "report", "gate"),
}  # of each step; bronze and silver are one, as their tables are written at once

_log = logging.getLogger(__name__)


def ignore_phase(phase: str) -> None:
    """A `Begin` that tells nobody."""


class Progress:
    """Reports steps one after another: on a terminal as they go on, elsewhere by `report` every `every_s`."""

    def __init__(
        self, stream: TextIO | None = None, *, every_s: float = 60, report: Callable[[str], None] = _log.info
    ) -> None:
        self._stream, self._every_s, self._report = stream or sys.stderr, every_s, report

    @contextmanager
    def step(self, doing: str, count: Count = lambda: (0, 0), unit: str = "tasks") -> Iterator[None]:
        """Reports what is done for as long as the block lasts; `count`, asked by another thread, says how many of how many units."""
        started_s = counted_from_s = time.monotonic()
        known = 0
        done = threading.Event()

        def describe() -> str:
            nonlocal counted_from_s, known
            finished, total = count()
            now_s = time.monotonic()
            if total != known:  # another count begins, such as that of Spark's next stage
                counted_from_s, known = now_s, total
            counted_s = now_s - counted_from_s
            return describe_progress(doing, now_s - started_s, finished, total, unit=unit, counted_s=counted_s)

        reporting = threading.Thread(target=self._show if self._stream.isatty() else self._log, args=(describe, done))
        reporting.daemon = True
        reporting.start()
        try:
            yield
        finally:
            done.set()
            reporting.join()

    def _show(self, describe: Callable[[], str], done: threading.Event) -> None:
        from rich.console import Console

        with Console(file=self._stream).status(describe()) as status:
            while not done.wait(1):
                status.update(describe())

    def _log(self, describe: Callable[[], str], done: threading.Event) -> None:
        next_s = time.monotonic() + self._every_s
        while not done.wait(next_s - time.monotonic()):
            self._report(describe())  # which may take a while
            next_s = max(next_s + self._every_s, time.monotonic())


def describe_progress(doing: str, seconds: float, done: int, total: int, *, unit: str, counted_s: float) -> str:
    """A line about a step that goes on; `counted_s` is for how long the present units have been counted.

    >>> describe_progress("reading records", 20, 0, 0, unit="tasks", counted_s=20)
    'reading records: 20 s'
    >>> describe_progress("reading records", 50, 40, 100, unit="tasks", counted_s=20)
    'reading records: 50 s, 40 of 100 tasks, 2/s, 30 s left'
    """
    line = f"{doing}: {seconds:.0f} s"
    if total:
        line += f", {done} of {total} {unit}"
    if done and counted_s:
        line += f", {done / counted_s:.2g}/s, {counted_s * (total - done) / done:.0f} s left"
    return line
