"""What a run finds at its sources, before anything is written."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.config.live_source import LIVE_CLUSTER
from pipeline.sources.files.cluster_reading import CONSUMER_GROUPS as CONSUMER_GROUP_TEXTS
from pipeline.sources.files.problem_rows import problems_of
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.live.frames import (
    live_batches,
    live_frame,
    live_shortfalls,
    live_summary_rows,
    offset_summary_rows,
)
from pipeline.sources.live.reading import with_losses
from pipeline.sources.metrics.sample_arrivals import SampleCounts, count_samples
from pipeline.sources.records.arrival_frames import arrival_options
from pipeline.sources.records.frames import batch_frame, sample_frame, summary_rows
from pipeline.sources.records.key_frames import choose_questions, key_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.log import Problem
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.sources.files.cluster_reading import ClusterReading
    from pipeline.sources.files.segment_plan import SegmentRead
    from pipeline.sources.metrics.metric_readings import MetricReading
    from pipeline.sources.metrics.sample_arrivals import InstanceArrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run found, before anything is written.

    Attributes:
        reading: Everything but batches and samples.
        metrics: Scrapes kept as files.
        arrivals: When samples were taken, of each metrics source.
        reads: Segments to be scanned.
        batches: Rows of `kafka_record_batches`.
        fetched: What a live cluster gave, cached; None for files.
        summaries: Rows of `kafka_segment_summaries`.
        samples: Rows of `SAMPLE_SCHEMA`, cached; None where no metrics source held anything.
        row_counts: Record batches, samples and described partitions, by source and window.
        problems: By source.
    """

    reading: ClusterReading
    metrics: MetricReading
    arrivals: tuple[InstanceArrivals, ...]
    reads: tuple[SegmentRead, ...]
    batches: DataFrame
    fetched: DataFrame | None
    summaries: list[dict[str, Any]]
    samples: DataFrame | None
    row_counts: Counter[tuple[str, TimeWindow]]
    problems: dict[str, list[Problem]]

    def count(self, *sources: str) -> int:
        """Rows of some sources, over all windows."""
        return sum(count for (source, _), count in self.row_counts.items() if source in sources)

    def window_rows(self) -> list[dict[str, Any]]:
        """What each segment gave each window."""
        return [row for row in self.summaries if row["row_kind"] == "window"]


def read_input(spark: SparkSession, run: RunContext, reading: ClusterReading, metrics: MetricReading) -> Found:
    """Reads what a run needs to know before it writes.

    Args:
        spark: Session.
        run: What the run is about.
        reading: Of the cluster.
        metrics: Scrapes.
    """
    replicas = choose_replicas(reading.tree, reading.history.state_at(run.as_of_ms).leaders, run.cluster.topics)
    reads = plan_reads(replicas, run.span)
    samples = None if metrics.is_empty else sample_frame(spark, metrics.pages, metrics.batches).cache()
    with ThreadPoolExecutor(1) as beside:
        counting = None if samples is None else beside.submit(count_samples, samples, run.windows)
        reading, batches, fetched, summaries = _read_batches(spark, run, reading, reads)
    row_counts, page_problems, arrivals = SampleCounts(Counter(), {}, ()) if counting is None else counting.result()
    by_start = {window.start_ms: window for window in run.windows}
    for row in summaries:
        if row["row_kind"] == "window" and row["window_start_ms"] in by_start:
            row_counts[reading.record_source, by_start[row["window_start_ms"]]] += row["batch_count"]
    for observed_at_ms, _ in reading.groups:
        start_ms = observed_at_ms - observed_at_ms % run.window_ms
        if start_ms in by_start:
            row_counts[CONSUMER_GROUP_TEXTS, by_start[start_ms]] += 1
    problems = {kind: [*found] for kind, found in (*reading.problems.items(), *metrics.problems.items())}
    scanned = problems_of(row for row in summaries if row["row_kind"] == "problem")
    problems.setdefault(reading.record_source, []).extend(scanned)
    for kind, found in page_problems.items():
        problems.setdefault(kind, []).extend(found)
    return Found(
        reading=reading,
        metrics=metrics,
        arrivals=arrivals,
        reads=reads,
        batches=batches,
        fetched=fetched,
        summaries=summaries,
        samples=samples,
        row_counts=row_counts,
        problems=problems,
    )


def _read_batches(
    spark: SparkSession, run: RunContext, reading: ClusterReading, reads: tuple[SegmentRead, ...]
) -> tuple[ClusterReading, DataFrame, DataFrame | None, list[dict[str, Any]]]:
    """The batches, from files or fetched once, and what they add up to; the reading knows what could not be fetched."""
    if reading.live is None:
        batches = batch_frame(spark, reads, run.as_of_ms, run.span)
        return reading, batches, None, summary_rows(spark, reads, run.as_of_ms, run.window_ms)
    wanted: dict[str, str] = {}
    if counts_keys(run, reading):
        known = reading.history.state_at(run.as_of_ms).partitions
        wanted |= key_options(run, choose_questions(run, reading.live.reads, known))
    if reads_arrivals(run, reading):
        wanted |= arrival_options(run, reading.live.slices)
    fetched = live_frame(spark, reading.live, wanted).cache()
    summaries = live_summary_rows(fetched, run.window_ms)
    summaries += offset_summary_rows(reading.live, run.window_ms)
    live = with_losses(reading.live, live_shortfalls(fetched))
    reading = replace(reading, live=live, problems={**reading.problems, LIVE_CLUSTER: live.problems})
    return reading, live_batches(fetched, live), fetched, summaries


def reads_arrivals(run: RunContext, reading: ClusterReading) -> bool:
    """Arrivals are read where records are, and the configuration wants them."""
    return run.config.replay.arrivals and reading.has_records


def counts_keys(run: RunContext, reading: ClusterReading) -> bool:
    """Keys are counted where all records are read."""
    is_whole = reading.live is None or reading.live.source.sampling.is_whole
    return run.config.keys.mode != "off" and reading.has_records and is_whole
