"""When samples arrived, counted from the rows that were read: what `bronze.window_status` says of metrics sources."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from pipeline.sources.files.problem_rows import problems_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from pipeline.model.log import Problem
    from pipeline.model.window import TimeWindow


class InstanceArrivals(NamedTuple):
    """Instants at which a source told something of an instance, within one window's length of time.

    Attributes:
        source: Source kind.
        instance: What was scraped.
        start_ms: Start of the window's length of time.
        instant_count: Distinct instants.
        first_ms: The earliest.
        last_ms: The latest.
    """

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
    arrivals: tuple[InstanceArrivals, ...]


def count_samples(samples: DataFrame, windows: Sequence[TimeWindow]) -> SampleCounts:
    """Counts samples; fills the cache if the frame has one.

    Args:
        samples: Rows of `SAMPLE_SCHEMA`.
        windows: The run's, all of one length.
    """
    by_start = {window.start_ms: window for window in windows}
    observed = F.col("observed_at_ms")
    start_ms = observed - observed % windows[0].duration_ms
    counted = (
        samples.groupBy("row_kind", "source", "instance", start_ms.alias("start_ms"))
        .agg(
            F.count(F.lit(1)).alias("row_count"),
            F.count_distinct("observed_at_ms").alias("instant_count"),
            F.min("observed_at_ms").alias("first_ms"),
            F.max("observed_at_ms").alias("last_ms"),
        )
        .collect()
    )
    counts: Counter[tuple[str, TimeWindow]] = Counter()
    for row in counted:
        if row["row_kind"] == "sample" and row["start_ms"] in by_start:  # others serve as predecessors only
            counts[row["source"], by_start[row["start_ms"]]] += row["row_count"]
    problem_kinds = sorted({row["source"] for row in counted if row["row_kind"] == "problem"})
    problems = {
        kind: problems_of(
            samples.where((F.col("row_kind") == "problem") & (F.col("source") == kind)).toArrow().to_pylist()
        )
        for kind in problem_kinds
    }
    arrivals = [
        InstanceArrivals(*(row[name] for name in InstanceArrivals._fields))
        for row in counted
        if row["row_kind"] == "sample"
    ]
    return SampleCounts(counts, problems, tuple(sorted(arrivals)))


def expected_points(arrivals: Iterable[InstanceArrivals], window: TimeWindow, interval_ms: int) -> int:
    """How many instants a window should hold: one an interval while each instance was told of.

    Args:
        arrivals: Of one source.
        window: Which.
        interval_ms: Distance of two instants.
    """
    first_ms: dict[str, int] = {}
    last_ms: dict[str, int] = defaultdict(int)
    for told in arrivals:
        first_ms[told.instance] = min(first_ms.get(told.instance, told.first_ms), told.first_ms)
        last_ms[told.instance] = max(last_ms[told.instance], told.last_ms)
    lived_ms = (
        min(window.end_ms, last_ms[instance] + interval_ms) - max(window.start_ms, first_ms[instance])
        for instance in first_ms
    )
    return sum(max(0, span_ms) // interval_ms for span_ms in lived_ms)
