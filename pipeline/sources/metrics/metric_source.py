"""Sources of metrics: what they are asked for and give, and what folders of pages have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pipeline.config.section import ConfigPath, Duration
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow, Windows, milliseconds_of
from pipeline.sources.files.cluster_rows import problems_of
from pipeline.sources.questions import Finding, SourceAvailability, name_some
from pipeline.sources.source import Number, Source, rated, sources_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.config.pipeline_config import Cluster
    from pipeline.sources.metrics.metric_pages import MetricPage

_MOST_PROBED = 20


class InstanceSamples(NamedTuple):
    """Distinct instants of an instance's samples within a window: how many, the earliest, the latest."""

    source: str
    instance: str
    start_ms: int
    instant_count: int
    first_ms: int
    last_ms: int


def count_samples(
    counted: pa.Table, problems: pa.Table, windows: Windows
) -> tuple[Counter[tuple[str, TimeWindow]], dict[str, list[Problem]], tuple[InstanceSamples, ...]]:
    """Rows by source and window, and problems, from counts of `transforms.samples` (with `row_count`) and rows of kind `problem`."""
    from pipeline.tables.values import tuples_of

    by_start = {window.start_ms: window for window in windows}
    counts: Counter[tuple[str, TimeWindow]] = Counter()
    instances = []
    for *of_instance, row_count in tuples_of(counted, *InstanceSamples._fields, "row_count"):
        found = InstanceSamples(*of_instance)
        if found.start_ms in by_start:  # others serve as predecessors only
            counts[found.source, by_start[found.start_ms]] += row_count
        instances.append(found)
    problems_by_source: dict[str, list[Problem]] = defaultdict(list)
    for source, problem in zip(problems["source"].to_pylist(), problems_of(problems.to_pylist()), strict=True):
        problems_by_source[source].append(problem)
    return counts, dict(problems_by_source), tuple(sorted(instances))


def samples_of_pages(pages: Iterable[MetricPage], window_ms: int) -> list[InstanceSamples]:
    instants: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for page in pages:
        start_ms = page.observed_at_ms - page.observed_at_ms % window_ms
        instants[page.source, page.instance, start_ms].append(page.observed_at_ms)
    return [InstanceSamples(*key, len(at), min(at), max(at)) for key, at in sorted(instants.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReading:
    # all scrapes kept as files, by source name, of any time
    listed: Mapping[str, tuple[MetricPage, ...]] = field(default_factory=dict)
    pages: tuple[MetricPage, ...] = ()  # files to be parsed: those of the span, and what counters need from before
    batches: tuple[pa.RecordBatch, ...] = ()  # rows of `SAMPLE_SCHEMA` that came over HTTP
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    # by source, brokers that took in records by samples that came over HTTP, and when last, UTC milliseconds
    taking: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.pages and not self.batches


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuestion:
    name: str = ""  # of the source that is asked
    span: TimeWindow
    window_ms: int
    now_ms: int
    is_recorded: bool = False  # the run is about the past: what exporters say now is of no use
    pause: Callable[[float], None]  # waits for so many seconds between attempts of a request
    clock: Callable[[], int]  # reads the clock, UTC milliseconds: a run goes on for minutes after its now


class MetricSource(Source):
    """Source of metric samples; `reports_brokers` where brokers' metrics may be among them."""

    column = "metrics"
    provides = rated("exact", Number.LATENCY, Number.RULES, Number.AVAILABILITY)
    reports_brokers: ClassVar[bool] = False

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        """The keys of a source that reads a path or URL, as `replay --metrics` takes it; None where it is of another kind."""
        return None

    @property
    @abstractmethod
    def interval_ms(self) -> int:
        """Time between two samples of an instance."""

    @abstractmethod
    def read_samples(self, question: SampleQuestion) -> MetricReading:
        """Reads samples, or lists the files that Spark is to read; what is wrong becomes a problem."""

    @classmethod
    def parse_page(cls, page: MetricPage, text: str, reader: ExpositionReader) -> Iterator[pa.RecordBatch]:
        """Rows of `SAMPLE_SCHEMA` from one listed file; `reader` knows the series of the instance's pages before."""
        from pipeline.sources.metrics.metric_pages import parse_exposition_page

        return parse_exposition_page(page, text, reader)

    def availability(self, samples: Sequence[InstanceSamples], window: TimeWindow) -> SourceAvailability:
        inside = [sample for sample in samples if sample.start_ms == window.start_ms]
        missing = sorted(self.expected_instances(samples, window) - {sample.instance for sample in inside})
        # silence is not health: if no instance is known, one is assumed
        at_least = max(1, window.duration_ms // self.interval_ms)
        return SourceAvailability(
            self.count_expected(samples, window, self.interval_ms) if inside else at_least,
            sum(sample.instant_count for sample in inside),
            name_some("no sample of", missing),
            max((sample.last_ms for sample in samples), default=None),
        )

    def expected_instances(self, samples: Sequence[InstanceSamples], window: TimeWindow) -> set[str]:
        before = {sample.instance for sample in samples if sample.first_ms < window.end_ms}
        return before & {sample.instance for sample in samples if sample.last_ms >= window.start_ms}

    def count_expected(self, samples: Sequence[InstanceSamples], window: TimeWindow, after_ms: int) -> int:
        """Instants that a window should hold: one an interval while each instance was known, and for a while after its last sample."""
        known_ms: dict[str, list[int]] = defaultdict(list)
        for sample in samples:
            known_ms[sample.instance] += sample.first_ms, sample.last_ms
        ends = ((max(window.start_ms, min(at)), min(window.end_ms, max(at) + after_ms)) for at in known_ms.values())
        return sum(max(0, end_ms - start_ms) // self.interval_ms for start_ms, end_ms in ends)


class PageFolder(MetricSource):
    """A folder of exporter pages: `<path>/<instance>/<epoch ms>.prom`."""

    path: ConfigPath
    interval: Duration

    @property
    def interval_ms(self) -> int:
        return milliseconds_of(self.interval)

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        from pipeline.sources.metrics.metric_pages import discover_pages, pages_within

        pages, problems = discover_pages(self.path, question.name, type(self))
        name = question.name
        return MetricReading(listed={name: pages}, pages=pages_within(pages, question.span), problems={name: problems})

    def probe(self) -> Iterator[Finding]:
        from pipeline.sources.metrics.metric_pages import discover_pages, look_at_pages

        yield from super().probe()
        newest = {page.instance: page for page in discover_pages(self.path, "", type(self))[0]}
        yield from look_at_pages(list(newest.values())[:_MOST_PROBED])

    def count_expected(self, samples: Sequence[InstanceSamples], window: TimeWindow, after_ms: int) -> int:
        return super().count_expected(samples, window, 0)


def read_metrics(cluster: Cluster, question: SampleQuestion) -> MetricReading:
    question, sources = replace(question, is_recorded=cluster.as_of is not None), name_metric_sources(cluster)
    readings = [source.read_samples(replace(question, name=name)) for name, source in sources.items()]
    return MetricReading(
        listed=dict(ChainMap(*(dict(one.listed) for one in readings))),
        pages=tuple(page for reading in readings for page in reading.pages),
        batches=tuple(batch for reading in readings for batch in reading.batches),
        problems={name: problems for reading in readings for name, problems in reading.problems.items() if problems},
        taking=dict(ChainMap(*(dict(one.taking) for one in readings))),
    )


def name_metric_sources(cluster: Cluster) -> dict[str, MetricSource]:
    """Metrics sources by name, in order of precedence: the kind, numbered from the second of a kind on."""
    counts: Counter[str] = Counter()
    named = {}
    for source in sorted(sources_of(cluster, MetricSource), key=lambda source: source.rank):
        counts[source.kind] += 1
        named[source.kind if counts[source.kind] == 1 else f"{source.kind}-{counts[source.kind]}"] = source
    return named


def sample_intervals_ms(cluster: Cluster) -> dict[str, int]:
    return {name: source.interval_ms for name, source in name_metric_sources(cluster).items()}


def reports_brokers(cluster: Cluster) -> bool:
    return any(source.reports_brokers for source in sources_of(cluster, MetricSource))
