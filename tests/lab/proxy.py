"""The proxy in front of the brokers (`Proxy.java`), which can answer Produce requests late on a schedule."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.process import Process, start_java, wait_until, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOURCE = Path(__file__).parent / "Proxy.java"


class Proxy:
    """A running proxy."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def slow(self, broker_id: int, from_ms: int, to_ms: int, delay_ms: float) -> None:
        """Hold that broker's Produce responses ``delay_ms`` each between two instants; returns once it will."""
        self._order(f"slow {broker_id} {from_ms} {to_ms} {delay_ms}")

    def slow_too(self, broker_id: int, from_ms: int, to_ms: int, delay_ms: float) -> None:
        """One more stretch of delay for a broker that has some; where two meet, the longer delay counts."""
        self._order(f"also {broker_id} {from_ms} {to_ms} {delay_ms}")

    def note_requests(self) -> None:
        """Begin to note every Produce request."""
        self._order("note")

    def write_requests(self, file: Path) -> None:
        """Write what was noted, tab-separated with a header line (see `Proxy.java`), and end it."""
        self._order(f"write {file}")

    def _order(self, line: str) -> None:
        def count_answers() -> int:
            return self.process.output.read_text().count(f"done {line}\n")

        known = count_answers()
        self.process.send_line(line)
        wait_until(lambda: count_answers() > known, "answer", self.process)


@contextmanager
def start_proxy(pairs: Sequence[tuple[int, int]], output: Path) -> Iterator[Proxy]:
    """A proxy for as long as the block lasts.

    Args:
        pairs: (port to listen on, port of the broker), broker 0 first. Brokers may start later.
        output: file for what it prints.
    """
    ports = [f"{listen}:{target}" for listen, target in pairs]
    process = start_java("proxy", [str(SOURCE), *ports], output, with_input=True)
    try:
        wait_until_ready(process)
        yield Proxy(process)
    finally:
        process.stop()
