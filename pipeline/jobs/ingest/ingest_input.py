"""Reads a run's sources, before anything is written."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.engine import count_task_slots, describe_work
from pipeline.model.log import LogName, Problem, TopicPartition
from pipeline.model.window import TimeWindow, spanning
from pipeline.runs import RunContext
from pipeline.sources.collected.manifest import CollectedAs
from pipeline.sources.collected.reading import HELD_ARRIVALS, HELD_KEYS, plan_collected_tasks
from pipeline.sources.files.cluster_rows import compacted_topics, problems_of
from pipeline.sources.files.log_gaps import without_deleted
from pipeline.sources.files.segment_plan import SegmentRead, choose_replicas, plan_reads
from pipeline.sources.live.offsets import offset_summary_rows
from pipeline.sources.live.plan import Shortfall
from pipeline.sources.live.range_scan import plan_range_tasks
from pipeline.sources.live.reading import forget_deleted
from pipeline.sources.metrics.metric_pages import plan_page_tasks
from pipeline.sources.metrics.metric_source import (
    InstanceSamples,
    MetricReading,
    count_samples,
    reports_brokers,
    sample_intervals_ms,
)
from pipeline.sources.metrics.sample_rows import SAMPLE_SCHEMA
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SCHEMAS, Kind, ReadTask, join_pieces
from pipeline.sources.records.record_scan import plan_segment_tasks
from pipeline.sources.records.scan_settings import ScanSettings, choose_questions, take_secret
from pipeline.sources.source import ClusterReading
from pipeline.stages import Parts, Pieces, Staging
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.samples import COUNTS, INSTANCE, PROBLEMS, summarise_samples
from pipeline.transforms.traffic import find_disputed, sum_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestInput:
    reading: ClusterReading  # everything but records and samples
    metrics: MetricReading
    instances: tuple[InstanceSamples, ...]  # when samples were taken, of each metrics source
    settings: ScanSettings
    staging: Staging  # where tasks leave their parts
    parts: dict[Kind, Parts]  # batches, keys, arrivals and samples, by kind
    window_sums: pa.Table  # see `sum_windows`
    samples: dict[str, Parts]  # what the samples add up to, by table, not yet finished; see `summarise_samples`
    # record batches, samples and described partitions, by source and window
    row_counts: Counter[tuple[str, TimeWindow]]
    problems: dict[str, list[Problem]]


def read_run_input(staging: Staging, run: RunContext, reading: ClusterReading, metrics: MetricReading) -> IngestInput:
    """Reads everything a run reads, in one Spark job, into parts."""
    replicas = choose_replicas(reading.tree, reading.history.state_at(run.as_of_ms).leaders, run.cluster.topics)
    reads = plan_reads(replicas, run.span)
    settings = _choose_settings(run, reading, reads)
    tasks = _plan_tasks(reading, metrics, reads, settings, count_task_slots(staging.spark))
    schemas = {kind.value: schema for kind, schema in SCHEMAS.items()}
    read = staging.run_tasks(
        "read logs and metrics",
        tasks,
        lambda task: ((each.kind.value, each.rows) for each in join_pieces(task.run())),
        schemas,
    )
    parts = {kind: read[kind.value] for kind in Kind}
    if metrics.batches:  # they came over HTTP
        fetched = pa.Table.from_batches(metrics.batches, SAMPLE_SCHEMA)
        parts[Kind.SAMPLES] = parts[Kind.SAMPLES].with_rows(Kind.SAMPLES.value, fetched)
    reading, found = _sum_up(run, staging, reading, parts)
    samples = _summarise_samples(run, staging, parts[Kind.SAMPLES])
    counts, wrong = samples.pop(COUNTS).load(), samples.pop(PROBLEMS).load()
    row_counts, page_problems, instances = count_samples(counts, wrong, run.windows)
    by_start = {window.start_ms: window for window in run.windows}
    window_sums = _of_kind(found, "window")
    for start_ms, batch_count in iter_rows(window_sums, "window_start_ms", "batch_count"):
        if start_ms in by_start:
            row_counts[reading.record_source, by_start[start_ms]] += batch_count
    for observed_at_ms, _ in reading.groups:
        start_ms = observed_at_ms - observed_at_ms % run.window_ms
        if start_ms in by_start:
            row_counts[reading.group_source, by_start[start_ms]] += 1
    problems = {kind: [*known] for kind, known in (*reading.problems.items(), *metrics.problems.items())}
    of_records = problems_of(_of_kind(found, "problem").to_pylist())
    problems.setdefault(reading.record_source, []).extend(of_records)
    for kind, wrong_pages in page_problems.items():
        problems.setdefault(kind, []).extend(wrong_pages)
    return IngestInput(
        reading=reading,
        metrics=metrics,
        instances=instances,
        settings=settings,
        staging=staging,
        parts=parts,
        window_sums=window_sums,
        samples=samples,
        row_counts=row_counts,
        problems=problems,
    )


def _sum_up(
    run: RunContext, staging: Staging, reading: ClusterReading, parts: dict[Kind, Parts]
) -> tuple[ClusterReading, pa.Table]:
    """What was read, as `sum_windows` gives it, and the reading with what that says of its sources."""
    if reading.live is not None and reading.live.offset_traffic:
        rows = offset_summary_rows(reading.live.offset_traffic, run.window_ms)
        by_offsets = pa.Table.from_pylist(rows, SCHEMAS[Kind.SUMMARIES])
        parts[Kind.SUMMARIES] = parts[Kind.SUMMARIES].with_rows(Kind.SUMMARIES.value, by_offsets)
    describe_work(f"{staging.subject}: sum up what was read")
    summaries = parts[Kind.SUMMARIES].frame()
    found = sum_windows(summaries, run.span).toArrow()
    lost = _of_kind(found, "shortfall")
    if reading.collected is not None:
        compared = [HELD_KEYS] * counts_keys(run, reading) + [HELD_ARRIVALS] * reads_arrivals(run, reading)
        disputed = find_disputed(summaries, run.span, compared).toArrow()
        left_out = frozenset(iter_rows(disputed, *LogName._fields))
        named = (*reading.problems[reading.record_source], *reading.collected.name_disputing(left_out))
        collected = reading.collected.doubting(lost["reason"].to_pylist(), disputed.to_pylist())
        reading = replace(reading, collected=collected, problems={**reading.problems, reading.record_source: named})
        parts |= {kind: of_kind.without(left_out) for kind, of_kind in parts.items() if kind is not Kind.SAMPLES}
    if reading.live is None:
        unread_logs = find_damaged(lost)
        damaged = without_deleted(unread_logs, reading.tree)
        deleted = {key.topic for key in unread_logs.keys() - damaged.keys()}
        reading = replace(reading, damaged=damaged, deleted=deleted)
    else:
        told = sorted(iter_rows(lost, "topic", "partition", "reason"))
        unread = (Shortfall(TopicPartition(*place), reason) for *place, reason in told)
        live = forget_deleted(replace(reading.live, shortfalls=(*reading.live.shortfalls, *unread)))
        reading = replace(reading, live=live, problems={**reading.problems, reading.record_source: live.problems})
    return reading, found


def iter_rows(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Some columns of what no declared table has, row by row."""
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _of_kind(found: pa.Table, row_kind: str) -> pa.Table:
    return found.filter(pc.field("row_kind") == row_kind)


def find_damaged(lost: pa.Table) -> dict[TopicPartition, TimeWindow]:
    """Of logs with files that were not read whole, when the records were sent that are missing, from rows of `SUMMARY_SCHEMA`."""
    damaged: dict[TopicPartition, TimeWindow] = {}
    for topic, partition, *span in iter_rows(lost, "topic", "partition", "min_timestamp_ms", "max_timestamp_ms"):
        if None not in span:  # a collected part that cannot be read does not say when: `Landing.doubting` has it
            key, sent = TopicPartition(topic, partition), TimeWindow(*span)
            damaged[key] = spanning((sent, damaged.get(key, sent)))
    return damaged


def _choose_settings(run: RunContext, reading: ClusterReading, reads: tuple[SegmentRead, ...]) -> ScanSettings:
    keys, live = run.config.keys, reading.live
    has_keys, has_arrivals = counts_keys(run, reading), reads_arrivals(run, reading)
    logs = reads if live is None else live.reads
    state = reading.history.state_at(run.as_of_ms)
    return ScanSettings(
        as_of_ms=run.as_of_ms,
        span=run.span,
        window_ms=run.window_ms,
        slices=() if live is None else live.slices,
        secret=take_secret(keys) if has_keys or has_arrivals else None,
        clear_topics=frozenset(keys.clear_topics.get(run.cluster_name, ())),
        max_distinct_keys=keys.max_distinct_keys if has_keys else 0,
        questions=choose_questions(run, logs, state.partitions) if has_keys else (),
        reads_arrivals=has_arrivals,
        compacted_topics=compacted_topics(state, reading.tree),
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
    return [*tasks, *plan_page_tasks(metrics.pages, least)]


def _summarise_samples(run: RunContext, staging: Staging, samples: Parts) -> dict[str, Parts]:
    settings = SampleSettings(
        span=run.span,
        window_ms=run.window_ms,
        interval_ms=sample_intervals_ms(run.cluster),
        has_brokers=reports_brokers(run.cluster),
    )
    schemas = {name: rows.schema for name, rows in summarise_samples(samples.schema.empty_table(), settings).items()}
    if not samples.row_count:
        return {name: Parts(staging.spark, staging.folder, schema, (), 0) for name, schema in schemas.items()}

    def summarise(rows: pa.Table) -> Pieces:
        return summarise_samples(rows, settings).items()

    slots, frame = count_task_slots(staging.spark), samples.frame()
    return staging.run_groups("summarise samples", frame, by=INSTANCE, count=slots, work=summarise, schemas=schemas)


def reads_arrivals(run: RunContext, reading: ClusterReading) -> bool:
    return run.config.replay.arrivals and reading.has_records


def counts_keys(run: RunContext, reading: ClusterReading) -> bool:
    is_whole = reading.live is None or reading.live.source.sampling.is_whole
    return run.config.keys.mode != "off" and reading.has_records and is_whole
