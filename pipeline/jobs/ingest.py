"""Reads a cluster's sources into bronze and silver and commits the windows.

Segments are scanned three times: once for what each file holds (few rows, taken by the driver, which sees what the run
covers before it writes), once for the batches, once, every record in them, for the keys. Every table's windows are replaced; `bronze.window_status` is written
last and vouches for them. A window of which a source now covers less than what is stored (retention took segments,
scrapes were rotated away) keeps that source's stored rows and is marked `source_expired`.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.errors import NothingUsableError
from pipeline.live_source import LIVE_CLUSTER
from pipeline.model.window import instant_of
from pipeline.runs import JobReport
from pipeline.sources.arrival_frames import arrival_frame, arrival_options
from pipeline.sources.arrivals import iter_arrivals
from pipeline.sources.cluster_reading import (
    CONSUMER_GROUPS as CONSUMER_GROUP_TEXTS,
)
from pipeline.sources.cluster_reading import ClusterReading, read_cluster
from pipeline.sources.cluster_rows import (
    compacted_topics,
    iter_broker_rows,
    iter_cluster_state_rows,
    iter_consumer_group_rows,
    retention_ms,
)
from pipeline.sources.frames import batch_frame, leader_epoch_frame, register_sources, sample_frame, summary_rows
from pipeline.sources.key_frames import choose_questions, key_frame, key_options, question_frame
from pipeline.sources.live.frames import (
    live_arrivals,
    live_batches,
    live_frame,
    live_keys,
    live_shortfalls,
    live_summary_rows,
    offset_summary_rows,
    offset_traffic_frame,
)
from pipeline.sources.live.reading import iter_live_group_rows, with_losses
from pipeline.sources.metric_readings import (
    MetricReading,
    client_configs,
    name_metric_sources,
    read_metrics,
    sample_intervals_ms,
    tells_of_brokers,
)
from pipeline.sources.problem_rows import iter_quarantine_rows, problems_of
from pipeline.sources.sample_arrivals import InstanceArrivals, count_samples
from pipeline.sources.segment_plan import choose_replicas, plan_reads
from pipeline.sources.segment_rows import iter_segment_rows
from pipeline.storage.delta import load, merge_in_parts, replace_windows
from pipeline.storage.earlier_states import load_earlier_states
from pipeline.storage.frames import rows_of
from pipeline.storage.predicates import format_predicate
from pipeline.storage.rows import merge_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import collect_coverage, load_stored_windows, windows_to_keep
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import (
    BROKERS,
    CLUSTER_STATE,
    CONSUMER_GROUPS,
    LOG_SEGMENTS,
    METRIC_SAMPLES,
    QUARANTINE,
    WINDOW_STATUS,
)
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES
from pipeline.transforms.arrivals import join_arrivals
from pipeline.transforms.batches import as_record_batches, with_leader, with_window
from pipeline.transforms.broker_metrics import BrokerSamples
from pipeline.transforms.keys import (
    collect_key_answers,
    collect_key_hashes,
    describe_contradictions,
    key_problem_rows,
    summarise_key_matrices,
    summarise_key_traffic,
    with_key_window,
)
from pipeline.transforms.producer_nodes import summarise_producer_nodes
from pipeline.transforms.samples import as_metric_samples
from pipeline.transforms.traffic import summarise_traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.log import Problem
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.sources.segment_plan import SegmentRead
    from pipeline.storage.window_status import StoredWindows
    from pipeline.tables import Table

JOB = "ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """What a run found, before anything is written.

    Attributes:
        reading: Everything but batches and samples.
        metrics: Scrapes kept as files.
        arrivals: When samples were taken, of each metrics source.
        reads: Segments to be scanned.
        batches: Rows of `kafka_record_batches`.
        fetched: What a live cluster gave, cached; None for files.
        summaries: Rows of `kafka_segment_summaries`.
        samples: Rows of `SAMPLE_SCHEMA`, cached.
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
    samples: DataFrame
    row_counts: Counter[tuple[str, TimeWindow]]
    problems: dict[str, list[Problem]]

    def count(self, *sources: str) -> int:
        return sum(count for (source, _), count in self.row_counts.items() if source in sources)

    def window_rows(self) -> list[dict[str, Any]]:
        return [row for row in self.summaries if row["row_kind"] == "window"]


def run(spark: SparkSession, run: RunContext) -> JobReport:
    """Ingests the run's windows of one cluster.

    Args:
        spark: Session.
        run: What the run is about.

    Raises:
        NothingUsableError: if no source of the cluster held anything.
    """
    earlier = load_earlier_states(run.warehouse, run.cluster_name, run.span.start_ms)
    reading = read_cluster(run.cluster_name, run.cluster, run.windows, run.as_of_ms, earlier)
    metrics = read_metrics(run.cluster, run.span, run.config.window_ms, now_ms=run.now_ms, pause=time.sleep)
    if reading.live is None and not reading.tree.directories and not reading.groups and metrics.is_empty:
        wrong = (*reading.problems.values(), *metrics.problems.values())
        found = [f"{p.path}: {p.reason}" for problems in wrong for p in problems]
        raise NothingUsableError(
            f"cluster {run.cluster_name}: no source holds anything: {'; '.join(found) or 'all empty'}"
        )
    register_sources(spark)
    ensure_tables(run.warehouse)
    found_now = _read_input(spark, run, reading, metrics)
    stored = load_stored_windows(run.warehouse, run.cluster_name, run.windows)
    expired = {} if run.force else _expired_windows(run, found_now, stored)
    with ThreadPoolExecutor(1) as beside:  # Spark has two tables to write, and rarely work for all cores in one
        metrics_written = beside.submit(_write_metrics, run, found_now, expired)
        versions = _write_cluster(run, found_now.reading, expired) | _write_traffic(spark, run, found_now, expired)
        versions |= _write_keys(spark, run, found_now, expired)
        versions |= _write_arrivals(spark, run, found_now, expired)
    versions |= metrics_written.result() | _merge_files(run, found_now)
    versions[WINDOW_STATUS.name] = _commit_windows(run, found_now, stored, expired, versions)
    found_now.samples.unpersist()
    if found_now.fetched is not None:
        found_now.fetched.unpersist()
    return JobReport(job=JOB, table_versions=versions, notes=_notes(expired))


def _read_input(spark: SparkSession, run: RunContext, reading: ClusterReading, metrics: MetricReading) -> _Input:
    replicas = choose_replicas(reading.tree, reading.history.state_at(run.as_of_ms).leaders, run.cluster.topics)
    reads = plan_reads(replicas, run.span)
    samples = sample_frame(spark, metrics.pages, metrics.batches).cache()
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(count_samples, samples, run.windows)
        reading, batches, fetched, summaries = _read_batches(spark, run, reading, reads)
    row_counts, page_problems, arrivals = counting.result()
    by_start = {window.start_ms: window for window in run.windows}
    for row in summaries:
        if row["row_kind"] == "window" and row["window_start_ms"] in by_start:
            row_counts[reading.record_source, by_start[row["window_start_ms"]]] += row["batch_count"]
    for observed_at_ms, _ in reading.groups:
        start_ms = observed_at_ms - observed_at_ms % run.config.window_ms
        if start_ms in by_start:
            row_counts[CONSUMER_GROUP_TEXTS, by_start[start_ms]] += 1
    problems = {kind: [*found] for kind, found in (*reading.problems.items(), *metrics.problems.items())}
    scanned = problems_of(row for row in summaries if row["row_kind"] == "problem")
    problems.setdefault(reading.record_source, []).extend(scanned)
    for kind, found in page_problems.items():
        problems.setdefault(kind, []).extend(found)
    return _Input(
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
        return reading, batches, None, summary_rows(spark, reads, run.as_of_ms, run.config.window_ms)
    wanted: dict[str, str] = {}
    if _counts_keys(run, reading):
        known = reading.history.state_at(run.as_of_ms).partitions
        wanted |= key_options(run, choose_questions(run, reading.live.reads, known))
    if _reads_arrivals(run, reading):
        wanted |= arrival_options(run, reading.live.slices)
    fetched = live_frame(spark, reading.live, wanted).cache()
    summaries = live_summary_rows(fetched, run.config.window_ms)
    summaries += offset_summary_rows(reading.live, run.config.window_ms)
    live = with_losses(reading.live, live_shortfalls(fetched))
    reading = replace(reading, live=live, problems={**reading.problems, LIVE_CLUSTER: live.problems})
    return reading, live_batches(fetched, live), fetched, summaries


def _expired_windows(run: RunContext, found: _Input, stored: StoredWindows) -> dict[str, set[TimeWindow]]:
    """Per source, the committed windows of which it now gives less than is stored."""
    expired: dict[str, set[TimeWindow]] = defaultdict(set)
    rows = ({**row, "window_start": instant_of(row["window_start_ms"])} for row in found.window_rows())
    coverage = collect_coverage(rows, run.windows)
    record_source = found.reading.record_source
    expired[record_source] = windows_to_keep(stored.traffic, coverage, stored.windows)
    for (source, window), row_count in stored.row_counts.items():
        if source != record_source and found.row_counts[source, window] < row_count:
            expired[source].add(window)
    return expired


def _fresh(run: RunContext, stale: set[TimeWindow]) -> tuple[TimeWindow, ...]:
    return tuple(window for window in run.windows if window not in stale)


def _write_cluster(run: RunContext, reading: ClusterReading, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Brokers, partitions' states and consumer groups, through delta-rs: few rows."""
    fresh = _fresh(run, expired.get(reading.record_source, set()))
    fresh_groups = _fresh(run, expired.get(CONSUMER_GROUP_TEXTS, set()))
    name, history = run.cluster_name, reading.history
    plan: tuple[tuple[Table, Any, tuple[TimeWindow, ...]], ...] = (
        (
            BROKERS,
            iter_broker_rows(name, history, reading.directory_counts, fresh, reading.broker_configs),
            fresh,
        ),
        (CLUSTER_STATE, iter_cluster_state_rows(name, history, reading.replicas, fresh, reading.relative), fresh),
        (CONSUMER_GROUPS, _group_rows(run, reading, fresh_groups), fresh_groups),
    )
    return {
        table.name: replace_rows(
            rows_of(table, rows, run_id=run.run_id), run.warehouse, table, cluster=name, windows=windows
        )
        for table, rows, windows in plan
        if windows
    }


def _group_rows(run: RunContext, reading: ClusterReading, windows: tuple[TimeWindow, ...]) -> Iterator[dict[str, Any]]:
    yield from iter_consumer_group_rows(run.cluster_name, reading.groups, windows)
    if reading.live is not None and run.windows[-1] in windows:
        yield from iter_live_group_rows(run.cluster_name, reading.live, run.windows[-1])


def _write_traffic(
    spark: SparkSession, run: RunContext, found: _Input, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """Record batches, then what the partitions got: summed up from the batches as they were stored."""
    fresh = _fresh(run, expired.get(found.reading.record_source, set()))
    if not fresh:
        return {}
    batches = with_window(found.batches, run.config.window_ms)
    led = with_leader(batches, leader_epoch_frame(spark, found.reading.history))
    record_batches = as_record_batches(led, run.cluster_name)
    batch_count = found.count(found.reading.record_source)
    versions = {RECORD_BATCHES.name: _replace(run, RECORD_BATCHES, record_batches, fresh, batch_count)}
    stored = load(spark, run.warehouse, RECORD_BATCHES).where(format_predicate(RECORD_BATCHES, run.cluster_name, fresh))
    compacted = compacted_topics(found.reading.history.state_at(run.as_of_ms), found.reading.tree)
    live = found.reading.live
    rate = 1.0 if live is None else live.source.sampling.time
    traffic = summarise_traffic(stored, compacted, run.cluster.batch_size_bytes, sampling_rate=rate)
    if live is not None and live.offset_traffic:
        by_offsets = offset_traffic_frame(
            spark,
            live,
            cluster=run.cluster_name,
            compacted=compacted,
            batch_size_bytes=run.cluster.batch_size_bytes,
        )
        traffic = traffic.unionByName(by_offsets, allowMissingColumns=True)
    return versions | {PARTITION_TRAFFIC.name: _replace(run, PARTITION_TRAFFIC, traffic, fresh)}


def _write_keys(
    spark: SparkSession, run: RunContext, found: _Input, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """What each key got, its hashes, and what strategies answered about it: all from one scan of the records."""
    source = found.reading.record_source
    fresh = _fresh(run, expired.get(source, set()))
    if not fresh:
        return {}
    if not _counts_keys(run, found.reading):
        for table in (KEY_TRAFFIC, KEY_MATRICES):
            _clear(run, table, fresh)
        return {}  # nobody vouches for keys that were not counted
    name = run.cluster_name
    live = found.reading.live
    reads = found.reads if live is None else live.reads
    questions = choose_questions(run, reads, found.reading.history.state_at(run.as_of_ms).partitions)
    starts = [window.start_ms for window in fresh]
    rows = key_frame(spark, run, found.reads, questions) if found.fetched is None else live_keys(found.fetched)
    rows = with_key_window(rows.where(F.col("window_start_ms").isin(starts))).persist()
    row_count = rows.count()
    versions = {KEY_TRAFFIC.name: _replace(run, KEY_TRAFFIC, summarise_key_traffic(rows, name), fresh, row_count)}
    if run.config.keys.mode == "pseudonymous":
        versions[KEY_HASHES.name] = _merge_keys(run, KEY_HASHES, collect_key_hashes(rows, name), row_count)
    if questions:
        asked = question_frame(spark, questions)
        matrices, answers = summarise_key_matrices(rows, asked, name), collect_key_answers(rows, asked, name)
        versions[KEY_MATRICES.name] = _replace(run, KEY_MATRICES, matrices, fresh, row_count)
        versions[KEY_ANSWERS.name] = _merge_keys(run, KEY_ANSWERS, answers, row_count * len(questions))
        wrong = [*key_problem_rows(rows), *describe_contradictions(rows, asked)]
        found.problems.setdefault(source, []).extend(problems_of(wrong))
    else:
        versions[KEY_MATRICES.name] = _clear(run, KEY_MATRICES, fresh)
    rows.unpersist()
    return versions


def _write_arrivals(
    spark: SparkSession, run: RunContext, found: _Input, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """When each record was created, how large it was and which key it had, by producer session."""
    fresh = _fresh(run, expired.get(found.reading.record_source, set()))
    if not fresh:
        return {}
    if not _reads_arrivals(run, found.reading):
        _clear(run, ARRIVALS, fresh)
        return {}  # nobody vouches for arrivals that were not read
    live = found.reading.live
    chunks = arrival_frame(spark, run, found.reads) if found.fetched is None else live_arrivals(found.fetched)
    joined = join_arrivals(
        chunks.where(F.col("window_start_ms").isin([window.start_ms for window in fresh])),
        run.cluster_name,
        is_named=run.config.keys.mode == "pseudonymous",
        sampling_rate=1.0 if live is None else live.source.sampling.time * live.source.sampling.partitions,
    )
    record_count = sum(row["record_count"] for row in found.window_rows())
    return {ARRIVALS.name: _replace(run, ARRIVALS, joined, fresh, record_count)}


def _reads_arrivals(run: RunContext, reading: ClusterReading) -> bool:
    """Arrivals are read where records are, and the configuration wants them."""
    reads_records = reading.live is None or reading.live.source.read == "record_batches"
    return run.config.replay.arrivals and reads_records


def _counts_keys(run: RunContext, reading: ClusterReading) -> bool:
    """Keys are counted where all records are read."""
    is_whole = reading.live is None or (
        reading.live.source.read == "record_batches" and reading.live.source.sampling.is_whole
    )
    return run.config.keys.mode != "off" and is_whole


def _merge_keys(run: RunContext, table: Table, frame: DataFrame, row_count: int) -> int:
    return merge_in_parts(frame, run.warehouse, table, run_id=run.run_id, by="key_id", row_count=row_count)


def _clear(run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> int:
    nothing = rows_of(table, (), run_id=run.run_id)
    return replace_rows(nothing, run.warehouse, table, cluster=run.cluster_name, windows=windows)


def _write_metrics(run: RunContext, found: _Input, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Samples, and what the producers' say of each broker."""
    names = tuple(name_metric_sources(run.cluster))
    fresh = _fresh(run, set().union(*(expired.get(name, set()) for name in names)))
    if not fresh:
        return {}
    window_ms, samples = run.config.window_ms, found.samples.where("row_kind = 'sample'")
    nodes = summarise_producer_nodes(
        samples,
        run.cluster_name,
        run.span,
        window_ms,
        precedence=names,
        interval_ms=sample_intervals_ms(run.cluster),
        client_configs=client_configs(run.cluster),
    )
    stored = as_metric_samples(samples, run.cluster_name, run.span, window_ms)
    versions = {
        METRIC_SAMPLES.name: _replace(run, METRIC_SAMPLES, stored, fresh, found.count(*names)),
        PRODUCER_NODES.name: _replace(run, PRODUCER_NODES, nodes, fresh),
    }
    return versions | (_write_broker_metrics(run, samples, fresh) if tells_of_brokers(run.cluster) else {})


def _write_broker_metrics(run: RunContext, samples: DataFrame, fresh: tuple[TimeWindow, ...]) -> dict[str, int]:
    """What brokers' samples say of them, their topics and their requests."""
    intervals_ms = sample_intervals_ms(run.cluster)
    of_brokers = BrokerSamples(samples, run.cluster_name, run.span, run.config.window_ms, intervals_ms)
    return {
        BROKER_METRICS.name: _replace(run, BROKER_METRICS, of_brokers.summarise_brokers(), fresh),
        BROKER_TOPICS.name: _replace(run, BROKER_TOPICS, of_brokers.summarise_topics(), fresh),
        BROKER_REQUEST_TIMES.name: _replace(run, BROKER_REQUEST_TIMES, of_brokers.summarise_request_times(), fresh),
    }


def _replace(
    run: RunContext, table: Table, frame: DataFrame, windows: tuple[TimeWindow, ...], row_count: int | None = None
) -> int:
    starts = [window.start_ms for window in windows]
    within = frame.where(F.unix_millis("window_start").isin(starts)) if len(windows) < len(run.windows) else frame
    return replace_windows(
        within,
        run.warehouse,
        table,
        cluster=run.cluster_name,
        windows=windows,
        run_id=run.run_id,
        row_count=row_count,
    )


def _merge_files(run: RunContext, found: _Input) -> dict[str, int]:
    """Upserts what belongs to files rather than windows: segments and problems."""
    reading = found.reading
    state = reading.history.state_at(run.as_of_ms)
    compacted = compacted_topics(state, reading.tree)
    kept_ms = {
        topic: retention_ms(state.topic_config(topic)) for topic in state.topic_configs if topic not in compacted
    }
    known_ms = {topic: span_ms for topic, span_ms in kept_ms.items() if span_ms is not None}
    segments = list(iter_segment_rows(run.cluster_name, reading.tree, found.summaries, known_ms, reading.relative))
    problems = iter_quarantine_rows(run.cluster_name, found.problems, reading.relative)
    first_seen = ({**row, "first_seen_at": instant_of(run.as_of_ms)} for row in problems)
    scanned = rows_of(LOG_SEGMENTS, (row for row in segments if row["is_scanned"]), run_id=run.run_id)
    # A replica that is not the counted copy, or a file outside the run's windows: known, unless it was read before.
    others = rows_of(LOG_SEGMENTS, (row for row in segments if not row["is_scanned"]), run_id=run.run_id)
    merge_rows(scanned, run.warehouse, LOG_SEGMENTS)
    return {
        LOG_SEGMENTS.name: merge_rows(others, run.warehouse, LOG_SEGMENTS, insert_only=True),
        QUARANTINE.name: merge_rows(
            rows_of(QUARANTINE, first_seen, run_id=run.run_id), run.warehouse, QUARANTINE, insert_only=True
        ),
    }


def _commit_windows(
    run: RunContext,
    found: _Input,
    stored: StoredWindows,
    expired: dict[str, set[TimeWindow]],
    versions: dict[str, int],
) -> int:
    """Writes `bronze.window_status`, last: from here on readers see the windows."""
    newest_ms = max((row["max_timestamp_ms"] for row in found.window_rows()), default=None)
    rows = []
    for window, columns in iter_arrivals(
        run.cluster, found.reading, run.windows, newest_ms, listed=found.metrics.listed, told=found.arrivals
    ):
        source = columns["source"]
        is_expired = window in expired.get(source, set())
        counts = stored.row_counts if is_expired else found.row_counts
        # A kept window's row goes on to vouch for what had arrived when its rows were stored.
        arrived_before = stored.arrivals.get((source, window)) if is_expired else None
        rows.append(
            {
                "cluster": run.cluster_name,
                "window_start": instant_of(window.start_ms),
                "window_end": instant_of(window.end_ms),
                "row_count": counts.get((source, window), 0),
                "problem_count": len(found.problems.get(source, ())),
                "as_of": instant_of(run.as_of_ms),
                "source_expired": is_expired,
                "table_versions": versions,
                "committed_at": instant_of(run.now_ms),
                **columns,
                **(arrived_before._asdict() if arrived_before else {}),
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
