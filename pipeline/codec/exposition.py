"""Prometheus text exposition: samples of a scrape page, only those asked for.

A broker's page has 5,000 samples of which a table needs a hundred, so lines are chosen by metric name before they are
parsed; the parsing itself is `prometheus_client`'s. `# TYPE` and `# HELP` lines are passed over: with them the library
would rename counters, and names are kept as scraped.

References:
    Prometheus exposition formats, text format 0.0.4.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


class MetricSample(NamedTuple):
    """One line of a page.

    Attributes:
        name: As scraped.
        labels: By name.
        value: May be NaN or infinite.
        timestamp_ms: Only where the line has one; exporters rarely write it.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp_ms: int | None


class Exposition(NamedTuple):
    """The samples of a page, and the lines that did not parse (number from 1, text): a torn page keeps the rest."""

    samples: tuple[MetricSample, ...]
    bad_lines: tuple[tuple[int, str], ...]


def parse_exposition(text: str, *, name_prefixes: Collection[str] = ()) -> Exposition:
    r"""Samples of a scrape page whose name begins with one of the prefixes.

    Args:
        text: The page.
        name_prefixes: Prefixes of metric names; a whole name is its own prefix. All samples when empty.

    Returns:
        Samples in page order, and bad lines among those chosen.

    Example:
        >>> parse_exposition('up{job="a"} 1\nother 2\n', name_prefixes=["up"]).samples[0].value
        1.0
    """
    chosen = _choose_lines(text, name_prefixes)
    try:
        return Exposition(tuple(_iter_samples(chosen)), ())
    except (ValueError, IndexError):  # what the library raises for a line it cannot read
        return _parse_line_by_line(text, name_prefixes)


def _choose_lines(text: str, name_prefixes: Collection[str]) -> str:
    names = "|".join(re.escape(prefix) for prefix in sorted(name_prefixes)) or r"[^#\s]"
    return "".join(re.findall(rf"^(?:{names})[^\n]*(?:\n|\Z)", text, re.MULTILINE))


def _iter_samples(text: str) -> Iterator[MetricSample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            timestamp_ms = None if sample.timestamp is None else round(float(sample.timestamp) * 1000)
            yield MetricSample(sample.name, sample.labels, float(sample.value), timestamp_ms)


def _parse_line_by_line(text: str, name_prefixes: Collection[str]) -> Exposition:
    samples: list[MetricSample] = []
    bad_lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            samples += _iter_samples(_choose_lines(line, name_prefixes))
        except (ValueError, IndexError):
            bad_lines.append((number, line))
    return Exposition(tuple(samples), tuple(bad_lines))
