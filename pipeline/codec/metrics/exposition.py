"""Prometheus text exposition and OpenMetrics: the samples of a scrape page.

Of a broker's thousands of series a table needs hundreds, in the same bytes on every page. So the text of a series is parsed
once, given its canonical name, and remembered. `prometheus_client.parser` takes ten times as long and gives up a torn page.
References: Prometheus text format 0.0.4, UTF-8 names quoted inside the braces; OpenMetrics 1.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.metrics.metric_names import KEPT_PREFIXES, BadLine, BadLines, Series, name_series, plain_name
from pipeline.codec.metrics.metric_table import FORMS_BY_NAME
from pipeline.errors import InputError, parser
from pipeline.model.window import LATEST_MS

REMEMBERED_SERIES = 1_000_000
MOST_LINES = 2_000_000  # of a page: a list of them takes forty times the bytes of the shortest
_NOT_WANTED = -1
_OPENMETRICS_END = "# EOF"
_PLAIN_SERIES = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?")
_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LINE = re.compile(  # possessive throughout: a line of a megabyte takes as long as a thousand of a kilobyte
    rf"""[ \t]*+(?P<series>(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)?+(?:[ \t]*+\{{(?P<labels>(?:[^"}}]|{_QUOTED})*+)\}})?+)
    [ \t]*+(?<=[ \t}}])(?P<value>[-+.\w]++)(?:[ \t]++(?P<timestamp>[-+.\w]++))?+[ \t]*+(?:\#.*)?""",
    re.VERBOSE,
)
_PAIR = re.compile(
    rf"""[ \t]*+(?:(?P<label>[a-zA-Z_][a-zA-Z0-9_]*+|{_QUOTED})[ \t]*+=[ \t]*+(?P<value>{_QUOTED})|(?P<name>{_QUOTED}))
    [ \t]*+(?:,|$)""",
    re.VERBOSE,
)
_BEGINNING = re.compile(rb"^[ \t]*+(?:([a-zA-Z_:][a-zA-Z0-9_:]*+)|\{)", re.MULTILINE)  # a name, or `{` and a quoted one
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Exposition:
    """The samples of a page in the order of its lines, column by column, and the lines that are not samples."""

    series: NDArray[np.int64]  # position of each sample's series in `ExpositionReader.series`
    values: NDArray[np.float64]  # may be NaN or infinite
    timestamps_ms: dict[int, int]  # instants that lines carry themselves (few exporters' do), by index of the sample
    bad_lines: tuple[BadLine, ...]  # a torn page keeps the rest
    sample_count: int  # samples of any name, wanted or not: a page without one is not a page
    is_torn: bool  # whether the page ends within a line: then series may be missing that the exporter has


class ExpositionReader:
    """Reads pages, and remembers the series of the pages before: `series` are all met so far that were wanted."""

    def __init__(self, choose: Callable[[str, Mapping[str, str]], Series | None] = name_series) -> None:
        self.series: list[Series] = []
        self._choose = choose  # names a series from exposed name and labels; None where it is not wanted
        self._is_choosing_by_name = choose is name_series
        self._known: dict[str, int] = {}
        self._by_name: dict[tuple[object, ...], int] = {}
        self.first_of_name: list[int] = []  # of each series, the first one met with its canonical name and labels

    @parser
    def read(self, text: str) -> Exposition:
        _check_length(text.count("\n"))
        if len(self._known) > REMEMBERED_SERIES:
            self.series, self.first_of_name = [], []  # who read a page before still has its series
            self._known.clear()
            self._by_name.clear()
        page = _Page(self, is_open_metrics=text.rstrip().endswith(_OPENMETRICS_END))
        *lines, torn = text.split("\n")
        known = self._known
        for number, line in enumerate(lines, start=1):
            series_text, _, value_text = line.rpartition(" ")
            index = known.get(series_text)
            if index is None:
                self._read_new(number, line, page)
                continue
            try:
                value = float(value_text)
            except ValueError:
                page.bad_lines.append(BadLine(number, "the value is not a number"))
                continue
            page.take(number, index, value)
        is_torn = bool(torn) and not page.is_open_metrics
        if is_torn:
            page.bad_lines.append(BadLine(len(lines) + 1, "the page ends within a line: torn"))
        elif torn:
            self._read_new(len(lines) + 1, torn, page)
        values, series = np.array(page.values, np.float64), np.array(page.series, np.int64)
        return Exposition(series, values, page.timestamps_ms, page.bad_lines.told(), page.sample_count, is_torn)

    def _read_new(self, number: int, line: str, page: _Page) -> None:
        """Reads a line whose text before the last blank was not met before: a new series, a timestamp, a comment."""
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            return
        if self._is_unwanted(stripped):
            page.sample_count += 1
            return
        match = _LINE.fullmatch(stripped)
        if match is None:
            page.bad_lines.append(BadLine(number, "a line that is not a sample"))
            return
        try:
            value = float(match["value"])
            instant_ms = float(match["timestamp"] or "0") * (1000 if page.is_open_metrics else 1)
            is_instant = abs(instant_ms) <= LATEST_MS
        except ValueError:  # whose words are the line's
            is_instant = False
        if not is_instant:
            page.bad_lines.append(BadLine(number, "a line that is not a sample: value or timestamp is none"))
            return
        try:
            index = self._place_of(match["series"].rstrip(), match["name"], match["labels"] or "")
        except ValueError as error:
            page.bad_lines.append(BadLine(number, f"a line that is not a sample: {error}"))
            return
        if page.take(number, index, value) and match["timestamp"] is not None:
            page.timestamps_ms[len(page.series) - 1] = round(instant_ms)

    def _is_unwanted(self, line: str) -> bool:
        """Whether a line plainly has another metric's name: then its labels are not looked at, now and from now on."""
        text, _, value = line.rpartition(" ")
        plain = _PLAIN_SERIES.fullmatch(text) if self._is_choosing_by_name else None
        if plain is None or _is_wanted(plain["name"]):
            return False
        try:
            float(value)
        except ValueError:
            return False
        self._known[text] = _NOT_WANTED
        return True

    def _place_of(self, text: str, name: str | None, labels_text: str) -> int:
        if text in self._known:
            return self._known[text]
        labels, quoted_name = _parse_labels(labels_text)
        exposed_name = name or quoted_name
        if not exposed_name:
            raise ValueError("it has no metric name")
        series = self._choose(exposed_name, labels)
        index = _NOT_WANTED
        if series is not None:
            index = len(self.series)
            self.first_of_name.append(self._by_name.setdefault(series[:2], index))
            self.series.append(series)
        self._known[text] = index
        return index


class _Page:
    def __init__(self, reader: ExpositionReader, *, is_open_metrics: bool) -> None:
        self._reader = reader
        self._seen: set[int] = set()
        self.is_open_metrics = is_open_metrics
        self.series: list[int] = []
        self.values: list[float] = []
        self.timestamps_ms: dict[int, int] = {}
        self.bad_lines = BadLines()
        self.sample_count = 0

    def take(self, number: int, index: int, value: float) -> bool:
        """Takes a sample; of two samples of one series (or of two that have one canonical name) the first counts."""
        self.sample_count += 1
        if index == _NOT_WANTED:
            return False
        first = self._reader.first_of_name[index]
        if first in self._seen:
            reason = f"a second sample of {self._reader.series[index].name}: the first counts"
            self.bad_lines.append(BadLine(number, reason, "suspect"))
            return False
        self._seen.add(first)
        self.series.append(index)
        self.values.append(value)
        return True


def has_wanted(page: bytes | bytearray) -> bool:
    """Whether a page seems to have a metric that is read; `InputError` where it has too many lines."""
    _check_length(page.count(b"\n"))
    return any(found[1] is None or _is_wanted(found[1].decode()) for found in _BEGINNING.finditer(page))


def _check_length(count: int) -> None:
    if count > MOST_LINES:
        raise InputError(f"a page of {count:,} lines: at most {MOST_LINES:,} are read")


def _is_wanted(exposed_name: str) -> bool:
    name = plain_name(exposed_name)
    return name in FORMS_BY_NAME or name.startswith(KEPT_PREFIXES)


def _parse_labels(text: str) -> tuple[dict[str, str], str | None]:
    """Label pairs, and the metric's name where it stands among them in quotes (names beyond ASCII)."""
    labels: dict[str, str] = {}
    name, at, end = None, 0, len(text.rstrip())
    while at < end:
        pair = _PAIR.match(text, at)
        if pair is None:
            raise ValueError(f"labels cannot be read from character {at} of them on")
        if pair["name"]:
            name = _unquote(pair["name"])
        else:
            label = pair["label"]
            label = _unquote(label) if label[0] == '"' else label
            if label in labels:
                raise ValueError("a label stands there twice")
            labels[label] = _unquote(pair["value"])
        at = pair.end()
    return labels, name


def _unquote(quoted: str) -> str:
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1] if found[1] in '\\"' else found[0], inner)
