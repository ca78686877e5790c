"""What a source is.

A new one is one new file in `pipeline/sources/kinds/`, and its test:

1. A class with the keys it has in the configuration: first ``kind: Literal["…"]``, then others; paths are `ConfigPath`.
2. Its role is its base class: a `RecordSource` gives records and the cluster's state (`read_cluster`), a `TextSource` adds
   what Kafka's tools print (`describe`), a `MetricSource` gives samples of metrics (`read_samples`).
3. `availability`: what is expected of it in a window and what arrived, where the base class does not know.
4. `probe`: how `doctor` tries it, where more is to be tried than whether its paths can be read.
5. `column` and `provides`: which numbers it gives, and how well.
6. `rank`: its place among the kinds.

Nothing else names it: the configuration, `doctor`, `tables --sources` and the ingest find it by its file. What only its
methods need is imported in them: commands that read no source stay quick.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pipeline.config.source import SourceSettings
from pipeline.errors import InputError
from pipeline.model.finding import Finding
from pipeline.model.log import Problem
from pipeline.sources.numbers import Number, rated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    import pyarrow as pa

    from pipeline.codec.metrics.exposition import ExpositionReader
    from pipeline.config.pipeline_config import Cluster
    from pipeline.model.earlier_state import EarlierState
    from pipeline.model.window import TimeWindow
    from pipeline.sources.cluster_reading import ClusterReading
    from pipeline.sources.files.tool_texts import Described
    from pipeline.sources.metrics.metric_pages import MetricPage
    from pipeline.sources.metrics.metric_readings import MetricReading
    from pipeline.sources.metrics.sample_counts import InstanceSamples
    from pipeline.sources.numbers import How

_T = TypeVar("_T")
_Role = TypeVar("_Role", bound="Source")
NAMED = 5
"""So many missing items are named, the others counted."""


@dataclass(frozen=True, slots=True)
class SourceAvailability:
    """What a source brought into a window.

    Attributes:
        expected_count: Items expected; None where that cannot be known.
        arrived_count: Items that arrived.
        missing: What did not, in words; empty where nothing is missing.
        newest_ms: Newest instant the source has data for, in any window; None for none.
    """

    expected_count: int | None
    arrived_count: int
    missing: str = ""
    newest_ms: int | None = None


class Source(SourceSettings):
    """A source of any kind.

    Attributes:
        rank: Its place among the kinds; of two sources of metrics about the same client the first in rank counts.
        column: Its heading in the table of what sources give; empty for one that only adds to others.
        provides: The numbers it gives; others it does not.
    """

    rank: ClassVar[int]
    column: ClassVar[str] = ""
    provides: ClassVar[Mapping[Number, How]] = {}

    @classmethod
    def columns(cls) -> dict[str, Mapping[Number, How]]:
        """What it gives, by heading: several where a key of the configuration makes the difference."""
        return {cls.column: cls.provides} if cls.column else {}

    @property
    def configured_column(self) -> str:
        """The heading of what it gives as it is configured."""
        return self.column

    @property
    def locations(self) -> tuple[Path, ...]:
        """Files, folders and patterns it reads: its `paths` or `path`."""
        return getattr(self, "paths", None) or tuple(filter(None, [getattr(self, "path", None)]))

    def probe(self) -> Iterator[Finding]:
        """Tries the source within seconds; the finding about it as a whole has no name."""
        return map(_probe_path, self.locations)


class StateSource(Source):
    """A source of records or of the cluster's state."""

    def availability(
        self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None
    ) -> SourceAvailability | None:
        """What sources of the kind brought; None where nothing asks. `newest_ms`: of any batch's event time."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuestion:
    """What a run wants to know of a cluster: topics (all where empty), windows, its now, what earlier runs saw."""

    name: str
    topics: tuple[str, ...]
    windows: Sequence[TimeWindow]
    as_of_ms: int
    earlier: Sequence[EarlierState]


class RecordSource(StateSource):
    """Where records come from, and with them who led what; a cluster has sources of one such kind."""

    bears_records = True

    @classmethod
    @abstractmethod
    def read_cluster(cls, sources: Sequence[Self], question: ClusterQuestion, described: Described) -> ClusterReading:
        """Reads all but the records from all sources of the kind; what is wrong becomes a problem in the reading."""


class TextSource(StateSource):
    """What one of Kafka's tools printed about the cluster."""

    @abstractmethod
    def describe(self, described: Described) -> None:
        """Adds what the text says, and what is wrong with it."""

    def parse(self, path: Path, parse: Callable[..., _T], described: Described) -> _T | None:
        """Parses a text; None, with a problem noted, where it cannot be read."""
        try:
            return parse(path.read_text(encoding="utf-8"), path=path)
        except (OSError, UnicodeDecodeError, InputError) as error:
            described.problems[self.kind].append(Problem.of_error(path, error))
            return None


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


def sources_of(cluster: Cluster, role: type[_Role]) -> tuple[_Role, ...]:
    """A cluster's sources in a role, such as `MetricSource`."""
    return tuple(source for source in cluster.sources if isinstance(source, role))


def name_some(what: str, names: Sequence[str]) -> str:
    """Names what is missing; empty where nothing is.

    >>> name_some("no dump of", ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5"])
    'no dump of a-0, a-1, a-2, a-3, a-4 and 1 more'
    """
    others = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what} {', '.join(names[:NAMED])}{others}" if names else ""


def _probe_path(path: Path) -> Finding:
    named = sorted(path.parent.glob(path.name))
    if named and not path.exists():
        return Finding(name="", is_ok=True, found=f"{path}: {len(named):,} files")
    if not path.exists():
        return Finding(name="", is_ok=False, found=f"{path} is not there", advice="correct the path, or mount it")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return Finding(name="", is_ok=False, found=f"{path} cannot be read", advice=f"let user {os.getuid()} read it")
    return Finding(name="", is_ok=True, found=str(path))
