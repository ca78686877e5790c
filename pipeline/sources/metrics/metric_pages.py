"""Metrics kept as files, and the tasks that parse them.

Exporter pages lie at `<root>/<instance>/<epoch ms>.prom`; output of kafka-producer-perf-test and statistics of librdkafka
lie anywhere. Tasks yield rows of `SAMPLE_SCHEMA`: of kind `sample`, and of kind `problem` for files or lines that could
not be read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.metrics.perf_test_output import parse_perf_test_output
from pipeline.model.log import Problem
from pipeline.sources.files.named_files import list_files, split_instant
from pipeline.sources.metrics.sample_rows import SAMPLE_SCHEMA, problem_batch, sample_batch
from pipeline.sources.records.pieces import Kind, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.codec.metrics.metric_text import BadLine, MetricText
    from pipeline.model.window import TimeWindow

MAX_SKEW_MS = 60_000
EXPOSITION, PERF_TEST, LIBRDKAFKA = "exposition", "perf_test", "librdkafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPage:
    """One scrape, kept as a file.

    Attributes:
        source: `producer_metrics` or `broker_metrics`.
        instance: Folder name: the client, or the broker id.
        observed_at_ms: Instant of the scrape, from the file name.
        path: The file.
        format: `exposition`, `perf_test` or `librdkafka`.
        is_dated: Whether the instant is the file name's; else it is that of the file's last change.
    """

    source: str
    instance: str
    observed_at_ms: int
    path: str
    format: str = EXPOSITION
    is_dated: bool = True


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


def discover_texts(
    paths: Sequence[Path], source: str, text_format: str, suffixes: Sequence[str]
) -> tuple[tuple[MetricPage, ...], tuple[Problem, ...]]:
    """Lists texts in a format of their own: files and patterns named, and what has a suffix in the folders named.

    The instance is the file's name without suffix and instant, or its folder's where nothing else is left.

    Args:
        paths: Files, folders, and patterns such as `runs/*.out`.
        source: Source kind.
        text_format: `perf_test` or `librdkafka`.
        suffixes: Of files in folders, such as `.out`.
    """
    problems: list[Problem] = []
    pages = []
    for path in list_files(paths, [f"*{suffix}" for suffix in suffixes], problems):
        name, instant_ms = split_instant(path.stem)
        pages.append(
            MetricPage(
                source=source,
                instance=name or path.parent.name,
                observed_at_ms=path.stat().st_mtime_ns // 1_000_000 if instant_ms is None else instant_ms,
                path=str(path),
                format=text_format,
                is_dated=instant_ms is not None,
            )
        )
    return tuple(pages), tuple(problems)


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


@dataclass(frozen=True, slots=True)
class PageTask:
    """The pages that one Spark task parses."""

    pages: tuple[MetricPage, ...]

    def run(self) -> Iterator[Piece]:
        """Yields the samples and problems of each page."""
        from pipeline.codec.metrics.exposition import ExpositionReader  # noqa: PLC0415 - imports Numba, which a plan does not need

        reader, instance = ExpositionReader(), None
        for page in self.pages:
            if page.instance != instance:  # another exporter writes other series
                reader, instance = ExpositionReader(), page.instance
            for rows in read_page(page, reader):
                yield Piece(Kind.SAMPLES, pa.Table.from_batches([rows]))


@dataclass(frozen=True, slots=True)
class HeldTask:
    """Samples that came over HTTP, as rows that are there already."""

    rows: tuple[pa.RecordBatch, ...]

    def run(self) -> Iterator[Piece]:
        """Yields them."""
        yield Piece(Kind.SAMPLES, pa.Table.from_batches(self.rows, SAMPLE_SCHEMA))


def plan_page_tasks(pages: Sequence[MetricPage], count: int) -> list[PageTask]:
    """Cuts a list of pages into equal runs, at most so many.

    >>> plan_page_tasks((), 2)
    []
    """
    size = max(1, -(-len(pages) // count))
    return [PageTask(tuple(pages[start : start + size])) for start in range(0, len(pages), size)]


def read_page(page: MetricPage, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
    """Rows of one file.

    Args:
        page: Which.
        reader: What is known of the exporter's series from the pages before.
    """
    try:
        text = Path(page.path).read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        yield _problems(page, [Problem(path=page.path, position=None, reason=f"cannot be read: {error}")])
        return
    if page.format == EXPOSITION:
        yield from _read_exposition(page, text, reader)
    elif page.format == PERF_TEST:
        yield from _text_rows(page, text, parse_perf_test_output(text, ended_at_ms=page.observed_at_ms))
    else:
        instant_ms = page.observed_at_ms if page.is_dated else None
        yield from _text_rows(page, text, parse_librdkafka_statistics(text, observed_at_ms=instant_ms))


def _read_exposition(page: MetricPage, text: str, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
    found = reader.read(text)
    problems = _of_lines(page, found.bad_lines)
    if not found.sample_count and "# TYPE" not in text and "# HELP" not in text:
        what = "an HTML page" if "<html" in text[:1000].lower() else "no exporter page: no metric in it"
        problems = [Problem(path=page.path, position=None, reason=what, first_bytes=text[:64].encode())]
    skews = [instant - page.observed_at_ms for instant in found.timestamps_ms.values()]
    worst_ms = max(skews, key=abs, default=0)
    if abs(worst_ms) > MAX_SKEW_MS:
        reason = f"its samples carry instants {worst_ms / 1000:+.0f} s from the scrape's: the scrape's is used"
        problems.append(Problem(path=page.path, position=None, reason=reason, severity="suspect"))
    # A series that half a page lacks would look like one that began at zero with the next page.
    if len(found.series) and not found.is_torn:
        yield sample_batch(
            page.source,
            page.instance,
            page.path,
            series=reader.series,
            places=found.series,
            observed_at_ms=np.full(len(found.series), page.observed_at_ms, np.int64),
            values=found.values,
        )
    if problems:
        yield _problems(page, problems)


def _text_rows(page: MetricPage, text: str, found: MetricText) -> Iterator[pa.RecordBatch]:
    problems = _of_lines(page, found.bad_lines)
    if not found.samples and not problems:
        problems = [Problem(path=page.path, position=None, reason="no metric in it", first_bytes=text[:64].encode())]
    if found.samples:
        yield sample_batch(
            page.source,
            page.instance,
            page.path,
            series=[sample.series for sample in found.samples],
            places=np.arange(len(found.samples)),
            observed_at_ms=np.array([sample.observed_at_ms for sample in found.samples], np.int64),
            values=np.array([sample.value for sample in found.samples], np.float64),
        )
    if problems:
        yield _problems(page, problems)


def _of_lines(page: MetricPage, bad_lines: Sequence[BadLine]) -> list[Problem]:
    return [
        Problem(
            path=page.path,
            position=line.number,
            reason=line.reason,
            first_bytes=line.text.encode()[:64],
            severity=line.severity,
        )
        for line in bad_lines
    ]


def _problems(page: MetricPage, problems: Sequence[Problem]) -> pa.RecordBatch:
    return problem_batch(page.source, page.instance, page.observed_at_ms, problems)
