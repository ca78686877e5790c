"""When samples arrived, counted from the rows that were read: what `bronze.window_status` says of metrics sources."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pipeline.sources.files.file_rows import problems_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from pipeline.model.log import Problem
    from pipeline.model.window import TimeWindow
    from pipeline.sources.metrics.metric_pages import MetricPage


class InstanceSamples(NamedTuple):
    """Distinct instants of an instance's samples within a window: how many, the earliest, the latest."""

    source: str
    instance: str
    start_ms: int
    instant_count: int
    first_ms: int
    last_ms: int


class SampleCounts(NamedTuple):
    """Samples by source and window, the problems found while parsing, and arrivals."""

    row_counts: Counter[tuple[str, TimeWindow]]
    problems: dict[str, list[Problem]]
    arrivals: tuple[InstanceSamples, ...]


def count_samples(counted: pa.Table, problems: pa.Table, windows: Sequence[TimeWindow]) -> SampleCounts:
    """Reads counts of samples, from `transforms.samples`, as what arrived.

    `counted` has the fields of `InstanceSamples` and `row_count`; `problems` are rows of `SAMPLE_SCHEMA` of that kind.
    """
    by_start = {window.start_ms: window for window in windows}
    counts: Counter[tuple[str, TimeWindow]] = Counter()
    arrivals = []
    for row in counted.to_pylist():
        if row["start_ms"] in by_start:  # others serve as predecessors only
            counts[row["source"], by_start[row["start_ms"]]] += row["row_count"]
        arrivals.append(InstanceSamples(*(row[name] for name in InstanceSamples._fields)))
    found: dict[str, list[Problem]] = defaultdict(list)
    for row in problems.to_pylist():
        found[row["source"]] += problems_of([row])
    return SampleCounts(counts, dict(found), tuple(sorted(arrivals)))


def samples_of_pages(pages: Iterable[MetricPage], window_ms: int) -> list[InstanceSamples]:
    """When the pages of one source were scraped, by instance and window."""
    instants: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for page in pages:
        start_ms = page.observed_at_ms - page.observed_at_ms % window_ms
        instants[page.source, page.instance, start_ms].append(page.observed_at_ms)
    return [InstanceSamples(*key, len(at), min(at), max(at)) for key, at in sorted(instants.items())]


def count_expected(
    samples: Iterable[InstanceSamples], window: TimeWindow, interval_ms: int, *, after_last_ms: int
) -> int:
    """How many instants a window should hold: one an interval while each instance was known.

    `samples` are of all windows; an instance is taken to live on for `after_last_ms` after its last sample.
    """
    first_ms: dict[str, int] = {}
    last_ms: dict[str, int] = {}
    for sample in samples:
        first_ms[sample.instance] = min(first_ms.get(sample.instance, sample.first_ms), sample.first_ms)
        last_ms[sample.instance] = max(last_ms.get(sample.instance, sample.last_ms), sample.last_ms)
    lived_ms = (
        min(window.end_ms, last_ms[instance] + after_last_ms) - max(window.start_ms, first_ms[instance])
        for instance in first_ms
    )
    return sum(max(0, span_ms) // interval_ms for span_ms in lived_ms)
