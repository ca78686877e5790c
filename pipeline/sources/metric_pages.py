"""Exporter pages kept as files, `<root>/<instance>/<epoch ms>.prom`, and the Spark data source that parses them.

The data source `metric_pages` takes a `plan` (from `format_pages`) and yields samples as Arrow record batches: rows of
kind `sample`, and of kind `problem` for pages or lines that could not be read.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pipeline.codec.exposition import parse_exposition
from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from pipeline.model.window import TimeWindow

SOURCE_NAME = "metric_pages"
PAGES_PER_ARROW_BATCH = 32
KNOWN_PREFIXES = (
    "kafka_producer_producer_",
    "kafka_server_brokertopicmetrics_",
    "kafka_server_replicamanager_",
    "kafka_network_requestmetrics_",
    "kafka_controller_kafkacontroller_",
    "kafka_log_log_size",
)
_OTHER_REQUEST = re.compile(r'^kafka_network_requestmetrics_[^\n]*request="(?!Produce")[^\n]*\n', re.MULTILINE)
_SAMPLE_SCHEMA = pa.schema(
    [
        ("row_kind", pa.string()),
        ("source", pa.string()),
        ("instance", pa.string()),
        ("observed_at_ms", pa.int64()),
        ("name", pa.string()),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("value", pa.float64()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("severity", pa.string()),
        ("first_bytes_hex", pa.string()),
    ]
)
SQL_SCHEMA = (
    "row_kind string, source string, instance string, observed_at_ms bigint, name string, labels map<string,string>, "
    "value double, path string, position bigint, reason string, severity string, first_bytes_hex string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPage:
    """One scrape, kept as a file.

    Attributes:
        source: `producer_metrics` or `broker_metrics`.
        instance: Folder name: the client, or the broker id.
        observed_at_ms: Instant of the scrape, from the file name.
        path: The file.
    """

    source: str
    instance: str
    observed_at_ms: int
    path: str


def discover_pages(root: Path, source: str) -> tuple[tuple[MetricPage, ...], tuple[Problem, ...]]:
    """Lists the pages under a root, by instance and instant; a file whose name is no instant is a problem."""
    if not root.is_dir():
        return (), (Problem(path=str(root), position=None, reason="no such directory: no scrapes were read"),)
    pages, problems = [], []
    for path in sorted(root.glob("*/*.prom")):
        if path.stem.isdecimal():
            pages.append(
                MetricPage(source=source, instance=path.parent.name, observed_at_ms=int(path.stem), path=str(path))
            )
        else:
            reason = "the file name is no instant: expected <epoch ms>.prom"
            problems.append(Problem(path=str(path), position=None, reason=reason))
    return tuple(sorted(pages, key=lambda page: (page.instance, page.observed_at_ms))), tuple(problems)


def pages_within(pages: Sequence[MetricPage], span: TimeWindow) -> tuple[MetricPage, ...]:
    """The pages scraped in the span and, per instance, the last one before it: counters need a predecessor."""
    by_instance: dict[str, list[MetricPage]] = defaultdict(list)
    for page in pages:
        by_instance[page.instance].append(page)
    chosen: list[MetricPage] = []
    for instance in sorted(by_instance):
        chosen += [page for page in by_instance[instance] if page.observed_at_ms < span.start_ms][-1:]
        chosen += [page for page in by_instance[instance] if page.observed_at_ms in span]
    return tuple(chosen)


def expected_pages(pages: Sequence[MetricPage], window: TimeWindow, interval_ms: int) -> int:
    """How many scrapes the window should hold: one an interval while each instance was being scraped."""
    seen: dict[str, list[int]] = defaultdict(list)
    for page in pages:
        seen[page.instance].append(page.observed_at_ms)
    lived_ms = (min(window.end_ms, max(instants)) - max(window.start_ms, min(instants)) for instants in seen.values())
    return sum(max(0, span_ms) // interval_ms for span_ms in lived_ms)


def format_pages(pages: Sequence[MetricPage]) -> str:
    """Writes the plan as the option the Spark data source takes."""
    return json.dumps([asdict(page) for page in pages])


@dataclass
class PageGroup(InputPartition):
    """The pages one Spark task parses."""

    pages: tuple[MetricPage, ...]

    def __post_init__(self) -> None:
        super().__init__(None)


class MetricPageReader(DataSourceReader):
    """Parses pages in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._pages = tuple(MetricPage(**fields) for fields in json.loads(options["plan"]))
        self._count = int(options.get("spark_partitions", "2"))

    def partitions(self) -> list[InputPartition]:
        """Cuts the list of pages into equal runs."""
        size = max(1, -(-len(self._pages) // self._count))
        starts = range(0, max(1, len(self._pages)), size)
        return [PageGroup(self._pages[start : start + size]) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the known samples of each page, a few pages to an Arrow record batch."""
        assert isinstance(partition, PageGroup)  # noqa: S101  (narrows Spark's type)
        for start in range(0, len(partition.pages), PAGES_PER_ARROW_BATCH):
            rows: list[tuple[object, ...]] = []
            for page in partition.pages[start : start + PAGES_PER_ARROW_BATCH]:
                rows += _page_rows(page)
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [pa.array(column, field.type) for column, field in zip(columns, _SAMPLE_SCHEMA, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_SAMPLE_SCHEMA)


class MetricPageSource(DataSource):
    """The data source as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.read.format`."""
        return SOURCE_NAME

    def schema(self) -> str:
        """Spark SQL types of the rows."""
        return SQL_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader; the schema is always the whole one."""
        return MetricPageReader(self.options)


def _page_rows(page: MetricPage) -> list[tuple[object, ...]]:
    head = (page.source, page.instance, page.observed_at_ms)
    try:
        text = Path(page.path).read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        return [_problem_row(head, page.path, None, f"cannot be read: {error}", b"")]
    exposition = parse_exposition(_without_other_requests(text), name_prefixes=KNOWN_PREFIXES)
    rows: list[tuple[object, ...]] = [
        ("sample", *head, s.name, tuple(s.labels.items()), None if isnan(s.value) else s.value, page.path, *[None] * 4)
        for s in exposition.samples
    ]
    if not rows and "# TYPE" not in text and "# HELP" not in text:
        rows.append(_problem_row(head, page.path, None, "no exporter page: no metric in it", text.encode()))
    return rows + [
        _problem_row(head, page.path, number, "a line that is no sample", line.encode())
        for number, line in exposition.bad_lines
    ]


def _without_other_requests(text: str) -> str:
    """The page without the request metrics of other requests than Produce: most of a broker's page."""
    return _OTHER_REQUEST.sub("", text)


def _problem_row(
    head: tuple[str, str, int], path: str, position: int | None, reason: str, first_bytes: bytes
) -> tuple[object, ...]:
    return ("problem", *head, None, None, None, path, position, reason, "refused", first_bytes[:64].hex())
