"""Sources of metrics: what they are asked for and give, and what folders of pages and texts of clients have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pipeline.config.section import ConfigPath, Duration
from pipeline.model.window import milliseconds_of
from pipeline.sources.numbers import Number, rated
from pipeline.sources.source import Source, SourceAvailability, name_some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.codec.metrics.metric_names import MetricText
    from pipeline.model.log import Problem
    from pipeline.model.window import TimeWindow
    from pipeline.sources.metrics.metric_pages import MetricPage
    from pipeline.sources.metrics.sample_counts import InstanceSamples


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReading:
    """What one metrics source held, or all of a cluster.

    Attributes:
        listed: All scrapes kept as files, by source name, of any time.
        pages: Files to be parsed: those of the span, and what counters need from before.
        batches: Rows of `SAMPLE_SCHEMA` that came over HTTP.
        problems: What was wrong, by source name.
    """

    listed: Mapping[str, tuple[MetricPage, ...]] = field(default_factory=dict)
    pages: tuple[MetricPage, ...] = ()
    batches: tuple[pa.RecordBatch, ...] = ()
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no source held anything."""
        return not self.pages and not self.batches


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuestion:
    """Which samples of metrics a run wants, under which name of the source.

    Attributes:
        is_recorded: The run is about the past: what exporters say now is of no use.
        pause: Waits for so many seconds between attempts of a request.
    """

    name: str
    span: TimeWindow
    window_ms: int
    now_ms: int
    is_recorded: bool
    pause: Callable[[float], None]


class MetricSource(Source):
    """Where samples of metrics come from; `reports_brokers` where brokers' metrics may be among them."""

    column = "metrics"
    provides = rated("exact", Number.LATENCY, Number.RULES, Number.AVAILABILITY)
    reports_brokers: ClassVar[bool] = False

    @property
    def interval_ms(self) -> int | None:
        """Distance of two samples of an instance; None where nothing is expected."""
        return None

    @abstractmethod
    def read_samples(self, question: SampleQuestion) -> MetricReading:
        """Reads samples, or lists the files that Spark is to read; what is wrong becomes a problem."""

    @classmethod
    def parse_page(cls, page: MetricPage, text: str, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
        """Rows of `SAMPLE_SCHEMA` from one listed file; `reader` knows the series of the instance's pages before."""
        from pipeline.sources.metrics.metric_pages import parse_exposition_page

        return parse_exposition_page(page, text, reader)

    def availability(self, samples: Sequence[InstanceSamples], window: TimeWindow) -> SourceAvailability:
        """What the source brought into a window; `samples` are of all windows."""
        inside = [sample for sample in samples if sample.start_ms == window.start_ms]
        missing = sorted(self.expected_instances(samples, window) - {sample.instance for sample in inside})
        expected_count = None
        if self.interval_ms is not None:  # silence is not health: if no instance is known, one is assumed
            at_least = max(1, window.duration_ms // self.interval_ms)
            expected_count = self.count_expected(samples, window, self.interval_ms) if inside else at_least
        return SourceAvailability(
            expected_count,
            sum(sample.instant_count for sample in inside),
            name_some("no sample of", missing),
            max((sample.last_ms for sample in samples), default=None),
        )

    def expected_instances(self, samples: Sequence[InstanceSamples], window: TimeWindow) -> set[str]:
        """Instances that brought samples before the window's end and after its start."""
        before = {sample.instance for sample in samples if sample.first_ms < window.end_ms}
        return before & {sample.instance for sample in samples if sample.last_ms >= window.start_ms}

    def count_expected(self, samples: Sequence[InstanceSamples], window: TimeWindow, interval_ms: int) -> int:
        """Instants expected in a window in which any arrived."""
        from pipeline.sources.metrics.sample_counts import count_expected

        return count_expected(samples, window, interval_ms, after_last_ms=interval_ms)


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
