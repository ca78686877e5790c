"""Prometheus text exposition and OpenMetrics: the samples of a scrape page.

An exporter writes the same series in every page, in the same bytes, and a broker's page has thousands of which a table
needs hundreds. So the text of a series is parsed once, given its canonical name, and remembered; from then on a line
costs a lookup and a float. Of new series, most differ from one before in their labels' values only, and are cut at the
quotes. `prometheus_client.parser` reads a page into families of objects, afresh each time, and
renames counters by their `# TYPE`; here names are kept as scraped.

References:
    Prometheus exposition formats, text format 0.0.4, UTF-8 names quoted inside the braces; OpenMetrics 1.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.metrics.exposition_kernels import HARD_NUMBER, NOT_MET, NOT_WANTED
from pipeline.codec.metrics.metric_names import EXPOSED_PREFIXES, Series, name_series
from pipeline.codec.metrics.metric_text import BadLine
from pipeline.codec.metrics.series_table import SeriesTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

MAX_LABEL_CHARS = 16_384
REMEMBERED_SERIES = 1_000_000
_NO_NUMBER = NOT_MET  # the line has been told of
_OPENMETRICS_END = "# EOF"
_PLAIN_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?")
_QUOTED = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_LINE = re.compile(
    rf"""[ \t]*(?P<series>(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?[ \t]*(?:\{{(?P<labels>(?:[^"}}]|{_QUOTED})*)\}})?)
    [ \t]*(?<=[ \t}}])(?P<value>[-+.\w]+)(?:[ \t]+(?P<timestamp>[-+.\w]+))?[ \t]*(?:\#.*)?""",
    re.VERBOSE,
)
_PAIR = re.compile(
    rf"""[ \t]*(?:(?P<label>[a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})[ \t]*=[ \t]*(?P<value>{_QUOTED})|(?P<name>{_QUOTED}))
    [ \t]*(?:,|$)""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Exposition:
    """The samples of a page, column by column, and the lines that are none.

    Attributes:
        series: Position of each sample's series in `ExpositionReader.series`, int64; ascending by line but for lines
            whose series was met for the first time, which come last.
        values: float64; may be NaN or infinite.
        timestamps_ms: Instants that lines carry themselves, by place of the sample; exporters rarely write them.
        bad_lines: A torn page keeps the rest.
        sample_count: Samples of any name, wanted or not: a page without one is no page.
        is_torn: Whether the page ends within a line: then series may be missing that the exporter has.
    """

    series: NDArray[np.int64]
    values: NDArray[np.float64]
    timestamps_ms: dict[int, int]
    bad_lines: tuple[BadLine, ...]
    sample_count: int
    is_torn: bool


class ExpositionReader:
    """Reads pages, and remembers the series of the pages before.

    Attributes:
        series: All series met so far that were wanted; only grows.
    """

    def __init__(self, choose: Callable[[str, Mapping[str, str]], Series | None] = name_series) -> None:
        """Starts with nothing known.

        Args:
            choose: Names a series from its exposed name and its labels, or None where it is not wanted.
        """
        self.series: list[Series] = []
        self._choose = choose
        self._prefixes = EXPOSED_PREFIXES if choose is name_series else ()
        self._table = SeriesTable(self._prefixes)
        self._places: dict[str, int] = {}
        self._by_name: dict[tuple[object, ...], int] = {}
        self._first_of_name: list[int] = []
        self._shapes: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}

    def read(self, text: str) -> Exposition:
        r"""Samples of one page.

        Args:
            text: The page.

        Example:
            >>> reader = ExpositionReader()
            >>> page = reader.read('kafka_brokers{env="a"} 3\nother 2\n')
            >>> page.values.tolist(), reader.series[page.series[0]].labels
            ([3.0], (('env', 'a'),))
        """
        if len(self._table) > REMEMBERED_SERIES:
            self._table = SeriesTable(self._prefixes)
            self._places.clear()
            self._shapes.clear()
        page = _Page(is_open_metrics=text.rstrip().endswith(_OPENMETRICS_END))
        data = text.encode()
        bounds, places, values = self._table.match(data)
        torn = data[data.rfind(b"\n") + 1 :].decode()
        is_torn = bool(torn) and not page.is_open_metrics
        if is_torn:
            page.bad_lines.append(BadLine(len(places) + 1, torn, "the page ends within a line: torn"))
        rows = np.flatnonzero(places <= NOT_MET)
        for row, start, end in zip(rows.tolist(), *bounds[rows].T.tolist(), strict=True):
            line = data[start:end].decode()
            if places[row] <= HARD_NUMBER:
                self._read_hard(row, line, places, values, page)
            else:
                self._read_anew(row + 1, line, page)
        known = np.flatnonzero(places >= 0)
        page.not_wanted += int(np.count_nonzero(places == NOT_WANTED))
        series = np.concatenate([places[known], np.array(page.series, np.int64)])
        page_values = np.concatenate([values[known], np.array(page.values, np.float64)])
        timestamps_ms = {len(known) + place: instant for place, instant in page.timestamps_ms.items()}
        sample_count = len(series) + page.not_wanted
        first = self._first_samples(series, page)
        if len(first) < len(series):
            moved = {int(old): new for new, old in enumerate(first)}
            timestamps_ms = {moved[old]: instant for old, instant in timestamps_ms.items() if old in moved}
            series, page_values = series[first], page_values[first]
        return Exposition(series, page_values, timestamps_ms, tuple(page.bad_lines), sample_count, is_torn)

    def _read_hard(
        self, row: int, line: str, places: NDArray[np.int64], values: NDArray[np.float64], page: _Page
    ) -> None:
        """A known series with a value the kernel leaves: many digits, NaN, an infinity, or no number."""
        place = HARD_NUMBER - places[row]
        try:
            values[row] = float(line.rpartition(" ")[2])
        except ValueError:
            page.bad_lines.append(BadLine(row + 1, line, "the value is no number"))
            places[row] = _NO_NUMBER
        else:
            places[row] = place

    def _read_anew(self, number: int, line: str, page: _Page) -> None:
        """A line whose text before the last blank was not met before: a new series, a timestamp, a comment."""
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            return
        if self._read_alike(stripped, page):
            return
        if self._is_unwanted(stripped):
            page.not_wanted += 1
            return
        found = _LINE.fullmatch(stripped)
        if found is None:
            page.bad_lines.append(BadLine(number, line, "a line that is no sample"))
            return
        try:
            value = float(found["value"])
            timestamp = None if found["timestamp"] is None else float(found["timestamp"])
            place = self._place_of(found["series"].rstrip(), found["name"], found["labels"] or "")
        except ValueError as error:
            page.bad_lines.append(BadLine(number, line, f"a line that is no sample: {error}"))
            return
        if timestamp is not None and place != NOT_WANTED:
            page.timestamps_ms[len(page.series)] = round(timestamp * (1000 if page.is_open_metrics else 1))
        page.take(place, value)

    def _read_alike(self, line: str, page: _Page) -> bool:
        """A line that differs from one before in its labels' values and its own only; False for any other."""
        text, _, value = line.rpartition(" ")
        parts = text.split('"')
        shape = self._shapes.get(tuple(parts[::2]))
        if shape is None or "\\" in text or len(text) > MAX_LABEL_CHARS:
            return False
        try:
            number = float(value)
        except ValueError:
            return False
        place = self._places.get(text)  # a second time in this page
        if place is None:
            place = self._enter(text, shape[0], dict(zip(shape[1], parts[1::2], strict=True)))
        page.take(place, number)
        return True

    def _is_unwanted(self, line: str) -> bool:
        """Whether a line plainly has another metric's name: then its labels are not looked at, now and from now on.

        The kernel has told so already where the value is a number it reads itself.
        """
        if not self._prefixes or line[0] == "{" or line[:64].lower().startswith(self._prefixes):
            return False
        text, _, value = line.rpartition(" ")
        if text in self._places:  # a second time in this page
            return self._places[text] == NOT_WANTED
        if not _PLAIN_SERIES.fullmatch(text):
            return False
        try:
            float(value)
        except ValueError:
            return False
        self._places[text] = NOT_WANTED
        self._table.remember(text.encode(), NOT_WANTED)
        return True

    def _place_of(self, text: str, name: str | None, labels_text: str) -> int:
        place = self._places.get(text)
        if place is not None:
            return place
        labels, quoted_name = _parse_labels(labels_text)
        exposed_name = name or quoted_name
        if not exposed_name:
            raise ValueError("it has no metric name")
        if quoted_name is None and "\\" not in text:
            self._shapes[tuple(text.split('"')[::2])] = (exposed_name, tuple(labels))
        return self._enter(text, exposed_name, labels)

    def _enter(self, text: str, exposed_name: str, labels: Mapping[str, str]) -> int:
        """Names a series met for the first time, and remembers its text."""
        series = self._choose(exposed_name, labels)
        place = NOT_WANTED
        if series is not None:
            place = len(self.series)
            self._first_of_name.append(self._by_name.setdefault(series[:2], place))
            self.series.append(series)
        self._places[text] = place
        self._table.remember(text.encode(), place)
        return place

    def _first_samples(self, series: NDArray[np.int64], page: _Page) -> NDArray[np.int64]:
        """Places to keep: of two samples of one series (or of two that have one canonical name) the first counts."""
        names = np.array(self._first_of_name, np.int64)[series]
        _, first = np.unique(names, return_index=True)
        if len(first) < len(series):
            for at in np.setdiff1d(np.arange(len(series)), first).tolist():
                found = self.series[series[at]]
                text = f"{found.exposed_name}{dict(found.labels)}"
                reason = f"a second sample of {found.name}: the first counts"
                page.bad_lines.append(BadLine(at + 1, text, reason, "suspect"))
        return np.sort(first)


class _Page:
    """What is gathered of one page's lines that were not met before."""

    def __init__(self, *, is_open_metrics: bool) -> None:
        self.is_open_metrics = is_open_metrics
        self.series: list[int] = []
        self.values: list[float] = []
        self.timestamps_ms: dict[int, int] = {}
        self.bad_lines: list[BadLine] = []
        self.not_wanted = 0

    def take(self, place: int, value: float) -> None:
        """Takes a sample; one that is not wanted is counted."""
        if place == NOT_WANTED:
            self.not_wanted += 1
        else:
            self.series.append(place)
            self.values.append(value)


def _parse_labels(text: str) -> tuple[dict[str, str], str | None]:
    """Label pairs, and the metric's name where it stands among them in quotes (names beyond ASCII)."""
    labels: dict[str, str] = {}
    name, at, end = None, 0, len(text.rstrip())
    while at < end:
        pair = _PAIR.match(text, at)
        if pair is None:
            raise ValueError(f"labels cannot be read from {text[at : at + 40]!r} on")
        if pair["name"]:
            name = _unquote(pair["name"])
        else:
            label = pair["label"]
            label = _unquote(label) if label[0] == '"' else label
            value = _unquote(pair["value"])
            if len(value) > MAX_LABEL_CHARS:
                raise ValueError(f"label {label} has {len(value):,} characters, at most {MAX_LABEL_CHARS:,} are taken")
            if label in labels:
                raise ValueError(f"label {label} stands there twice")
            labels[label] = value
        at = pair.end()
    return labels, name


def _unquote(quoted: str) -> str:
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1] if found[1] in '\\"' else found[0], inner)
