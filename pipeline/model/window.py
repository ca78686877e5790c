"""The window `[start, end)` a run is about, in UTC milliseconds."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from pipeline.errors import ConfigError

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
MINUTE_MS = 60_000
NS_PER_MS = 1_000_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MOST_WINDOWS = 100_000  # of a run: 69 days of minutes
END_OF_TIME_MS = 4_102_444_800_000  # the year 2100: after every window


def parse_duration(text: str) -> timedelta:
    """Reads an ISO 8601 duration of days, hours, minutes and seconds; `ConfigError` for other texts, and for zero."""
    match = _DURATION.fullmatch(text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    try:
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        duration = timedelta()
    if not duration:
        raise ConfigError(f"{text!r} is not a duration; write one as PT1H, PT15M or P1D")
    return duration


def parse_instant(text: str) -> datetime:
    """Reads an ISO 8601 instant or date, in UTC without an offset; `ConfigError` for other texts."""
    try:
        instant = datetime.fromisoformat(text)
        return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{text!r} is not an instant; write one as 2026-11-21T09:00:00Z") from error


def format_instant(instant_ms: int) -> str:
    """Writes an instant as ISO 8601 in UTC, with milliseconds only where there are any."""
    instant = instant_of(instant_ms)
    return instant.isoformat(timespec="milliseconds" if instant_ms % 1000 else "seconds").replace("+00:00", "Z")


LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, which dates can hold. A producer may write any int64: what lies beyond, or below 0,
is not an instant."""


def instant_of(instant_ms: int) -> datetime:
    """The instant as an aware datetime, the form in which rows carry it."""
    return datetime.fromtimestamp(instant_ms / 1000, UTC)


def milliseconds_of(time: datetime | timedelta) -> int:
    """Milliseconds of a duration, or of an instant since the epoch."""
    if isinstance(time, datetime):
        return min(round(time.timestamp() * 1000), LATEST_MS)  # it may be rounded into the year 10000
    return round(time.total_seconds() * 1000)


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """A half-open span of time, `[start_ms, end_ms)`."""

    start_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        if self.end_ms <= self.start_ms:
            raise ConfigError(f"window ends at {self.end_ms} before it starts at {self.start_ms}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `START/DURATION` or `START/END`."""
        start, _, rest = text.partition("/")
        if not rest:
            raise ConfigError(f"{text!r} is not a window; write one as 2026-11-21T09:00:00Z/PT1H")
        start_ms = milliseconds_of(parse_instant(start))
        if rest.startswith("P"):
            return cls(start_ms, start_ms + milliseconds_of(parse_duration(rest)))
        return cls(start_ms, milliseconds_of(parse_instant(rest)))

    def __str__(self) -> str:
        return f"{format_instant(self.start_ms)}/{format_instant(self.end_ms)}"

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms

    def __contains__(self, instant_ms: int) -> bool:
        return self.start_ms <= instant_ms < self.end_ms

    def split(self, size_ms: int) -> Iterator[Self]:
        """Cuts the span into windows of `size_ms`, aligned to the epoch; partial windows at the edges count whole."""
        starts_ms = range(self.start_ms - self.start_ms % size_ms, self.end_ms, size_ms)
        if len(starts_ms) > MOST_WINDOWS:
            raise ConfigError(f"{len(starts_ms):,} windows; a run may have {MOST_WINDOWS:,}: name a shorter span")
        if not 0 <= self.start_ms < self.end_ms <= END_OF_TIME_MS:
            raise ConfigError("a window before the year 1970 or after 2099: no run is about such")
        for start_ms in starts_ms:
            yield type(self)(start_ms, start_ms + size_ms)


Windows = Sequence[TimeWindow]


def spanning(windows: Iterable[TimeWindow]) -> TimeWindow:
    """The smallest window that holds all of them."""
    held = list(windows)
    return TimeWindow(min(w.start_ms for w in held), max(w.end_ms for w in held))


def stretches_of(windows: Iterable[TimeWindow]) -> tuple[TimeWindow, ...]:
    """The spans without a gap that windows cover, ascending."""
    spans: list[TimeWindow] = []
    for window in sorted(windows):
        if spans and window.start_ms <= spans[-1].end_ms:
            spans[-1] = TimeWindow(spans[-1].start_ms, max(spans[-1].end_ms, window.end_ms))
        else:
            spans.append(window)
    return tuple(spans)
