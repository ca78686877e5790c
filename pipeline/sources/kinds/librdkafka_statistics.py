"""Statistics of librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pipeline.config.section import ConfigPath, Duration
from pipeline.model.window import milliseconds_of
from pipeline.sources.metrics.metric_source import MetricReading, MetricSource, SampleQuestion

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.sources.metrics.metric_pages import MetricPage

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
        return text_rows(page, text, parse_librdkafka_statistics(text, observed_at_ms=observed_at_ms))
