"""When an application calls `send()`: its due times, one after the other.

Each kind is asked for the next due time after a `send()` returned; who is late catches up.
"""

from typing import Protocol

from pipeline.simulator.clients.client import MS, SECOND
from pipeline.simulator.scenario.scenario import Gaps, OnOff, PerfTest, Recorded, Traffic
from tests.oracles.simulator.chance import Stream

MIN_SLEEP_NS = 2 * MS


class Clock(Protocol):
    """Gives due times."""

    def first(self) -> int | None:
        """When the first record is due, or None if there is none."""
        ...

    def next(self, sent_ns: int, returned_ns: int) -> int | None:
        """When the next one is due."""
        ...


def start_clock(traffic: Traffic, stream: Stream) -> Clock:
    arrivals = traffic.arrivals
    match arrivals:
        case PerfTest():
            return PerfTestClock(arrivals, traffic.start_ns, stream)
        case Gaps():
            return GapClock(arrivals, traffic.start_ns, stream)
        case OnOff():
            return OnOffClock(arrivals, traffic.start_ns, stream)
        case Recorded():
            return RecordedClock(arrivals)


class PerfTestClock:
    """`ThroughputThrottler`: see `scenario.PerfTest`."""

    def __init__(self, arrivals: PerfTest, start_ns: int, stream: Stream) -> None:
        self._arrivals = arrivals
        self._start_ns = start_ns
        self._stream = stream
        self._sent_count = 0
        self._deficit_ns = 0

    def first(self) -> int:
        """At once."""
        return self._start_ns

    def next(self, sent_ns: int, returned_ns: int) -> int:
        """At once, unless ahead of the rate and the sleep owed is worth it."""
        count = self._sent_count  # of records before the last one, as the tool counts
        self._sent_count += 1
        elapsed_ms = sent_ns // MS - self._start_ns // MS
        rate = self._arrivals.rate_per_s
        if not rate or elapsed_ms <= 0 or count * 1000 <= rate * elapsed_ms:
            return returned_ns
        self._deficit_ns += SECOND // rate
        if self._deficit_ns < MIN_SLEEP_NS:
            return returned_ns
        asked_ns = -(-self._deficit_ns // MS) * MS
        self._deficit_ns = 0
        return returned_ns + asked_ns + self._stream.draw(self._arrivals.oversleep_ns)


class GapClock:
    """A gap after each due time, not after each `send()`."""

    def __init__(self, arrivals: Gaps, start_ns: int, stream: Stream) -> None:
        self._arrivals = arrivals
        self._due_ns = start_ns
        self._stream = stream

    def first(self) -> int:
        """After a gap."""
        return self.next(0, 0)

    def next(self, sent_ns: int, returned_ns: int) -> int:
        """After a gap, whenever the last one was sent."""
        self._due_ns += self._stream.draw(self._arrivals.gap_ns)
        return self._due_ns


class OnOffClock:
    """Gaps within phases; what is left of a gap at a phase's end goes on in the next phase."""

    def __init__(self, arrivals: OnOff, start_ns: int, stream: Stream) -> None:
        self._arrivals = arrivals
        self._stream = stream
        self._due_ns = start_ns
        self._end_ns = start_ns + stream.draw(arrivals.on_ns)

    def first(self) -> int:
        """After a gap."""
        return self.next(0, 0)

    def next(self, sent_ns: int, returned_ns: int) -> int:
        """After a gap within a phase."""
        self._due_ns += self._stream.draw(self._arrivals.gap_ns)
        while self._due_ns >= self._end_ns:
            off_ns = self._stream.draw(self._arrivals.off_ns)
            self._due_ns += off_ns
            self._end_ns += off_ns + self._stream.draw(self._arrivals.on_ns)
        return self._due_ns


class RecordedClock:
    """The recorded times."""

    def __init__(self, arrivals: Recorded) -> None:
        self._due_ns = arrivals.due_ns
        self._place = 0

    def first(self) -> int | None:
        return int(self._due_ns[0]) if len(self._due_ns) else None

    def next(self, sent_ns: int, returned_ns: int) -> int | None:
        self._place += 1
        return int(self._due_ns[self._place]) if self._place < len(self._due_ns) else None
