"""Numbers and names as people read them in a mail: few digits, units, nothing that could act."""

import re
import unicodedata
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pipeline.model.window import MINUTE_MS

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MINUS = "\N{MINUS SIGN}"


def escape_hidden(text: str, keep: str = "") -> str:
    r"""Shows characters that a terminal obeys or hides as escapes, but for some.

    >>> escape_hidden("a\x1b[31m\n\u202e", keep="\n")
    'a\\x1b[31m\n\\u202e'
    """
    if text.isprintable():  # most are
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode("ascii")
        if char not in keep and unicodedata.category(char) in _HIDDEN
        else char
        for char in text
    )


def format_name(text: str, limit: int = 80) -> str:
    r"""Makes a name from the outside harmless on one line: hidden characters are shown, long ones lose their middle.

    Control characters (CR and LF among them), direction marks, zero-width and unpaired surrogates become escapes; at most
    `limit` characters are returned.

    >>> format_name("orders\r\nBcc: x")
    'orders\\r\\nBcc: x'
    >>> format_name("a" * 30 + "b" * 30, 9)
    'aaaa…bbbb'
    """
    shown = escape_hidden(text[: 4 * limit] + ("" if len(text) <= 4 * limit else text[-limit:]))
    if len(shown) <= limit:
        return shown
    head = limit // 2
    return shown[:head] + "…" + shown[len(shown) - (limit - head - 1) :]


def say_more(count: int) -> list[str]:
    """The last line of a list that was cut: how many more there are; none if there are no more.

    >>> say_more(19_950), say_more(-3)
    (['  and 19,950 more'], [])
    """
    return [f"  and {count:,} more"] if count > 0 else []


def format_slug(text: str, limit: int = 40) -> str:
    """Makes a name safe in file names and message ids: letters, digits, `-` and `_`, never empty.

    >>> format_slug("prod eu/1"), format_slug("☃")
    ('prod-eu-1', 'x')
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:limit].strip("-") or "x"


def format_percent(ratio: float, digits: int | None = None) -> str:
    """Writes a part of 1 as per cent; without `digits` two or more significant ones.

    >>> format_percent(0.5123), format_percent(0.0312), format_percent(0.0004), format_percent(1 / 3, 1)
    ('51 %', '3.1 %', '0.04 %', '33.3 %')
    """
    percent = 100 * ratio
    if digits is None:
        size = abs(percent)
        digits = 0 if size >= 9.95 or size == 0 else 1 if size >= 0.995 else 2
    return f"{percent:.{digits}f} %"


def format_points(ratio: float) -> str:
    """Writes a difference of shares in percentage points, always with its sign.

    >>> format_points(0.1724), format_points(-0.0001)
    ('+17.2', '0.0')
    """
    text = f"{100 * ratio:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", _MINUS)


def format_ratio(ratio: float) -> str:
    """Writes a ratio to a fair share, a mean or a peer.

    >>> format_ratio(1.534), format_ratio(12.34), format_ratio(140.2)
    ('1.53x', '12.3x', '140x')
    """
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:.1f}x" if ratio < 99.95 else f"{ratio:.0f}x"


def format_bytes(size_bytes: float, *, sign: bool = False) -> str:
    """Writes bytes in decimal units, three significant digits.

    >>> format_bytes(980), format_bytes(12_345_678), format_bytes(1_500, sign=True), format_bytes(999_950)
    ('980 B', '12.3 MB', '+1.50 kB', '1.00 MB')
    """
    size, unit = abs(float(size_bytes)), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    number = f"{size:.0f}" if unit == "B" or size >= 99.95 else f"{size:.1f}" if size >= 9.995 else f"{size:.2f}"
    mark = _MINUS if size_bytes < 0 else "+" if sign and size_bytes > 0 else ""
    return f"{mark}{number} {unit}"


def format_count(count: float) -> str:
    """Writes a count with thousands.

    >>> format_count(1234567)
    '1,234,567'
    """
    return f"{count:,.0f}"


def format_ms(duration_ms: float) -> str:
    """Writes a latency.

    >>> format_ms(0.314), format_ms(2.14), format_ms(23.4), format_ms(12_340)
    ('0.31 ms', '2.1 ms', '23 ms', '12.3 s')
    """
    if duration_ms >= 9_995:
        return f"{duration_ms / 1000:.1f} s"
    digits = 0 if duration_ms >= 9.95 else 1 if duration_ms >= 0.995 else 2
    return f"{duration_ms:,.{digits}f} ms"


def format_span(duration_ms: int) -> str:
    """Writes how long something lasted, in its two largest units.

    >>> format_span(60_000), format_span(5_400_000), format_span(30_000), format_span(93_600_000)
    ('1 minute', '1 h 30 min', '30 s', '1 day 2 h')
    """
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
    """Writes an instant to the minute, or second where it is not on one, in an IANA time zone.

    >>> format_clock(1795251600000), format_clock(1795251600000, "Europe/Berlin")
    ('2026-11-21 09:00 UTC', '2026-11-21 10:00 CET')
    >>> format_clock(1792888200000, "Europe/Berlin"), format_clock(1792891800000, "Europe/Berlin")  # an hour later
    ('2026-10-25 02:30 CEST', '2026-10-25 02:30 CET')
    """
    instant = datetime.fromtimestamp(instant_ms // 1000, UTC if time_zone == "UTC" else ZoneInfo(time_zone))
    return instant.strftime("%Y-%m-%d %H:%M %Z" if instant.second == 0 else "%Y-%m-%d %H:%M:%S %Z")


def format_between(start_ms: int, end_ms: int) -> str:
    """Writes a span in UTC, the day once where it is one.

    >>> format_between(1795251600000, 1795251660000)
    '2026-11-21 09:00 to 09:01 UTC'
    """
    start, end = format_clock(start_ms).removesuffix(" UTC"), format_clock(end_ms)
    day = f"{start.partition(' ')[0]} "
    return f"{start} to {end.removeprefix(day)}"


def format_cell(value: object, limit: int = 100) -> str:
    r"""Writes a value of a table on one line, as `partition-health sql` prints it.

    >>> format_cell(None), format_cell(1 / 3), format_cell("a\nb"), format_cell("a" * 9, 4)
    ('NULL', '0.333333', 'a b', 'aaa…')
    """
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
        return instant.isoformat().replace("+00:00", "Z")
    flat = escape_hidden(" ".join((value.hex() if isinstance(value, bytes) else str(value)).split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
