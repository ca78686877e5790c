"""Reads a cluster's sources into bronze and silver and commits the windows.

One Spark job reads everything once, segments (or offset ranges) and scrapes, into Parquet parts by kind. The driver sees what
the run covers before it writes; Spark makes every table that grows of the parts. Every table's windows are replaced; `bronze.window_status` is written last and vouches for them. A window for which a
source now covers less than what is stored (retention took segments, scrapes were rotated away) keeps that source's stored
rows and is marked `source_expired`. Windows that are replaced are not trusted until the data gate has passed over them again.
"""

import time
from functools import partial

from pyspark.sql import SparkSession

from pipeline.errors import NothingUsableError
from pipeline.jobs.ingest.cluster import merge_files, write_cluster
from pipeline.jobs.ingest.found import Found, read_run_input
from pipeline.jobs.ingest.records import write_arrivals, write_keys, write_traffic
from pipeline.jobs.ingest.windows import commit_windows, describe_kept, find_newest_window, list_expired_windows
from pipeline.jobs.ingest.writing import write_metrics
from pipeline.model.window import TimeWindow
from pipeline.progress import Begin, ignore_phase
from pipeline.runs import JobReport, RunContext
from pipeline.sources.cluster_reading import read_cluster
from pipeline.sources.metrics.metric_source import read_metrics
from pipeline.stages import Staging
from pipeline.storage.at_once import write_at_once
from pipeline.storage.earlier_states import load_earlier_states
from pipeline.storage.staging import open_staging_folder
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import load_stored_windows, withdraw_trust
from pipeline.tables.bronze import WINDOW_STATUS


def run(spark: SparkSession, run: RunContext, begin: Begin = ignore_phase) -> JobReport:
    """Ingests the run's windows of one cluster.

    Raises:
        NothingUsableError: if no source of the cluster held anything.
    """
    begin("sources")
    earlier = load_earlier_states(run.warehouse, run.cluster_name, run.span)
    reading = read_cluster(
        run.cluster_name,
        run.cluster,
        run.windows,
        run.as_of_ms,
        earlier=earlier,
        newest=find_newest_window(run),
        storage=run.config.storage,
    )
    metrics = read_metrics(run.cluster, run.span, run.window_ms, now_ms=run.now_ms, pause=time.sleep, clock=_read_clock)
    if reading.live is None and not reading.tree.directories and not reading.groups and metrics.is_empty:
        wrong = (*reading.problems.values(), *metrics.problems.values())
        causes = [f"{p.path}: {p.reason}" for problems in wrong for p in problems]
        raise NothingUsableError(
            f"cluster {run.cluster_name}: no source holds anything: {'; '.join(causes) or 'all empty'}"
        )
    ensure_tables(run.warehouse)
    with open_staging_folder(run.warehouse) as folder:
        found = read_run_input(Staging(spark, folder, run.subject), run, reading, metrics)
        stored = load_stored_windows(run.warehouse, run.cluster_name, run.windows)
        begin("bronze_and_silver")
        expired = {} if run.force else list_expired_windows(run, found, stored)
        withdraw_trust(run.warehouse, run.cluster_name, run.windows)
        versions = _write_tables(run, found, expired) | merge_files(run, found)
        versions[WINDOW_STATUS.name] = commit_windows(run, found, stored, expired, versions)
    return JobReport(table_versions=versions, notes=describe_kept(expired))


def _read_clock() -> int:
    return time.time_ns() // 1_000_000


def _write_tables(run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Writes all tables that belong to windows at once."""
    writers = (write_traffic, write_keys, write_arrivals, write_metrics, write_cluster)
    return write_at_once([partial(write, run, found, expired) for write in writers])
