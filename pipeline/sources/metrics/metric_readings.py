"""Every metrics source of a cluster: files listed for Spark to parse, answers of servers, and what was wrong.

Each source fails alone: what is wrong with one becomes its problem, the others are read all the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.config.file_sources import BrokerMetrics, ProducerMetrics
from pipeline.config.metric_sources import METRIC_KINDS, ExporterUrls, LibrdkafkaStatistics, PerfTestOutput, Prometheus
from pipeline.errors import ConfigError, InputError
from pipeline.model.log import Problem
from pipeline.model.window import milliseconds_of
from pipeline.sources.metrics.http_text import HttpReader, shown
from pipeline.sources.metrics.metric_pages import LIBRDKAFKA, PERF_TEST, discover_pages, discover_texts, pages_within
from pipeline.sources.metrics.prometheus import read_prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from pipeline.config.pipeline_config import Cluster, Source
    from pipeline.model.window import TimeWindow
    from pipeline.sources.metrics.metric_pages import MetricPage

_SCRAPED = (ProducerMetrics, BrokerMetrics, ExporterUrls)
_PERF_TEST_SUFFIXES = (".out", ".txt", ".log")
_LIBRDKAFKA_SUFFIXES = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReading:
    """What the metrics sources of a cluster held.

    Attributes:
        listed: All scrapes kept as files, by source name, of any time.
        pages: Files to be parsed: those of the span, and what counters need from before.
        batches: Rows of `SAMPLE_SCHEMA` that came over HTTP.
        problems: What was wrong, by source name.
    """

    listed: Mapping[str, tuple[MetricPage, ...]]
    pages: tuple[MetricPage, ...] = ()
    batches: tuple[pa.RecordBatch, ...] = ()
    problems: Mapping[str, tuple[Problem, ...]]

    @property
    def is_empty(self) -> bool:
        """Whether no source held anything."""
        return not self.pages and not self.batches


def read_metrics(
    cluster: Cluster, span: TimeWindow, window_ms: int, *, now_ms: int, pause: Callable[[float], None]
) -> MetricReading:
    """Reads every metrics source, or lists its files.

    Args:
        cluster: The configuration.
        span: The run's windows.
        window_ms: Length of a window.
        now_ms: The clock.
        pause: Waits for so many seconds between attempts of a request.
    """
    pages: list[MetricPage] = []
    listed: dict[str, tuple[MetricPage, ...]] = {}
    batches: list[pa.RecordBatch] = []
    problems: dict[str, list[Problem]] = defaultdict(list)
    for name, source in name_metric_sources(cluster).items():
        if isinstance(source, Prometheus):
            try:
                reading = read_prometheus(source, span, window_ms, name=name, now_ms=now_ms, pause=pause)
            except ConfigError as error:
                problems[name].append(Problem(path=shown(source.url), position=None, reason=str(error)))
            else:
                batches += reading.batches
                problems[name] += reading.problems
            continue
        if isinstance(source, ExporterUrls) and cluster.as_of is None:
            problems[name] += _scrape(source, now_ms, pause)
        found, found_problems = _list_pages(source, name)
        if isinstance(source, _SCRAPED):
            listed[name] = found
            found = pages_within(found, span)
        pages += found
        problems[name] += found_problems
    return MetricReading(
        listed=listed,
        pages=tuple(pages),
        batches=tuple(batches),
        problems={name: tuple(found) for name, found in problems.items() if found},
    )


def name_metric_sources(cluster: Cluster) -> dict[str, Source]:
    """Metrics sources by the name that tables give them: the kind, numbered from the second of a kind on.

    In order of precedence: `prometheus` and `prometheus-2` come after every `producer_metrics`.
    """
    named: dict[str, Source] = {}
    for kind in METRIC_KINDS:
        of_kind = (source for source in cluster.sources if source.kind == kind)
        for number, source in enumerate(of_kind, start=1):
            named[kind if number == 1 else f"{kind}-{number}"] = source
    return named


def sample_intervals_ms(cluster: Cluster) -> dict[str, int]:
    """Configured distance of two samples, by source name."""
    return {
        name: milliseconds_of(interval)
        for name, source in name_metric_sources(cluster).items()
        if (interval := getattr(source, "interval", None)) is not None
    }


def tells_of_brokers(cluster: Cluster) -> bool:
    """Whether a source may hold brokers' metrics."""
    kinds = {"broker_metrics", "exporter_urls", "prometheus"}
    return any(source.kind in kinds for source in cluster.sources)


def client_configs(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Configured settings of producers as text, by client id."""
    return {client_id: settings for client_id, settings in cluster.producers.items() if settings}


def _list_pages(source: Source, name: str) -> tuple[tuple[MetricPage, ...], tuple[Problem, ...]]:
    if isinstance(source, _SCRAPED):
        return discover_pages(source.path, name)
    if isinstance(source, PerfTestOutput):
        return discover_texts(source.paths, name, PERF_TEST, _PERF_TEST_SUFFIXES)
    if isinstance(source, LibrdkafkaStatistics):
        return discover_texts(source.paths, name, LIBRDKAFKA, _LIBRDKAFKA_SUFFIXES)
    return (), ()


def _scrape(source: ExporterUrls, now_ms: int, pause: Callable[[float], None]) -> Iterator[Problem]:
    """Scrapes every URL once into its folder."""
    try:
        http = HttpReader(source.access, pause)
    except ConfigError as error:
        yield Problem(path=str(source.path), position=None, reason=str(error))
        return
    with http:
        for folder, url in (*source.producers.items(), *((str(b), url) for b, url in source.brokers.items())):
            try:
                keep_page(http, url, source.path / folder, now_ms)
            except (InputError, OSError) as error:
                reason = error.reason if isinstance(error, InputError) else f"cannot be kept: {error}"
                yield Problem(path=shown(url), position=None, reason=reason)


def keep_page(http: HttpReader, url: str, folder: Path, now_ms: int) -> Path:
    """Reads an exporter's page and keeps it as `<folder>/<epoch ms>.prom`.

    Raises:
        InputError: if it cannot be read, or is no page of metrics.
        OSError: if it cannot be kept.
    """
    answer = http.read(url, accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=1")
    if answer.content_type == "text/html" or re.match(r"\s*<(!doctype|html)", answer.text, re.IGNORECASE):
        raise InputError("an HTML page where metrics were expected: is /metrics missing from the URL?", path=shown(url))
    if answer.content_type == "application/openmetrics-text" and not answer.text.rstrip().endswith("# EOF"):
        raise InputError("half a page: OpenMetrics without its # EOF", path=shown(url))
    folder.mkdir(parents=True, exist_ok=True)
    page, partial = folder / f"{now_ms}.prom", folder / f".{now_ms}.partial"
    partial.write_text(answer.text, encoding="utf-8")
    partial.replace(page)
    return page
