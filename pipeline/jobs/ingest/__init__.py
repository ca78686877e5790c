"""Reads a cluster's sources once into bronze and silver; `bronze.window_status`, written last, vouches for the windows."""

import time
from functools import partial, reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.calibration.arrival_rows import GROUP
from pipeline.config.sections import PSEUDONYMOUS
from pipeline.engine import count_task_slots, describe_work
from pipeline.errors import NothingUsableError
from pipeline.jobs.ingest import windows
from pipeline.jobs.ingest.cluster import merge_problems, merge_segments, write_cluster
from pipeline.jobs.ingest.ingest_input import IngestInput, counts_keys, read_run_input, reads_arrivals
from pipeline.model.cluster import LIVE_CLUSTER
from pipeline.model.window import END_OF_TIME_MS, TimeWindow, Windows, instant_of, stretches_of
from pipeline.progress import Begin, ignore_phase
from pipeline.runs import CATCH_UP_MS, JobReport, RunContext, TableRows
from pipeline.sources.cluster_reading import read_cluster
from pipeline.sources.files.cluster_rows import compacted_topics, problems_of
from pipeline.sources.live.offsets import iter_offset_traffic_rows
from pipeline.sources.metrics.metric_source import SampleQuestion, name_metric_sources, read_metrics, reports_brokers
from pipeline.sources.questions import ClusterQuestion, name_some
from pipeline.sources.records.pieces import OF_PAST_WINDOWS, Kind
from pipeline.stages import Staging, map_groups
from pipeline.storage.data_files import write_at_once
from pipeline.storage.files import WRITTEN
from pipeline.storage.locks import open_staging_folder
from pipeline.storage.observations import load_earlier_states
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import load_stored_windows, withdraw_lost, withdraw_trust
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES
from pipeline.transforms import keys as key_sums
from pipeline.transforms.producer_nodes import finish_nodes
from pipeline.transforms.samples import REPEATED, select_samples
from pipeline.transforms.traffic import join_arrivals, sum_traffic

GROUP_RECORDS = 1_000_000  # arrivals of a group that one task puts in order, some 200 MB
_FILLED_IN = {"cluster", "window_date", "run_id"}
_NODE_COLUMNS = pa.schema([(c.name, ARROW_TYPES[c.type]) for c in PRODUCER_NODES.columns if c.name not in _FILLED_IN])


def within(rows: DataFrame, windows: Windows) -> DataFrame:
    is_ms = "window_start_ms" in rows.columns
    at, wanted = F.col("window_start_ms" if is_ms else "window_start"), []
    for span in stretches_of(windows):
        start, end = (ms if is_ms else instant_of(ms) for ms in (span.start_ms, span.end_ms))
        wanted.append((at >= F.lit(start)) & (at < F.lit(end)))
    return rows.where(reduce(or_, wanted))


def write_metrics(run: RunContext, given: IngestInput, expired: windows.Expired) -> dict[str, int]:
    names = tuple(name_metric_sources(run.cluster))
    fresh = windows.fresh_windows(run, set().union(*(expired.get(name, set()) for name in names)))
    if not fresh:
        return {}
    samples = given.parts[Kind.SAMPLES]
    if not samples.row_count:
        tables = [METRIC_SAMPLES, PRODUCER_NODES]
        tables += [BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES] if reports_brokers(run.cluster) else []
        return {name: version for table in tables for name, version in run.replace(table, (), fresh).items()}
    reasons = {problem.reason for name in names for problem in given.problems.get(name, ())}
    frame = select_samples(samples.frame(), run.span, run.window_ms, has_repeated=REPEATED in reasons)
    selected = within(frame, fresh)
    versions = run.replace_frame(given.staging.spark, METRIC_SAMPLES, selected, fresh)
    versions |= _write_nodes(run, given, names, fresh)
    if reports_brokers(run.cluster):  # a row for each broker, and each of its topics and requests
        starts = pa.array([instant_of(window.start_ms) for window in fresh], pa.timestamp("us", "UTC"))
        for table in (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES):
            rows = given.samples[table.name].load()
            versions |= run.replace(table, rows.filter(pc.is_in(rows["window_start"], starts)), fresh)
    return versions


def _write_nodes(run: RunContext, given: IngestInput, names: tuple[str, ...], fresh: Windows) -> dict[str, int]:
    nodes, spark = given.samples[PRODUCER_NODES.name], given.staging.spark
    finish = partial(finish_nodes, precedence=names, client_configs=run.cluster.producers)

    def work(rows: pa.Table) -> TableRows:
        yield PRODUCER_NODES.name, finish(rows).select(_NODE_COLUMNS.names).cast(_NODE_COLUMNS)

    kernel, client = run.to_files(work, (PRODUCER_NODES,), fresh), ("window_start_ms", "client_id")
    finished = map_groups(within(nodes.frame(), fresh), client, count_task_slots(spark), kernel, WRITTEN)
    return run.replace_by_files("finish connections", finished, (PRODUCER_NODES,), fresh)


def write_traffic(run: RunContext, given: IngestInput, fresh: Windows) -> dict[str, int]:
    reading, live, spark = given.reading, given.reading.live, given.staging.spark
    batches = within(given.parts[Kind.BATCHES].frame(), fresh)
    versions = run.replace_frame(spark, RECORD_BATCHES, batches, fresh)
    compacted = compacted_topics(reading.history.state_at(run.as_of_ms), reading.tree)
    rate, size = 1.0 if live is None else live.source.sampling.time, run.cluster.batch_size_bytes
    traffic = run.fit(PARTITION_TRAFFIC, sum_traffic(batches, compacted, size, sampling_rate=rate))
    if live is not None and live.offset_traffic:
        by_offsets = iter_offset_traffic_rows(
            live.offset_traffic, cluster=run.cluster_name, compacted=compacted, batch_size_bytes=size
        )
        rows = run.table_of(PARTITION_TRAFFIC, by_offsets)
        traffic = traffic.unionByName(within(run.fit(PARTITION_TRAFFIC, spark.createDataFrame(rows)), fresh))
    versions |= run.replace_frame(spark, PARTITION_TRAFFIC, traffic, fresh)
    return versions


def write_keys(run: RunContext, given: IngestInput, fresh: Windows) -> dict[str, int]:
    spark = given.staging.spark
    if not counts_keys(run, given.reading):
        for table in (KEY_TRAFFIC, KEY_MATRICES):
            run.replace(table, (), fresh)
        return {}  # no version is committed for keys that were not counted
    keys, others = (within(given.parts[kind].frame(), fresh) for kind in (Kind.KEYS, Kind.OTHERS))
    versions = run.replace_frame(spark, KEY_TRAFFIC, key_sums.sum_keys(keys, others), fresh)
    if run.config.keys.mode == PSEUDONYMOUS:
        versions |= run.insert_missing(spark, KEY_HASHES, key_sums.list_key_hashes(keys), fresh)
    questions = [(q.strategy, q.version, q.partition_count) for q in given.settings.questions]
    if not questions:
        return versions | run.replace(KEY_MATRICES, (), fresh)
    versions |= run.replace_frame(spark, KEY_MATRICES, key_sums.sum_key_matrices(others, questions), fresh)
    answers = key_sums.answer_keys(keys, questions)
    agreed = answers.where("chosen_partition = greatest").drop("greatest")
    versions |= run.insert_missing(spark, KEY_ANSWERS, agreed, fresh)
    different = key_sums.count_contradictions(answers).toArrow().to_pylist()
    wrong = [*key_sums.key_problem_rows(others), *key_sums.describe_contradictions(different)]
    given.problems.setdefault(given.reading.record_source, []).extend(problems_of(wrong))
    return versions


def write_arrivals(run: RunContext, given: IngestInput, fresh: Windows) -> dict[str, int]:
    chunks = given.parts[Kind.ARRIVALS]
    if not reads_arrivals(run, given.reading):
        run.replace(ARRIVALS, (), fresh)
        return {}  # no version is committed for arrivals that were not read
    if not chunks.row_count:
        return run.replace(ARRIVALS, (), fresh)
    live, staging = given.reading.live, given.staging
    rate = 1.0 if live is None else live.source.sampling.time * live.source.sampling.partitions
    join = partial(join_arrivals, is_named=run.config.keys.mode == PSEUDONYMOUS, sampling_rate=rate)

    def work(rows: pa.Table) -> TableRows:
        yield ARRIVALS.name, join(rows)

    records = pc.sum(given.window_sums["record_count"]).as_py() or 0
    count = max(count_task_slots(staging.spark), -(-records // GROUP_RECORDS))
    kernel = run.to_files(work, (ARRIVALS,), fresh)
    ordered = map_groups(within(chunks.frame(), fresh), GROUP, count, kernel, WRITTEN)
    return run.replace_by_files("order arrivals", ordered, (ARRIVALS,), fresh)


def run(spark: SparkSession, run: RunContext, begin: Begin = ignore_phase) -> JobReport:
    """Ingests the run's windows of one cluster; `NothingUsableError` if no source of the cluster held anything."""
    begin("sources")
    is_live = any(source.kind == LIVE_CLUSTER for source in run.cluster.sources)  # no other source asks for them
    describe_work(f"{run.subject}: load what earlier runs saw")
    earlier = load_earlier_states(spark, run.warehouse, run.cluster_name, run.span) if is_live else ()
    question = ClusterQuestion(
        name=run.cluster_name,
        topics=run.cluster.topics,
        windows=run.windows,
        as_of_ms=run.as_of_ms,
        earlier=earlier,
        newest=windows.find_newest_window(run),
        storage=run.config.storage,
    )
    reading = read_cluster(run.cluster, question)
    pause, clock = time.sleep, lambda: time.time_ns() // 1_000_000
    samples = SampleQuestion(span=run.span, window_ms=run.window_ms, now_ms=run.now_ms, pause=pause, clock=clock)
    metrics = windows.leave_out_others(read_metrics(run.cluster, samples), reading)
    if reading.live is None and not reading.tree.directories and not reading.groups and metrics.is_empty:
        wrong = (one for of in (*reading.problems.values(), *metrics.problems.values()) for one in of)
        causes = name_some("no source holds anything:", [f"{one.path}: {one.reason}" for one in wrong])
        raise NothingUsableError(f"cluster {run.cluster_name}: {causes or 'no source holds anything: all empty'}")
    ensure_tables(run.warehouse)
    withdraw_lost(run.warehouse, run.cluster_name, TimeWindow(max(0, run.as_of_ms - CATCH_UP_MS), END_OF_TIME_MS))
    with open_staging_folder(run.warehouse) as folder:
        given = read_run_input(Staging(spark, folder, run.subject), run, reading, metrics)
        stored = load_stored_windows(run.warehouse, run.cluster_name, run.windows)
        other_lengths = windows.describe_other_lengths(run)
        begin("bronze_and_silver")
        expired = {} if run.force else windows.list_expired_windows(run, given, stored)
        withdraw_trust(run.warehouse, run.cluster_name, run.windows)
        fresh = windows.fresh_windows(run, expired.get(given.reading.record_source, set()))
        work = [partial(write, run, given, fresh) for write in (write_traffic, write_keys, write_arrivals) if fresh]
        work += [partial(write, run, given, expired) for write in (write_metrics, write_cluster)]
        work.append(partial(merge_segments, run, given))
        versions = write_at_once(work) | merge_problems(run, given)
        versions |= windows.commit_windows(run, given, stored, expired, versions)
    late = [one.path for one in given.problems.get(reading.record_source, ()) if one.reason == OF_PAST_WINDOWS]
    notes = [
        f"{source}: {len(kept)} stored windows kept, the source now holds less (--force replaces them)"
        for source, kept in expired.items()
        if kept
    ]
    notes += filter(None, [name_some(f"{OF_PAST_WINDOWS}:", late), other_lengths])
    return JobReport(table_versions=versions, notes=tuple(notes))
