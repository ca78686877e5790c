"""One capture while it is made: its clock, its folders, its processes."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.cluster import Cluster
    from tests.lab.process import Process
    from tests.lab.scraper import Target

WINDOW_MS = 60_000
METADATA = "__cluster_metadata-0"


@dataclass
class Recording:
    """What the steps of a capture share.

    ``start_ms`` is the first window's start; ``tools`` and ``producers`` are the manifest's entries for them.
    """

    root: Path
    minutes: int
    slow_minutes: tuple[int, int]
    cluster: Cluster
    start_ms: int = 0
    recorded_until_ms: int = 0
    processes: list[Process] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    tools: list[dict[str, object]] = field(default_factory=list)
    producers: list[dict[str, object]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """What gets packed."""
        return self.root / "capture"

    @property
    def end_ms(self) -> int:
        """The end of the last window."""
        return self.start_ms + self.minutes * WINDOW_MS

    def at_minute(self, minute: float) -> int:
        """An instant of the capture, ms since the epoch."""
        return self.start_ms + round(minute * WINDOW_MS)

    def output(self, name: str) -> Path:
        """Where a process writes what it prints."""
        return self.root / "output" / f"{name}.log"


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def sleep_until(instant_ms: int) -> None:
    """Return at that instant."""
    time.sleep(max(0.0, instant_ms / 1000 - time.time()))


def read_clock_ms() -> int:
    """Now."""
    return time.time_ns() // 1_000_000
