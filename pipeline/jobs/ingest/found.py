"""Reads a run's sources, before anything is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.collected.manifest import CollectedAs
from pipeline.sources.collected.reading import plan_collected_tasks
from pipeline.sources.files.file_rows import problems_of
from pipeline.sources.files.segment_plan import SegmentRead, choose_replicas, plan_reads
from pipeline.sources.live.offsets import list_shortfalls, offset_summary_rows
from pipeline.sources.live.range_scan import plan_range_tasks
from pipeline.sources.metrics.metric_pages import HeldTask, plan_page_tasks
from pipeline.sources.metrics.metric_source import (
    InstanceSamples,
    MetricReading,
    count_samples,
    reports_brokers,
    sample_intervals_ms,
)
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.key_questions import choose_questions
from pipeline.sources.records.pieces import Kind, ReadTask
from pipeline.sources.records.record_scan import plan_segment_tasks
from pipeline.sources.records.scan import Scan, scan
from pipeline.sources.records.scan_settings import ScanSettings, take_secret
from pipeline.sources.source import ClusterReading
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.samples import COUNTS, INSTANCE, PROBLEMS, summarise_samples

_S_PER_BYTE = 1 / 50e6
"""Of one core, to read records of some hundred bytes; of small records the rows say that they are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Findings of a run at its sources, before anything is written.

    Attributes:
        reading: Everything but records and samples.
        instances: When samples were taken, of each metrics source.
        scan: Batches, keys, arrivals and samples.
        summaries: Rows of `SUMMARY_SCHEMA`.
        samples: What the samples add up to, by table; see `summarise_samples`.
        row_counts: Record batches, samples and described partitions, by source and window.
    """

    reading: ClusterReading
    metrics: MetricReading
    instances: tuple[InstanceSamples, ...]
    settings: ScanSettings
    scan: Scan
    summaries: list[dict[str, Any]]
    samples: dict[str, pa.Table]
    row_counts: Counter[tuple[str, TimeWindow]]
    problems: dict[str, list[Problem]]

    def window_rows(self) -> list[dict[str, Any]]:
        """Rows of each log in each window."""
        return [row for row in self.summaries if row["row_kind"] == "window"]


def read_run_input(
    spark: SparkSession, run: RunContext, reading: ClusterReading, metrics: MetricReading, few_rows: int
) -> Found:
    """Reads everything a run reads, in one Spark job.

    `few_rows`: rows of a kind that one process may hold.
    """
    replicas = choose_replicas(reading.tree, reading.history.state_at(run.as_of_ms).leaders, run.cluster.topics)
    reads = plan_reads(replicas, run.span)
    settings = _choose_settings(run, reading, reads)
    plan = partial(_plan_tasks, reading, metrics, reads, settings)
    logs = () if reading.collected is not None else reads if reading.live is None else reading.live.reads
    read_bytes = sum(log.size_bytes for log in logs)  # what is collected was read before
    scanned = scan(spark, plan, few=few_rows, seconds=_S_PER_BYTE * read_bytes)
    summaries = scanned.small(Kind.SUMMARIES).to_pylist()
    summaries.sort(key=lambda row: row["batch_count"] or 0)  # of a file collected in stretches the last row counts
    if reading.collected is not None:
        reading = replace(reading, collected=reading.collected.doubting(summaries, run.span))
    if reading.live is not None:
        summaries += offset_summary_rows(reading.live.offset_traffic, run.window_ms)
        live = replace(reading.live, shortfalls=(*reading.live.shortfalls, *list_shortfalls(summaries)))
        reading = replace(reading, live=live, problems={**reading.problems, reading.record_source: live.problems})
    samples = _summarise_samples(run, scanned)
    row_counts, page_problems, instances = count_samples(samples[COUNTS], samples[PROBLEMS], run.windows)
    by_start = {window.start_ms: window for window in run.windows}
    for row in summaries:
        if row["row_kind"] == "window" and row["window_start_ms"] in by_start:
            row_counts[reading.record_source, by_start[row["window_start_ms"]]] += row["batch_count"]
    for observed_at_ms, _ in reading.groups:
        start_ms = observed_at_ms - observed_at_ms % run.window_ms
        if start_ms in by_start:
            row_counts[reading.group_source, by_start[start_ms]] += 1
    problems = {kind: [*found] for kind, found in (*reading.problems.items(), *metrics.problems.items())}
    of_records = problems_of(row for row in summaries if row["row_kind"] == "problem")
    problems.setdefault(reading.record_source, []).extend(of_records)
    for kind, found in page_problems.items():
        problems.setdefault(kind, []).extend(found)
    return Found(
        reading=reading,
        metrics=metrics,
        instances=instances,
        settings=settings,
        scan=scanned,
        summaries=summaries,
        samples=samples,
        row_counts=row_counts,
        problems=problems,
    )


def _choose_settings(run: RunContext, reading: ClusterReading, reads: tuple[SegmentRead, ...]) -> ScanSettings:
    keys, live = run.config.keys, reading.live
    has_keys, has_arrivals = counts_keys(run, reading), reads_arrivals(run, reading)
    logs = reads if live is None else live.reads
    known = reading.history.state_at(run.as_of_ms).partitions
    return ScanSettings(
        as_of_ms=run.as_of_ms,
        span=run.span,
        window_ms=run.window_ms,
        slices=() if live is None else live.slices,
        secret=take_secret(keys) if has_keys or has_arrivals else None,
        clear_topics=frozenset(keys.clear_topics.get(run.cluster_name, ())),
        max_distinct_keys=keys.max_distinct_keys if has_keys else 0,
        questions=choose_questions(run, logs, known) if has_keys else (),
        reads_arrivals=has_arrivals,
    )


def _plan_tasks(
    reading: ClusterReading, metrics: MetricReading, reads: tuple[SegmentRead, ...], settings: ScanSettings, least: int
) -> list[ReadTask]:
    leaders = LeaderEpochs.of(reading.history, reading.tree, reading.replicas)
    tasks: list[ReadTask] = []
    if reading.collected is not None:
        tasks += plan_collected_tasks(reading.collected, settings, CollectedAs.of(settings), leaders)
    elif reading.live is None:
        tasks += plan_segment_tasks(reads, settings, leaders, least)
    else:
        tasks += plan_range_tasks(reading.live, settings, leaders, least)
    held = [HeldTask(metrics.batches)] if metrics.batches else []
    return [*tasks, *plan_page_tasks(metrics.pages, least), *held]


def _summarise_samples(run: RunContext, scan: Scan) -> dict[str, pa.Table]:
    """Summarises all samples, each instance by itself."""
    settings = SampleSettings(
        span=run.span,
        window_ms=run.window_ms,
        interval_ms=sample_intervals_ms(run.cluster),
        has_brokers=reports_brokers(run.cluster),
    )
    parts = scan.parts(Kind.SAMPLES, by=INSTANCE).map(lambda rows: summarise_samples(rows, settings)).collect()
    return {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}


def reads_arrivals(run: RunContext, reading: ClusterReading) -> bool:
    """Arrivals are read where records are, and the configuration wants them."""
    return run.config.replay.arrivals and reading.has_records


def counts_keys(run: RunContext, reading: ClusterReading) -> bool:
    """Keys are counted where all records are read."""
    is_whole = reading.live is None or reading.live.source.sampling.is_whole
    return run.config.keys.mode != "off" and reading.has_records and is_whole
