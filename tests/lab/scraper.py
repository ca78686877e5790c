"""Prometheus pages as the exporter serves them, at fixed intervals, into files named by the instant."""

from __future__ import annotations

import math
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass
class Target:
    """One exporter: its port, the folder for its pages, how often, and what went wrong."""

    port: int
    folder: Path
    interval_s: float
    failures: list[int] = field(default_factory=list)

    def fetch(self) -> bytes:
        """The page as served."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return answer.read()

    def scrape(self) -> None:
        """One page into a file named by the instant of the request, in ms."""
        at_ms = time.time_ns() // 1_000_000
        try:
            page = self.fetch()
        except (OSError, HTTPException):  # it may end while it answers
            self.failures.append(at_ms)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{at_ms}.prom").write_bytes(page)


@contextmanager
def scraping(targets: Sequence[Target], start_ms: int, end_ms: int) -> Iterator[None]:
    """Scrape the targets in turn between two instants, or until the block ends; one thread, so never two at once.

    A target that is late keeps its rhythm: instants missed stay missed.
    """
    over = threading.Event()

    def work() -> None:
        due = dict.fromkeys(range(len(targets)), start_ms / 1000)
        while due and not over.is_set():
            index = min(due, key=due.__getitem__)
            if due[index] >= end_ms / 1000 or over.wait(max(0.0, due[index] - time.time())):
                return
            targets[index].scrape()
            interval_s = targets[index].interval_s
            due[index] += interval_s * max(1, math.ceil((time.time() - due[index]) / interval_s))

    thread = threading.Thread(target=work, name="scraper")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
