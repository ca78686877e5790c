"""Metrics kept as files (exporter pages at `<root>/<instance>/<epoch ms>.prom`, texts of clients anywhere), and tasks that parse them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.metric_names import BadLine, MetricText, Series, name_series
from pipeline.errors import InputError
from pipeline.files import MOST_TEXT_BYTES, read_small
from pipeline.model.log import Problem
from pipeline.model.window import LATEST_MS, TimeWindow
from pipeline.sources.files.directory_walk import is_folder, list_files, refuse_odd_paths, split_instant, walk_files
from pipeline.sources.metrics import sample_rows
from pipeline.sources.metrics.sample_rows import MAX_SKEW_MS, SAMPLE_SCHEMA, SampleIntake, Samples
from pipeline.sources.metrics.scraped_brokers import OF_BROKERS, describe_several, find_unknown_names
from pipeline.sources.questions import Finding
from pipeline.sources.records.pieces import Kind, Piece

_ONE_EACH = "keep a page of each broker in its own folder"
_MOST_DIGITS = 18  # of an instant: more are none that a calendar holds


@dataclass(frozen=True, slots=True)
class MetricPage:
    source: str
    instance: str  # folder name: the client, or the broker id
    # instant of the scrape, from the file name; else (`is_dated` is false) of the file's last change
    observed_at_ms: int
    path: str
    kind: type[Any]  # the class of its `MetricSource`, which parses it; pickles by name, for tasks
    is_dated: bool = True


def discover_pages(root: Path, source: str, kind: type[Any]) -> tuple[tuple[MetricPage, ...], tuple[Problem, ...]]:
    if not is_folder(root):
        return (), (Problem(path=str(root), reason="no such directory: no scrapes were read"),)
    pages: list[MetricPage] = []
    problems: list[Problem] = []
    folders = (  # those of a root, and those that links in it lead to
        walk_files(path, problems, most_levels=0) if is_folder(path) else (path,)
        for path in walk_files(root, problems, most_levels=1)
    )
    files = (one for one in chain.from_iterable(folders) if one.suffix == ".prom" and one.parent != root)
    for path in refuse_odd_paths(root, files, problems):
        if path.stem.isdecimal() and (at_ms := int(path.stem[:_MOST_DIGITS])) <= LATEST_MS:
            pages.append(MetricPage(source, path.parent.name, at_ms, str(path), kind))
        else:
            problems.append(Problem(path=str(path), reason="the file name is not an instant: expected <epoch ms>.prom"))
    return tuple(sorted(pages, key=lambda page: (page.instance, page.observed_at_ms))), tuple(problems)


def discover_texts(
    paths: Sequence[Path], source: str, kind: type[Any], suffixes: Sequence[str]
) -> tuple[tuple[MetricPage, ...], tuple[Problem, ...]]:
    """Texts in a format of their own, by path, pattern or suffix; the instance is the name without suffix and instant, or the folder's."""
    problems: list[Problem] = []
    pages = []
    for path in list_files(paths, [f"*{suffix}" for suffix in suffixes], problems):
        name, instant_ms = split_instant(path.stem)
        at_ms = path.stat().st_mtime_ns // 1_000_000 if instant_ms is None else instant_ms
        pages.append(MetricPage(source, name or path.parent.name, at_ms, str(path), kind, instant_ms is not None))
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


@dataclass(frozen=True, slots=True)
class PageTask:
    pages: tuple[MetricPage, ...]

    def run(self) -> Iterator[Piece]:
        from pipeline.codec.metrics.exposition import ExpositionReader  # noqa: PLC0415 - imports Numba, which a plan does not need

        reader, instance = ExpositionReader(), None
        for page in self.pages:
            if page.instance != instance:  # another exporter writes other series
                reader, instance = ExpositionReader(), page.instance
            for rows in read_page(page, reader):
                yield Piece(Kind.SAMPLES, pa.Table.from_batches([rows]))


def plan_page_tasks(pages: Sequence[MetricPage], count: int) -> list[PageTask]:
    size = max(1, -(-len(pages) // count))
    return [PageTask(tuple(pages[start : start + size])) for start in range(0, len(pages), size)]


def read_page(page: MetricPage, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
    try:
        text = read_small(page.path, MOST_TEXT_BYTES).decode().replace("\r\n", "\n")
        yield from page.kind.parse_page(page, text, reader)
    except (UnicodeDecodeError, OSError, InputError) as error:
        yield _problem_batch(page, Problem.of_error(page.path, error))
    except (ValueError, OverflowError) as error:  # such as a number beyond 64 bits, or half a character
        reason = f"holds a value that no table can hold: {type(error).__name__}"
        yield _problem_batch(page, Problem(path=page.path, reason=reason))


def look_at_pages(pages: Iterable[MetricPage]) -> Iterator[Finding]:
    names: set[str] = set()
    for page in pages:
        with suppress(UnicodeDecodeError, OSError, InputError):
            found, wrong = look_at_page(page.path, read_small(page.path, MOST_TEXT_BYTES).decode())
            names |= found
            yield from wrong
    yield from find_unknown_names(names)


def look_at_page(path: str, text: str) -> tuple[set[str], list[Finding]]:
    """Names of all metrics of a page, as exposed; and whether it is no page of one broker."""
    names: set[str] = set()

    def choose(name: str, labels: Mapping[str, str]) -> Series | None:
        names.add(name)
        return name_series(name, labels)

    reader = ExpositionReader(choose)
    reader.read(text)
    several = describe_several(reader.series)
    found = f"{path}: {several}"
    return names, [Finding(name="brokers", is_ok=False, found=found, advice=_ONE_EACH)] if several else []


def parse_exposition_page(page: MetricPage, text: str, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
    parsed = reader.read(text)
    problems = list[Problem]()
    if not parsed.sample_count and "# TYPE" not in text and "# HELP" not in text:
        what = "an HTML page" if "<html" in text[:1000].lower() else "no exporter page: no metric in it"
        return iter([_problem_batch(page, Problem(path=page.path, reason=what))])
    skews = [instant - page.observed_at_ms for instant in parsed.timestamps_ms.values()]
    worst_ms = max(skews, key=abs, default=0)
    if abs(worst_ms) > MAX_SKEW_MS:
        reason = f"its samples carry instants {worst_ms / 1000:+.0f} s from the scrape's: the scrape's is used"
        problems.append(Problem(path=page.path, reason=reason, severity="suspect"))
    # A series that half a page lacks would look like one that began at zero with the next page.
    count = 0 if parsed.is_torn else len(parsed.series)
    places, values = parsed.series[:count], parsed.values[:count]
    if several := describe_several(map(reader.series.__getitem__, places.tolist())):
        reason = f"{several}; what it tells of brokers is not taken; {_ONE_EACH}"
        problems.append(Problem(path=page.path, reason=reason))
        is_kept = np.array([not reader.series[place].name.startswith(OF_BROKERS) for place in places.tolist()], bool)
        places, values = places[is_kept], values[is_kept]
    instants_ms = np.full(len(places), page.observed_at_ms, np.int64)
    return _rows(page, reader.series, (places, instants_ms, values), parsed.bad_lines, problems)


def text_rows(page: MetricPage, parsed: MetricText) -> Iterator[pa.RecordBatch]:
    is_empty = not parsed.samples and not parsed.bad_lines
    problems = [Problem(path=page.path, reason="no metric in it")] if is_empty else []
    observed_at_ms, series, values = zip(*parsed.samples, strict=True) if parsed.samples else ((), (), ())
    instants_ms = sample_rows.take_instants(np.array(observed_at_ms, np.int64))
    samples = np.arange(len(series)), instants_ms, np.array(values, np.float64)
    return _rows(page, series, samples, parsed.bad_lines, problems)


def _rows(
    page: MetricPage,
    series: Sequence[Series],
    samples: Samples,
    bad_lines: Iterable[BadLine],
    others: Iterable[Problem],
) -> Iterator[pa.RecordBatch]:
    intake, known_as = SampleIntake(), (page.source, page.instance, page.path)
    yield from sample_rows.sample_batches(known_as, series, samples, intake=intake)
    problems = [Problem(path=page.path, position=at, reason=of, severity=kind) for at, of, kind in bad_lines]
    problems += [*others, *(Problem(path=page.path, reason=reason) for reason in intake.reasons)]
    if problems:
        yield _problem_batch(page, *problems)


def _problem_batch(page: MetricPage, *problems: Problem) -> pa.RecordBatch:
    known = {name: getattr(page, name) for name in ("source", "instance", "observed_at_ms")} | {"row_kind": "problem"}
    rows = [known | asdict(one) | {"first_bytes_hex": one.first_bytes[:64].hex()} for one in problems]
    return pa.RecordBatch.from_pylist(rows, SAMPLE_SCHEMA)
