"""Numbers and names as people read them in a mail: few digits, units, nothing that could act."""

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pipeline.model.window import MINUTE_MS

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MINUS = "\N{MINUS SIGN}"


def escape_hidden(text: str, keep: str = "") -> str:
    """Shows characters that a terminal obeys or hides as escapes, but for some."""
    if text.isprintable():  # most are
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode("ascii")
        if char not in keep and unicodedata.category(char) in _HIDDEN
        else char
        for char in text
    )


def format_name(text: str, limit: int = 80) -> str:
    """Makes a name from outside harmless on one line of at most `limit` characters: hidden ones become escapes, long ones lose their middle."""
    shown = escape_hidden(text[: 4 * limit] + ("" if len(text) <= 4 * limit else text[-limit:]))
    if len(shown) <= limit:
        return shown
    head = limit // 2
    return shown[:head] + "…" + shown[len(shown) - (limit - head - 1) :]


def join_names(names: Sequence[object], most: int) -> str:
    """Names with commas; of many the first ones, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def say_more(count: int) -> list[str]:
    """The last line of a list that was cut: how many more there are; none if there are no more."""
    return [f"  and {count:,} more"] if count > 0 else []


def format_slug(text: str, limit: int = 40) -> str:
    """Makes a name safe in file names and message ids: letters, digits, `-` and `_`, never empty."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:limit].strip("-") or "x"


def format_percent(ratio: float, digits: int | None = None) -> str:
    """Writes a part of 1 as per cent; without `digits` two or more significant ones."""
    percent = 100 * ratio
    if digits is None:
        size = abs(percent)
        digits = 0 if size >= 9.95 or size == 0 else 1 if size >= 0.995 else 2
    return f"{percent:.{digits}f} %"


def format_points(ratio: float) -> str:
    """Writes a difference of shares in percentage points, always with its sign."""
    text = f"{100 * ratio:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", _MINUS)


def format_ratio(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:.1f}x" if ratio < 99.95 else f"{ratio:.0f}x"


def format_bytes(size_bytes: float, *, sign: bool = False) -> str:
    size, unit = abs(float(size_bytes)), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    number = f"{size:.0f}" if unit == "B" or size >= 99.95 else f"{size:.1f}" if size >= 9.995 else f"{size:.2f}"
    mark = _MINUS if size_bytes < 0 else "+" if sign and size_bytes > 0 else ""
    return f"{mark}{number} {unit}"


def format_count(count: float) -> str:
    return f"{count:,.0f}"


def format_ms(duration_ms: float) -> str:
    if duration_ms >= 9_995:
        return f"{duration_ms / 1000:.1f} s"
    digits = 0 if duration_ms >= 9.95 else 1 if duration_ms >= 0.995 else 2
    return f"{duration_ms:,.{digits}f} ms"


def format_span(duration_ms: int) -> str:
    minutes, rest_ms = divmod(duration_ms, MINUTE_MS)
    if minutes < 1:
        return f"{rest_ms / 1000:g} s"
    if minutes < 60:
        return f"{minutes} minute{'s' if minutes > 1 else ''}"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} day{'s' if days > 1 else ''}" + (f" {hours} h" if hours else "")


def format_clock(instant_ms: int, time_zone: str = "UTC") -> str:
    """Writes an instant to the minute, or second where it is not on one, in an IANA time zone."""
    instant = datetime.fromtimestamp(instant_ms // 1000, UTC if time_zone == "UTC" else ZoneInfo(time_zone))
    return instant.strftime("%Y-%m-%d %H:%M %Z" if instant.second == 0 else "%Y-%m-%d %H:%M:%S %Z")


def format_between(start_ms: int, end_ms: int) -> str:
    start, end = format_clock(start_ms).removesuffix(" UTC"), format_clock(end_ms)
    day = f"{start.partition(' ')[0]} "
    return f"{start} to {end.removeprefix(day)}"


def format_cell(value: object, limit: int = 100) -> str:
    """Writes a value of a table on one line, as `partition-health sql` prints it."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
        return instant.isoformat().replace("+00:00", "Z")
    flat = escape_hidden(" ".join((value.hex() if isinstance(value, bytes) else str(value)).split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
