"""Reads a cluster's sources into bronze and silver and commits the windows.

Every table's windows are replaced; `bronze.window_status` is written last and vouches for them. A window of which a
source now covers less than what is stored (retention took segments, scrapes were rotated away) keeps that source's
stored rows and is marked `source_expired`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.errors import NothingUsableError
from pipeline.model.window import instant_of
from pipeline.runs import JobReport
from pipeline.sources.arrivals import iter_arrivals
from pipeline.sources.cluster_reading import CONSUMER_GROUPS as CONSUMER_GROUP_TEXTS
from pipeline.sources.cluster_reading import LOG_DIRECTORIES, METRIC_SOURCES, ClusterReading, read_cluster
from pipeline.sources.cluster_rows import (
    compacted_topics,
    iter_broker_rows,
    iter_cluster_state_rows,
    iter_consumer_group_rows,
    retention_ms,
)
from pipeline.sources.frames import (
    batch_frame,
    leader_epoch_frame,
    register_sources,
    sample_frame,
    segment_frame,
)
from pipeline.sources.metric_pages import pages_within
from pipeline.sources.problem_rows import collect_problems, iter_quarantine_rows
from pipeline.sources.segment_plan import choose_replicas, plan_reads
from pipeline.sources.segment_rows import iter_segment_rows
from pipeline.storage.delta import merge, replace_windows
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import merge_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import (
    Coverage,
    Subject,
    collect_coverage,
    load_stored_windows,
    windows_to_keep,
)
from pipeline.tables.bronze import (
    BROKERS,
    CLUSTER_STATE,
    CONSUMER_GROUPS,
    LOG_SEGMENTS,
    METRIC_SAMPLES,
    QUARANTINE,
    WINDOW_STATUS,
)
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES
from pipeline.transforms.batches import as_record_batches, join_segment_facts, with_leader, with_window
from pipeline.transforms.producer_nodes import summarise_producer_nodes
from pipeline.transforms.samples import as_metric_samples
from pipeline.transforms.traffic import summarise_traffic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.sources.segment_plan import SegmentRead
    from pipeline.tables import Table

JOB = "ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    """The frames of one run; the two source frames are cached."""

    rows: DataFrame
    samples: DataFrame
    record_batches: DataFrame
    traffic: DataFrame

    def unpersist(self) -> None:
        for frame in (self.rows, self.samples, self.record_batches):
            frame.unpersist()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """What each source gave: rows by source and window, and the newest event time of any batch."""

    rows: Counter[tuple[str, TimeWindow]]
    newest_batch_ms: int | None


def run(spark: SparkSession, run: RunContext) -> JobReport:
    """Ingests the run's windows of one cluster.

    Args:
        spark: Session.
        run: What the run is about.

    Raises:
        NothingUsableError: if no source of the cluster held anything.
    """
    reading = read_cluster(run.cluster)
    if not reading.tree.directories and not any(reading.pages.values()) and not reading.groups:
        raise NothingUsableError(
            f"cluster {run.cluster_name}: no source holds anything usable: "
            + ("; ".join(f"{p.path}: {p.reason}" for found in reading.problems.values() for p in found) or "all empty")
        )
    register_sources(spark)
    ensure_tables(run.warehouse)
    replicas = choose_replicas(reading.tree, reading.history.state_at(run.as_of_ms).leaders, run.cluster.topics)
    reads = plan_reads(replicas, run.span)
    frames = _frames(spark, run, reading, reads)
    counts = _row_counts(frames, reading, run)
    expired = _expired_windows(run, frames, counts)
    versions = _replace_tables(run, reading, frames, expired)
    versions |= _merge_tables(spark, run, reading, frames, reads)
    versions[WINDOW_STATUS.name] = _commit_windows(run, reading, counts, expired, versions)
    frames.unpersist()
    return JobReport(job=JOB, table_versions=versions, notes=_notes(expired))


def _frames(spark: SparkSession, run: RunContext, reading: ClusterReading, reads: tuple[SegmentRead, ...]) -> _Frames:
    rows = batch_frame(spark, reads, run.as_of_ms).cache()
    pages = tuple(page for kind in METRIC_SOURCES for page in pages_within(reading.pages.get(kind, ()), run.span))
    batches = with_window(rows.where("row_kind = 'batch'"), run.config.window_ms)
    led = with_leader(batches, leader_epoch_frame(spark, reading.history))
    record_batches = _within(as_record_batches(led, run.cluster_name), run.windows).cache()
    compacted = compacted_topics(reading.history.state_at(run.as_of_ms), reading.tree)
    return _Frames(
        rows=rows,
        samples=sample_frame(spark, pages).cache(),
        record_batches=record_batches,
        traffic=summarise_traffic(record_batches, compacted, run.cluster.batch_size_bytes),
    )


def _within(frame: DataFrame, windows: Iterable[TimeWindow]) -> DataFrame:
    return frame.where(F.unix_millis("window_start").isin([window.start_ms for window in windows]))


def _replace_tables(
    run: RunContext, reading: ClusterReading, frames: _Frames, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """Replaces the windows of every table whose source still covers what is stored."""
    cluster, windows, window_ms = run.cluster_name, run.windows, run.config.window_ms
    samples = frames.samples.where("row_kind = 'sample'")
    producer_samples = samples.where("source = 'producer_metrics'")
    state_rows = iter_cluster_state_rows(cluster, reading.history, reading.replicas, windows, reading.relative)
    expired_scrapes = set().union(*(expired.get(kind, set()) for kind in METRIC_SOURCES))
    small: tuple[tuple[str, Table, Iterable[dict[str, Any]]], ...] = (
        (LOG_DIRECTORIES, BROKERS, iter_broker_rows(cluster, reading.history, reading.tree, windows)),
        (LOG_DIRECTORIES, CLUSTER_STATE, state_rows),
        (CONSUMER_GROUP_TEXTS, CONSUMER_GROUPS, iter_consumer_group_rows(cluster, reading.groups, windows)),
    )
    large: tuple[tuple[set[TimeWindow], Table, DataFrame], ...] = (
        (expired.get(LOG_DIRECTORIES, set()), RECORD_BATCHES, frames.record_batches),
        (expired.get(LOG_DIRECTORIES, set()), PARTITION_TRAFFIC, frames.traffic),
        (expired_scrapes, METRIC_SAMPLES, as_metric_samples(samples, cluster, run.span, window_ms)),
        (expired_scrapes, PRODUCER_NODES, summarise_producer_nodes(producer_samples, cluster, run.span, window_ms)),
    )
    versions = {}
    for source, table, rows in small:
        fresh = _fresh(windows, expired.get(source, set()))
        if fresh:
            starts = {instant_of(window.start_ms) for window in fresh}
            kept = rows_of(table, (row for row in rows if row["window_start"] in starts), run_id=run.run_id)
            versions[table.name] = replace_rows(kept, run.warehouse, table, cluster=cluster, windows=fresh)
    for stale, table, frame in large:
        fresh = _fresh(windows, stale)
        if fresh:
            versions[table.name] = replace_windows(
                _within(frame, fresh), run.warehouse, table, cluster=cluster, windows=fresh, run_id=run.run_id
            )
    return versions


def _fresh(windows: tuple[TimeWindow, ...], stale: set[TimeWindow]) -> tuple[TimeWindow, ...]:
    return tuple(window for window in windows if window not in stale)


def _merge_tables(
    spark: SparkSession, run: RunContext, reading: ClusterReading, frames: _Frames, reads: tuple[SegmentRead, ...]
) -> dict[str, int]:
    """Upserts what belongs to files rather than windows: segments and problems."""
    state = reading.history.state_at(run.as_of_ms)
    compacted = compacted_topics(state, reading.tree)
    retention = {
        topic: retention_ms(state.topic_config(topic)) for topic in state.topic_configs if topic not in compacted
    }
    segments = iter_segment_rows(
        run.cluster_name,
        reading.tree,
        {read.path for read in reads},
        {topic: kept_ms for topic, kept_ms in retention.items() if kept_ms is not None},
        reading.relative,
    )
    problems = frames.rows.where("row_kind = 'problem'")
    batches = frames.rows.where("row_kind = 'batch'")
    facts = join_segment_facts(segment_frame(spark, segments), batches, problems).cache()
    merge(facts.where("is_scanned"), run.warehouse, LOG_SEGMENTS, run_id=run.run_id)
    versions = {
        # A replica that is not the counted copy, or a file outside the run's windows: known, unless it was read before.
        LOG_SEGMENTS.name: merge(
            facts.where("NOT is_scanned"), run.warehouse, LOG_SEGMENTS, run_id=run.run_id, insert_only=True
        )
    }
    facts.unpersist()
    found = {
        **reading.problems,
        LOG_DIRECTORIES: [*reading.problems.get(LOG_DIRECTORIES, ()), *collect_problems(problems)],
    }
    for kind in METRIC_SOURCES:
        page_problems = frames.samples.where((F.col("row_kind") == "problem") & (F.col("source") == kind))
        found[kind] = [*reading.problems.get(kind, ()), *collect_problems(page_problems)]
    rows = iter_quarantine_rows(run.cluster_name, found, reading.relative)
    seen = rows_of(QUARANTINE, ({**row, "first_seen_at": instant_of(run.as_of_ms)} for row in rows), run_id=run.run_id)
    versions[QUARANTINE.name] = merge_rows(seen, run.warehouse, QUARANTINE, insert_only=True)
    return versions


def _row_counts(frames: _Frames, reading: ClusterReading, run: RunContext) -> _Counts:
    """Rows each source gives each window: record batches, samples, rows of described groups."""
    by_window = {window.start_ms: window for window in run.windows}
    counts: Counter[tuple[str, TimeWindow]] = Counter()
    start_ms = F.unix_millis("window_start").alias("start_ms")
    for row in frames.record_batches.groupBy(start_ms).count().collect():
        counts[LOG_DIRECTORIES, by_window[row["start_ms"]]] = row["count"]
    observed = F.col("observed_at_ms")
    scraped = frames.samples.where("row_kind = 'sample'").groupBy(
        "source", (observed - observed % run.config.window_ms).alias("start_ms")
    )
    for row in scraped.count().collect():
        if row["start_ms"] in by_window:  # the scrape before the first window serves as a predecessor only
            counts[row["source"], by_window[row["start_ms"]]] = row["count"]
    for observed_at_ms, _ in reading.groups:
        for window in run.windows:
            counts[CONSUMER_GROUP_TEXTS, window] += observed_at_ms in window
    newest = frames.rows.where("row_kind = 'batch' AND is_committed").agg(F.max("event_time_ms")).first()
    return _Counts(rows=counts, newest_batch_ms=newest[0] if newest else None)


def _expired_windows(run: RunContext, frames: _Frames, counts: _Counts) -> dict[str, set[TimeWindow]]:
    """Per source, the committed windows of which it now gives less than is stored; none when forced."""
    stored = load_stored_windows(run.warehouse, run.cluster_name, run.windows)
    if run.force or not stored.windows:
        return {}
    columns = ("window_start", *Subject._fields, *Coverage._fields)
    found = collect_coverage(frames.traffic.select(*columns).toArrow().to_pylist(), stored.windows)
    expired: dict[str, set[TimeWindow]] = defaultdict(set)
    expired[LOG_DIRECTORIES] = windows_to_keep(stored.traffic, found, stored.windows)
    for (source, window), row_count in stored.row_counts.items():
        if source != LOG_DIRECTORIES and counts.rows[source, window] < row_count:
            expired[source].add(window)
    return expired


def _commit_windows(
    run: RunContext,
    reading: ClusterReading,
    counts: _Counts,
    expired: dict[str, set[TimeWindow]],
    versions: dict[str, int],
) -> int:
    """Writes `bronze.window_status`, last: from here on readers see the windows."""
    stored = load_stored_windows(run.warehouse, run.cluster_name, run.windows) if expired else None
    rows = []
    for window, columns in iter_arrivals(run.cluster, reading, run.windows, counts.newest_batch_ms):
        is_expired = window in expired.get(columns["source"], set())
        row_count = counts.rows[columns["source"], window]
        if stored is not None and is_expired:
            row_count = stored.row_counts.get((columns["source"], window), row_count)
        rows.append(
            {
                "cluster": run.cluster_name,
                "window_start": instant_of(window.start_ms),
                "window_end": instant_of(window.end_ms),
                "row_count": row_count,
                "as_of": instant_of(run.as_of_ms),
                "source_expired": is_expired,
                "table_versions": versions,
                "committed_at": instant_of(run.now_ms),
                **columns,
            }
        )
    status = rows_of(WINDOW_STATUS, rows, run_id=run.run_id)
    return replace_rows(status, run.warehouse, WINDOW_STATUS, cluster=run.cluster_name, windows=run.windows)


def _notes(expired: dict[str, set[TimeWindow]]) -> tuple[str, ...]:
    return tuple(
        f"{source}: {len(windows)} stored windows kept, the source now holds less (--force replaces them)"
        for source, windows in expired.items()
        if windows
    )
