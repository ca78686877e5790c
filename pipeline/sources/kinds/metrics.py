"""Metrics: exporter pages, kept as files by somebody else or scraped by the run itself; a Prometheus server; statistics of librdkafka."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pipeline.config.http_access import HttpAccess, HttpUrl, PrometheusServer
from pipeline.config.section import ConfigPath, Duration, NodeId
from pipeline.config.sections import LEAST_RETENTION
from pipeline.errors import ConfigError, InputError
from pipeline.files import replace_file
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.sources.metrics.metric_source import MetricReading, MetricSource, PageFolder
from pipeline.sources.questions import Finding

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.sources.metrics.http_text import HttpReader
    from pipeline.sources.metrics.metric_pages import MetricPage
    from pipeline.sources.metrics.metric_source import InstanceSamples, SampleQuestion


class ProducerMetrics(PageFolder):
    """Exporter pages of producers: `<path>/<client>/<epoch ms>.prom`."""

    rank = 90
    kind: Literal["producer_metrics"]
    interval: Duration = timedelta(seconds=5)

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        path = Path(location).resolve()
        pages = path / "producers" if (path / "producers").is_dir() else path
        return {"path": str(pages)} if any(pages.glob("*/*.prom")) else None


class BrokerMetrics(PageFolder):
    """Exporter pages of brokers: `<path>/<broker id>/<epoch ms>.prom`."""

    rank = 100
    reports_brokers = True
    kind: Literal["broker_metrics"]
    interval: Duration = timedelta(minutes=1)


class ExporterUrls(PageFolder):
    """Exporters that are scraped by the run itself, once; pages are kept, since counters need a predecessor."""

    rank = 110
    reports_brokers = True
    kind: Literal["exporter_urls"]
    path: ConfigPath
    """Where pages are kept: `<path>/<client or broker id>/<epoch ms>.prom`."""
    producers: dict[str, HttpUrl] = Field(default_factory=dict)
    """URL by client folder."""
    brokers: dict[NodeId, HttpUrl] = Field(default_factory=dict)
    """URL by broker id."""
    access: HttpAccess = HttpAccess()
    """How the URLs are read."""
    interval: Duration = timedelta(hours=1)
    """Time between two runs."""
    keep: Duration = LEAST_RETENTION
    """How long pages are kept; older ones are deleted, as their samples are in tables."""
    keep_bytes: int = Field(2 << 30, gt=0)
    """Most bytes of an exporter's pages together: the oldest are deleted first, the newest never."""

    @field_validator("producers")
    @classmethod
    def _folders(cls, urls: dict[str, str]) -> dict[str, str]:
        for name in urls:
            if not name or name.startswith(".") or "/" in name:
                raise ValueError(f"{name!r} names a folder: letters, digits, - and _ are allowed")
        return urls

    @model_validator(mode="after")
    def _any(self, validation: ValidationInfo) -> ExporterUrls:
        if not self.producers and not self.brokers:
            raise ValueError("no URL: give producers or brokers")
        if both := ", ".join(sorted({*self.producers} & {str(broker_id) for broker_id in self.brokers})):
            raise ValueError(f"{both} is listed twice: a client and a broker would share a folder")
        taken: set[Path] = (validation.context or {}).get("folders_of_pages", set())
        if (folder := self.path.resolve()) in taken:
            raise ValueError("path: another source keeps its pages there, too: give each source a path of its own")
        taken.add(folder)
        return self

    @property
    def urls(self) -> dict[str, str]:
        return self.producers | {str(broker_id): url for broker_id, url in self.brokers.items()}

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        problems = () if question.is_recorded else tuple(self._scrape(question))
        reading = super().read_samples(question)
        return replace(reading, problems={question.name: (*problems, *reading.problems[question.name])})

    def _scrape(self, question: SampleQuestion) -> Iterator[Problem]:
        from pipeline.sources.metrics.http_text import HttpReader, shown

        try:
            with HttpReader(self.access, question.pause) as http:
                for folder, url in self.urls.items():
                    try:
                        is_kept = keep_page(http, url, self.path / folder, question.now_ms)
                        reasons = [] if is_kept else ["holds none of the metrics that are read: it is not kept"]
                        oldest_ms = question.now_ms - milliseconds_of(self.keep)
                        if drop_pages(self.path / folder, oldest_ms, self.keep_bytes):
                            over = f"its pages take more than keep_bytes ({self.keep_bytes:,})"
                            reasons.append(f"{over}: the oldest are deleted, windows that need them have no samples")
                        yield from (Problem(path=shown(url), reason=reason, severity="suspect") for reason in reasons)
                    except (InputError, OSError) as error:
                        reason = error.reason if isinstance(error, InputError) else f"cannot be kept: {error}"
                        yield Problem(path=shown(url), reason=reason)
        except ConfigError as error:
            yield Problem(path=str(self.path), reason=str(error))

    def expected_instances(self, samples: Sequence[InstanceSamples], window: TimeWindow) -> set[str]:
        return set(self.urls)

    def count_expected(self, samples: Sequence[InstanceSamples], window: TimeWindow, after_ms: int) -> int:
        return len(self.urls) * max(1, window.duration_ms // self.interval_ms)

    def probe(self) -> Iterator[Finding]:
        from pipeline.sources.metrics.http_text import HttpReader, shown
        from pipeline.sources.metrics.metric_pages import look_at_page
        from pipeline.sources.metrics.scraped_brokers import find_unknown_names

        names: set[str] = set()
        for url in self.urls.values():
            try:
                with HttpReader(self.access.quick(), time.sleep) as http:
                    text = http.read(url).text
                found, wrong = look_at_page(shown(url), text)
                names |= found
                yield from wrong
                yield Finding(name="", is_ok=True, found=f"{shown(url)}: a page of {len(text):,} characters")
            except (InputError, ConfigError) as error:
                yield Finding(name="", is_ok=False, found=str(error), advice="correct the URL or access of the source")
        yield from find_unknown_names(names)


def keep_page(http: HttpReader, url: str, folder: Path, now_ms: int) -> bool:
    """Keeps an exporter's page unless no metric in it is read, and says whether; `InputError`: none of an exporter, `OSError`: not kept."""
    from pipeline.codec.metrics.exposition import has_wanted
    from pipeline.sources.metrics.http_text import shown

    answer = http.read(url, accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=1")
    if answer.content_type == "text/html" or re.match(rb"\s*<(!doctype|html)", answer.content, re.IGNORECASE):
        raise InputError("an HTML page where metrics were expected: is /metrics missing from the URL?", path=shown(url))
    if answer.content_type == "application/openmetrics-text" and not answer.content[-999:].rstrip().endswith(b"# EOF"):
        raise InputError("a truncated page: OpenMetrics without its # EOF", path=shown(url))
    with http.understanding(url):
        is_kept = has_wanted(answer.content)
    if is_kept:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{now_ms}.prom", bytes(answer.content), mode=0o644)
    return is_kept


def drop_pages(folder: Path, oldest_ms: int, most_bytes: int) -> bool:
    """Deletes pages before an instant, and the oldest of those that take more bytes together; whether there are such."""
    pages = sorted((int(page.stem), page) for page in folder.glob("*.prom") if page.stem.isdecimal())
    is_full, kept_bytes = False, 0
    for at_ms, page in reversed(pages):
        size_bytes = page.lstat().st_size
        if at_ms < oldest_ms:
            page.unlink(missing_ok=True)
        elif kept_bytes and kept_bytes + size_bytes > most_bytes:
            is_full = True
            page.unlink(missing_ok=True)
        else:
            kept_bytes += size_bytes
    return is_full


class Prometheus(PrometheusServer, MetricSource):
    """A Prometheus server (or anything with its HTTP API) that scrapes brokers and producers."""

    rank = 120
    reports_brokers = True
    kind: Literal["prometheus"]

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        return {"url": location} if location.startswith(("http://", "https://")) else None

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        from pipeline.sources.metrics.prometheus import read_prometheus

        return read_prometheus(self, question)

    def probe(self) -> Iterator[Finding]:
        from pipeline.sources.metrics.prometheus import probe_prometheus

        try:
            yield from probe_prometheus(self.model_copy(update={"access": self.access.quick()}), pause=time.sleep)
        except (InputError, ConfigError) as error:
            yield Finding(name="", is_ok=False, found=str(error), advice="correct url or access of the source")


_SUFFIXES = (".json", ".jsonl", ".ndjson")


class LibrdkafkaStatistics(MetricSource):
    """Statistics of librdkafka, one JSON object a line: files, or folders with `*.json` and `*.jsonl` at any depth."""

    rank = 130
    kind: Literal["librdkafka_statistics"]
    paths: tuple[ConfigPath, ...] = Field(min_length=1)
    interval: Duration = timedelta(seconds=5)

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        path = Path(location)
        texts = [path] if path.is_file() else path.rglob("*")
        return {"paths": [str(path.resolve())]} if any(text.suffix in _SUFFIXES for text in texts) else None

    @property
    def interval_ms(self) -> int:
        return milliseconds_of(self.interval)

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        from pipeline.sources.metrics.metric_pages import discover_texts

        pages, problems = discover_texts(self.paths, question.name, type(self), _SUFFIXES)
        return MetricReading(pages=pages, problems={question.name: problems})

    @classmethod
    def parse_page(cls, page: MetricPage, text: str, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
        from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
        from pipeline.sources.metrics.metric_pages import text_rows

        observed_at_ms = page.observed_at_ms if page.is_dated else None
        return text_rows(page, parse_librdkafka_statistics(text, observed_at_ms=observed_at_ms))
