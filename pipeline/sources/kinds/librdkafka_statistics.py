"""Statistics of librdkafka."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pipeline.codec.metrics.metric_names import MetricText
from pipeline.config.section import Duration
from pipeline.model.window import milliseconds_of
from pipeline.sources.metrics.metric_source import MetricTexts

if TYPE_CHECKING:
    from pipeline.sources.metrics.metric_pages import MetricPage


class LibrdkafkaStatistics(MetricTexts):
    """Statistics of librdkafka, one JSON object a line: files, or folders with `*.json` and `*.jsonl` at any depth."""

    rank = 130
    suffixes = (".json", ".jsonl", ".ndjson")

    kind: Literal["librdkafka_statistics"]
    interval: Duration = timedelta(seconds=5)

    @property
    def interval_ms(self) -> int:
        """Time between two objects."""
        return milliseconds_of(self.interval)

    @classmethod
    def parse_text(cls, page: MetricPage, text: str) -> MetricText:
        """Reads the objects; the instant in the file's name holds where an object has none."""
        from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics

        return parse_librdkafka_statistics(text, observed_at_ms=page.observed_at_ms if page.is_dated else None)
