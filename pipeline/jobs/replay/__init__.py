"""Replays recorded traffic through what is in use and every candidate: keys by their hashes, the rest by simulation.

Reads `silver.key_traffic`, the hashes of its keys and `silver.arrivals`, never the records; writes
`silver.producer_sessions`, `silver.service_models`, `gold.replay_results`, `gold.replay_brokers`,
`gold.scenario_comparison`, `gold.back_tests` and `gold.hash_verdicts`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.calibration.rows import baseline_columns, service_columns
from pipeline.jobs.replay.cluster import count_partitions, load_cluster_facts
from pipeline.jobs.replay.log_facts import place_of
from pipeline.jobs.replay.minutes import load_minutes
from pipeline.jobs.replay.refinement import refine
from pipeline.jobs.replay.services import fit_sessions
from pipeline.jobs.replay.sessions import look_at_sessions
from pipeline.jobs.replay.simulation import simulate_traffic
from pipeline.jobs.replay.topics import iter_topics
from pipeline.model.window import TimeWindow, instant_of
from pipeline.replay.keyed import replay_packed
from pipeline.replay.packing import ANSWERS, HASHES, TRAFFIC, pack_file
from pipeline.replay.plan import FAMILIES, AnswerColumn, check_candidates, plan_replay
from pipeline.replay.results import ReplayRows, make_rows
from pipeline.replay.topic_replay import add_topic
from pipeline.runs import JobReport
from pipeline.storage.files import count_file_rows, iter_file_rows, list_files
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import committed_windows
from pipeline.tables.back_tests import BACK_TESTS
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_TRAFFIC
from pipeline.tables.replay import HASH_VERDICTS, REPLAY_BROKERS, REPLAY_RESULTS
from pipeline.tables.scenario_comparison import SCENARIO_COMPARISON
from pipeline.tables.sessions import PRODUCER_SESSIONS, SERVICE_MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pipeline.config.pipeline_config import PipelineConfig
    from pipeline.jobs.replay.services import SessionServices
    from pipeline.replay.buckets import Sums
    from pipeline.replay.calibrated import SessionFinding, SessionKey
    from pipeline.replay.plan import ReplayPlan
    from pipeline.replay.results import ClusterFacts
    from pipeline.runs import RunContext
    from pipeline.tables import Table

FAMILY_NAMES = frozenset(family.name for family in FAMILIES)


def check(config: PipelineConfig) -> None:
    """Refuses candidates that cannot be replayed, before Spark starts.

    Raises:
        ConfigError: naming the candidate.
    """
    for cluster in config.clusters.values():
        check_candidates(config.candidates, cluster.partitioners)


def pending_windows(run: RunContext) -> tuple[TimeWindow, ...]:
    """Windows to replay: those of the run over which the data gate passed, and such windows never replayed before."""
    ensure_tables(run.warehouse)  # one from before there was a replay lacks its tables
    return run.pending_windows(HASH_VERDICTS, BACK_TESTS)  # one has rows, whatever is stored of keys and arrivals


def run(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> JobReport:
    """Replaces the windows' rows in the replay's tables.

    Args:
        spark: Session.
        run: What the run is about.
        windows: From `pending_windows`.

    Raises:
        ConfigError: A candidate cannot be replayed, or was not asked about the keys when they were read.
    """
    if not windows:
        return JobReport(notes=("no trusted window to replay",))
    cluster = load_cluster_facts(run, windows)
    keyed = _replay_keys(spark, run, windows, cluster)
    families = {place_of(row): row["verdict"] for row in keyed.verdicts if row["verdict"] in FAMILY_NAMES}
    findings = look_at_sessions(spark, run, windows, cluster, families)
    minutes = load_minutes(run, windows)
    services = fit_sessions(run, windows, findings=findings, cluster=cluster, minutes=minutes)
    findings, services = refine(spark, run, windows, findings=findings, services=services, cluster=cluster)
    simulation = simulate_traffic(
        spark, run, windows, findings=findings, services=services, cluster=cluster, key_families=families
    )
    rows = ReplayRows(verdicts=keyed.verdicts)
    for topic in iter_topics(
        run, windows, simulation=simulation, findings=findings, services=services, cluster=cluster, keyed=keyed
    ):
        add_topic(rows, topic)
    versions = _write(run, windows, rows, findings, services)
    notes = (*describe_verdicts(rows.verdicts), *describe_back_tests(rows.back_tests))
    return JobReport(table_versions=versions, notes=notes or (_describe_nothing(run),))


def _replay_keys(
    spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...], cluster: ClusterFacts
) -> ReplayRows:
    """What recorded keys say; no rows where none are stored."""
    committed = committed_windows(run.warehouse, run.cluster_name)
    before = {TimeWindow(w.start_ms - run.window_ms, w.start_ms) for w in windows} & committed
    span = tuple(sorted({*windows, *before}))
    partition_counts = count_partitions(cluster)

    def plan(bucket_count: int) -> ReplayPlan:
        return plan_replay(
            windows,
            committed,
            partition_counts,
            run.config.candidates,
            partitioners=run.cluster.partitioners,
            bucket_count=bucket_count,
        )

    rows_per_bucket = run.config.replay.rows_per_bucket
    planned, sums = read_sums(spark, run.warehouse, run.cluster_name, span, plan, rows_per_bucket=rows_per_bucket)
    return ReplayRows() if sums is None else make_rows(planned, sums, cluster)


def _write(
    run: RunContext,
    windows: tuple[TimeWindow, ...],
    rows: ReplayRows,
    findings: Sequence[SessionFinding],
    services: Mapping[SessionKey, SessionServices],
) -> dict[str, int]:
    """Versions of the tables written."""
    written = {
        PRODUCER_SESSIONS: [_named_session(finding) for finding in findings],
        SERVICE_MODELS: list(_service_rows(services)),
        REPLAY_RESULTS: rows.results,
        REPLAY_BROKERS: rows.brokers,
        SCENARIO_COMPARISON: rows.comparison,
        BACK_TESTS: rows.back_tests,
        HASH_VERDICTS: rows.verdicts,
    }
    return {table.name: _replace(run, table, found, windows) for table, found in written.items()}


def _describe_nothing(run: RunContext) -> str:
    return (
        f"neither keys nor arrivals are stored for these windows (keys.mode is {run.config.keys.mode}, replay.arrivals"
        f" is {str(run.config.replay.arrivals).lower()}): nothing to replay"
    )


def _named_session(finding: SessionFinding) -> dict[str, Any]:
    row = {**finding.row, **baseline_columns(finding.baseline)}  # looked closer at since
    return {"window_start": instant_of(finding.start_ms), **row}


def _service_rows(services: Mapping[SessionKey, SessionServices]) -> Iterator[dict[str, Any]]:
    for (start_ms, producer_id, epoch, topic, topic_id), found in services.items():
        for model in found.models.values():
            yield {
                "window_start": instant_of(start_ms),
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "topic": topic,
                "topic_id": topic_id,
                "client_id": found.client_id,
                **service_columns(model),
            }


def describe_back_tests(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """A line for all topics: how far predictions of what is in use are off."""
    tested = [row for row in rows if row.get("share_error_points") is not None]
    if not tested:
        return ()
    trusted = sum(row["is_trusted"] for row in rows)
    worst = max(tested, key=lambda row: row["share_error_points"])
    return (
        f"back-tests: {trusted} of {len(rows)} topics x windows are trusted; the worst share is {worst['topic']}'s, "
        f"{worst['share_error_points']:.1f} points off",
    )


def read_sums(
    spark: SparkSession,
    warehouse: Path,
    cluster: str,
    windows: Sequence[TimeWindow],
    plan_of: Callable[[int], ReplayPlan],
    *,
    rows_per_bucket: int,
) -> tuple[ReplayPlan, list[Sums] | None]:
    """Places the keys of some windows.

    Args:
        spark: Session.
        warehouse: Folder of all tables.
        cluster: Whose keys.
        windows: Whose rows to read: those to replay, and those before them.
        plan_of: Gives the plan for a number of buckets.
        rows_per_bucket: Rows about keys that a process holds at once, roughly.

    Returns:
        The plan, and partial sums; None where no file holds anything.
    """
    paths = {TRAFFIC: list_files(warehouse, KEY_TRAFFIC, cluster, windows)}
    plan = plan_of(max(1, -(-count_file_rows(paths[TRAFFIC]) // rows_per_bucket)))
    paths[HASHES] = list_files(warehouse, KEY_HASHES, cluster, windows)
    if any(isinstance(column, AnswerColumn) for column in plan.columns):
        paths[ANSWERS] = list_files(warehouse, KEY_ANSWERS, cluster, windows)
    files = [(content, path) for content, found in paths.items() for path in found]
    if not files or not plan.topics:
        return plan, None
    packed = spark.sparkContext.parallelize(files, len(files)).flatMap(
        partial(pack_file, plan=plan, read_file=iter_file_rows)
    )
    buckets = packed.groupByKey(plan.bucket_count + 1)  # and one of what has no key
    return plan, buckets.flatMap(partial(replay_packed, plan=plan)).collect()


def _replace(run: RunContext, table: Table, rows: list[dict[str, object]], windows: tuple[TimeWindow, ...]) -> int:
    named = ({"cluster": run.cluster_name, **row} for row in rows)
    found = rows_of(table, named, run_id=run.run_id)
    return replace_rows(found, run.warehouse, table, cluster=run.cluster_name, windows=windows)


def describe_verdicts(verdicts: list[dict[str, object]]) -> tuple[str, ...]:
    """A line per topic: which hash placed its keys, and in how many windows that was found."""
    by_topic: dict[object, Counter[object]] = defaultdict(Counter)
    for row in verdicts:
        if row["record_count"]:
            by_topic[row["topic"]][row["verdict"]] += 1
    return tuple(
        f"keys of {topic}: "
        + ", ".join(f"{verdict} in {count} of {found.total()} windows" for verdict, count in found.most_common())
        for topic, found in sorted(by_topic.items(), key=lambda item: str(item[0]))
    )
