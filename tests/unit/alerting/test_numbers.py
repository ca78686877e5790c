"""Numbers and names as people read them. Oracle: written by hand."""

import pytest

from pipeline.model.number_text import (
    format_between,
    format_bytes,
    format_clock,
    format_ms,
    format_name,
    format_percent,
    format_points,
    format_ratio,
    format_slug,
    format_span,
)

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("formatted", "expected"),
    [
        (format_percent(0.0), "0 %"),
        (format_percent(0.0996), "10 %"),
        (format_percent(0.0994), "9.9 %"),
        (format_percent(1.0), "100 %"),
        (format_points(-0.0123), f"{MINUS}1.2"),
        (format_points(-0.0001), "0.0"),
        (format_ratio(0.0), "0.00x"),
        (format_ratio(9.996), "10.0x"),
        (format_ratio(99.96), "100x"),
        (format_bytes(0), "0 B"),
        (format_bytes(999), "999 B"),
        (format_bytes(999.6), "1.00 kB"),
        (format_bytes(99_960), "100 kB"),
        (format_bytes(-1_500, sign=True), f"{MINUS}1.50 kB"),
        (format_bytes(0, sign=True), "0 B"),
        (format_bytes(7.2e18), "7200 PB"),
        (format_ms(0.0), "0.00 ms"),
        (format_ms(999.6), "1,000 ms"),
        (format_span(3_600_000), "1 h"),
        (format_span(86_400_000), "1 day"),
        (format_span(180_000_000), "2 days 2 h"),
        (format_span(59_500), "59.5 s"),
        (format_clock(1795251601000), "2026-11-21 09:00:01 UTC"),
        (format_between(1795301999000, 1795305600000), "2026-11-21 22:59:59 to 2026-11-22 00:00 UTC"),
        (format_slug("a" * 50 + "-b"), "a" * 40),
        (format_name(""), ""),
        (format_name("\ud800"), "\\ud800"),
        (format_name("\u202eabc"), "\\u202eabc"),
        (format_name("a" * 10_000, 5), "aa…aa"),
        (format_name("a" * 10_000 + "z", 5), "aa…az"),
    ],
)
def test_as_people_read_them(formatted, expected):
    assert formatted == expected
