"""Sources of metrics that are files: what folders of exporter pages, and texts of clients, have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipeline.config.section import ConfigPath, Duration
from pipeline.model.window import milliseconds_of
from pipeline.sources.source import MetricSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.codec.metrics.metric_text import MetricText
    from pipeline.model.window import TimeWindow
    from pipeline.sources.metrics.metric_pages import MetricPage
    from pipeline.sources.metrics.metric_readings import MetricReading
    from pipeline.sources.metrics.sample_counts import InstanceSamples
    from pipeline.sources.source import SampleQuestion


class PageFolder(MetricSource):
    """A folder of exporter pages: `<path>/<instance>/<epoch ms>.prom`."""

    path: ConfigPath
    interval: Duration

    @property
    def interval_ms(self) -> int:
        """Distance of two pages."""
        return milliseconds_of(self.interval)

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        """Lists all pages; those of the span, and what counters need from before it, are to be parsed."""
        from pipeline.sources.metrics.metric_pages import discover_pages, pages_within
        from pipeline.sources.metrics.metric_readings import MetricReading

        found, problems = discover_pages(self.path, question.name, type(self))
        name = question.name
        return MetricReading(listed={name: found}, pages=pages_within(found, question.span), problems={name: problems})

    def count_expected(self, samples: Sequence[InstanceSamples], window: TimeWindow, interval_ms: int) -> int:
        """One page an interval, from each instance's first page to its last."""
        from pipeline.sources.metrics.sample_counts import count_expected

        return count_expected(samples, window, interval_ms, after_last_ms=0)


class MetricTexts(MetricSource):
    """Texts in a format of their own: files and patterns named, and what has a suffix in the folders named."""

    suffixes: ClassVar[tuple[str, ...]]

    paths: tuple[ConfigPath, ...] = Field(min_length=1)

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        """Lists the texts; all are to be parsed, for their instants are in them."""
        from pipeline.sources.metrics.metric_pages import discover_texts
        from pipeline.sources.metrics.metric_readings import MetricReading

        pages, problems = discover_texts(self.paths, question.name, type(self), self.suffixes)
        return MetricReading(pages=pages, problems={question.name: problems})

    @classmethod
    @abstractmethod
    def parse_text(cls, page: MetricPage, text: str) -> MetricText:
        """Samples of one text, and its bad lines."""

    @classmethod
    def parse_page(cls, page: MetricPage, text: str, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
        """Rows of `SAMPLE_SCHEMA` from one text."""
        from pipeline.sources.metrics.metric_pages import text_rows

        return text_rows(page, text, cls.parse_text(page, text))
