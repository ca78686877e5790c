"""Replays recorded keys through the strategy in use and every candidate, and says which hash placed them.

Reads `silver.key_traffic` and the hashes of its keys, never the records; writes `gold.replay_results`,
`gold.replay_brokers`, `gold.scenario_comparison` and `gold.hash_verdicts`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.replay.keyed import replay_keys
from pipeline.replay.packing import ANSWERS, HASHES, TRAFFIC
from pipeline.replay.plan import AnswerColumn, check_candidates, plan_replay
from pipeline.replay.results import ClusterFacts, ReplayRows, make_rows
from pipeline.runs import JobReport
from pipeline.storage.files import count_file_rows, iter_file_rows, list_files
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import committed_windows, trusted_windows
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_TRAFFIC
from pipeline.tables.replay import HASH_VERDICTS, REPLAY_BROKERS, REPLAY_RESULTS, SCENARIO_COMPARISON

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pipeline.config import PipelineConfig
    from pipeline.replay.plan import ReplayPlan
    from pipeline.runs import RunContext
    from pipeline.tables import Table

JOB = "replay"
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The brokers name the partition of each of their records: no partitioner is asked."""


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
    trusted = trusted_windows(run.warehouse, run.cluster_name)
    replayed = load_rows(run.warehouse, HASH_VERDICTS, cluster=run.cluster_name)["window_start"].unique().to_pylist()
    replayed_ms = {milliseconds_of(instant) for instant in replayed}
    wanted = set(run.windows)
    return tuple(sorted(w for w in trusted if w in wanted or w.start_ms not in replayed_ms))


def run(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> JobReport:
    """Replaces the windows' rows in the four tables.

    Args:
        spark: Session.
        run: What the run is about.
        windows: From `pending_windows`.

    Raises:
        ConfigError: A candidate cannot be replayed, or was not asked about the keys when they were read.
    """
    if not windows:
        return JobReport(job=JOB, notes=("no trusted window to replay",))
    committed = committed_windows(run.warehouse, run.cluster_name)
    before = {TimeWindow(w.start_ms - run.config.window_ms, w.start_ms) for w in windows} & committed
    span = tuple(sorted({*windows, *before}))
    facts, partition_counts = _cluster_facts(run, windows)

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
    rows = ReplayRows() if sums is None else make_rows(planned, sums, facts)
    written = {
        REPLAY_RESULTS: rows.results,
        REPLAY_BROKERS: rows.brokers,
        SCENARIO_COMPARISON: rows.comparison,
        HASH_VERDICTS: rows.verdicts,
    }
    versions = {table.name: _replace(run, table, found, windows) for table, found in written.items()}
    notes = describe_verdicts(rows.verdicts) or (
        f"no records by key are stored for these windows (keys.mode is {run.config.keys.mode}): nothing to replay",
    )
    return JobReport(job=JOB, table_versions=versions, notes=notes)


def read_sums(
    spark: SparkSession,
    warehouse: Path,
    cluster: str,
    windows: Sequence[TimeWindow],
    plan_of: Callable[[int], ReplayPlan],
    *,
    rows_per_bucket: int,
) -> tuple[ReplayPlan, pa.Table | None]:
    """Places the keys of some windows.

    Args:
        spark: Session.
        warehouse: Folder of all tables.
        cluster: Whose keys.
        windows: Whose rows to read: those to replay, and those before them.
        plan_of: Gives the plan for a number of buckets.
        rows_per_bucket: Rows about keys that a process holds at once, roughly.

    Returns:
        The plan, and partial sums as `replay_keys` gives them, collected; None where no file holds anything.
    """
    paths = {TRAFFIC: list_files(warehouse, KEY_TRAFFIC, cluster, windows)}
    plan = plan_of(max(1, -(-count_file_rows(paths[TRAFFIC]) // rows_per_bucket)))
    paths[HASHES] = list_files(warehouse, KEY_HASHES, cluster, windows)
    if any(isinstance(column, AnswerColumn) for column in plan.columns):
        paths[ANSWERS] = list_files(warehouse, KEY_ANSWERS, cluster, windows)
    files = [(content, path) for content, found in paths.items() for path in found]
    if not files or not plan.topics:
        return plan, None
    frame = spark.createDataFrame(files, "content string, path string").repartition(len(files))
    return plan, replay_keys(frame, plan, iter_file_rows).toArrow()


def _cluster_facts(
    run: RunContext, windows: tuple[TimeWindow, ...]
) -> tuple[ClusterFacts, dict[tuple[str, str], dict[int, int]]]:
    """Who led what, and how many partitions each topic had, window by window."""
    leaders: dict[tuple[int, str, str], dict[int, int]] = defaultdict(dict)
    state = load_rows(run.warehouse, CLUSTER_STATE, cluster=run.cluster_name, windows=windows)
    for row in state.select(["window_start", "topic", "topic_id", "partition", "leader_id"]).to_pylist():
        start_ms = milliseconds_of(row["window_start"])
        leaders[start_ms, row["topic"], row["topic_id"]][row["partition"]] = row["leader_id"]
    brokers: dict[int, list[int]] = defaultdict(list)
    known = load_rows(run.warehouse, BROKERS, cluster=run.cluster_name, windows=windows)
    for row in known.select(["window_start", "broker_id"]).to_pylist():
        brokers[milliseconds_of(row["window_start"])].append(row["broker_id"])
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for (start_ms, topic, topic_id), by_partition in leaders.items():
        if topic in _INTERNAL_TOPICS:
            continue
        counts[topic, topic_id][start_ms] = max(by_partition) + 1
    return ClusterFacts(leaders, brokers), dict(counts)


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
