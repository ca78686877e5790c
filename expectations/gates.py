"""Which suites stand behind which job: the data gate after `ingest`, the health gate after `score_health`.

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from expectations.gate import CheckResult, GateReport, run_suite
from pipeline.errors import DataGateError
from pipeline.measures.source_arrivals import RULE as SIGHT_RULE
from pipeline.measures.source_arrivals import Hold, SourceArrival, find_holds, hold_back, judge_sources
from pipeline.model.window import TimeWindow, format_instant, milliseconds_of
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.verdict import Verdict
    from pipeline.runs import RunContext
    from pipeline.tables import Table

HISTORY_FACTOR = 8
"""How far back, in multiples of n windows, the windows before the first judged one are looked for: some may be missing."""

SOURCES_ARRIVED = "sources_arrived"
_END_OF_TIME_MS = 4_102_444_800_000  # the year 2100
_RECORD_SOURCES = ("log_directories", "live_cluster")
_KEYS_ONLY = (BROKERS, CONSUMER_GROUPS, PRODUCER_NODES)


def check_ingested(spark: SparkSession, run: RunContext) -> tuple[GateReport, ...]:
    """The data gate of `ingest`: may the next step trust these windows? If so, they are marked.

    Args:
        spark: Session.
        run: The run that was ingested; its windows are judged, no others.

    Returns:
        What every suite found, warnings included.

    Raises:
        DataGateError: if a critical check failed; all suites had their turn before.
        GateBrokenError: if a check raised.
    """
    from pipeline.sources.metric_readings import tells_of_brokers  # noqa: PLC0415  # keeps DAG files light
    from pipeline.storage.window_status import trust_windows  # noqa: PLC0415

    limits: dict[str, Any] = {
        "windows_ms": [window.start_ms for window in run.windows],
        "max_age_ms": run.cluster.freshness_ms,
    }
    reports = [run_suite("window_status_gate", _rows(spark, run, WINDOW_STATUS, run.windows), limits)]
    metered = (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES) if tells_of_brokers(run.cluster) else ()
    for table in (CLUSTER_STATE, PARTITION_TRAFFIC, RECORD_BATCHES, *metered):
        suite = f"{table.name.split('.')[1]}_gate"
        reports.append(run_suite(suite, _rows(spark, run, table, run.windows)))
    reports += [
        run_suite("keys_gate", _rows(spark, run, table, run.windows), {"key": list(table.key)})
        for table in (*_KEYS_ONLY, ARRIVALS)
    ]
    reports.append(run_suite("key_traffic_gate", _key_sums(spark, run)))
    reports.append(run_suite("arrivals_gate", _arrival_sums(spark, run)))
    failed = [report for report in reports if not report.success]
    if failed:
        raise DataGateError("\n".join(report.describe_failures() for report in failed))
    trust_windows(run.warehouse, run.cluster_name, run.windows)
    return tuple(reports)


def check_health(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> GateReport:
    """The health gate: does any broker carry more than its share, and did every source arrive to tell?

    Every window from the first of these to the newest scored is judged: a changed window changes the count of windows
    above for those after it. Windows before count toward k of n only.

    Args:
        spark: Session.
        run: The run.
        windows: Windows that were scored.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  # keeps DAG files light

    from pipeline.measures.verdicts import RULE as BROKER_SHARE_RULE  # noqa: PLC0415  # brings NumPy

    gate, window_ms = run.cluster.gate, run.config.window_ms
    first_ms = min(window.start_ms for window in windows)
    reach = TimeWindow(first_ms - HISTORY_FACTOR * gate.n * window_ms, _END_OF_TIME_MS)
    arrivals = _arrivals(run, first_ms)
    max_age_ms = run.cluster.freshness_ms
    holds = {**_reassignments(run, first_ms), **find_holds(arrivals, max_age_ms=max_age_ms)}
    shares = _rows(spark, run, BROKER_SHARE, (reach,))
    if holds:  # such windows count neither as above nor as well
        shares = shares.filter(~F.unix_millis("window_start").isin(sorted(holds)))
    report = run_suite(
        "health_gate",
        shares,
        {
            "limit_ratio": gate.limit_ratio,
            "floor_bytes": gate.floor_bytes_per_s * window_ms / 1000,
            "chance_level": gate.chance_level,
            "k": gate.k,
            "n": gate.n,
            "luck_fails": gate.hash_luck == "fail",
            "judged_from_ms": first_ms,
        },
    )
    held = {start_ms: hold for start_ms, hold in holds.items() if start_ms >= first_ms}
    unjudged = hold_back(held, _ratios(run, held), rule=BROKER_SHARE_RULE, limit_value=gate.limit_ratio)
    seen = tuple(v for v in judge_sources(arrivals, max_age_ms=max_age_ms) if v.window_start_ms >= first_ms)
    rules = check_rules(spark, run, first_ms)
    return replace(report, checks=(*report.checks, _sight(unjudged, seen), *rules.checks))


def check_rules(spark: SparkSession, run: RunContext, first_ms: int) -> GateReport:
    """Is anything beyond the limit of a further rule, from a window on?

    Args:
        spark: Session.
        run: The run; its configuration holds the rules.
        first_ms: Start of the first window to judge, UTC milliseconds; those before count toward k of n only.
    """
    n = max(rule.n for rule in run.cluster.rules.values())
    reach = TimeWindow(first_ms - HISTORY_FACTOR * n * run.config.window_ms, _END_OF_TIME_MS)
    return run_suite(
        "rules_gate",
        _rows(spark, run, RULE_MEASURES, (reach,)),
        {
            "rules": {name: rule.model_dump() for name, rule in run.cluster.rules.items()},
            "chance_level": run.cluster.gate.chance_level,
            "judged_from_ms": first_ms,
        },
    )


def _reassignments(run: RunContext, first_ms: int) -> dict[int, Hold]:
    """Windows at whose end a reassignment ran: what it copies, and leaders on their way, say nothing of balance."""
    from pipeline.storage.rows import load_rows  # noqa: PLC0415

    reach_ms = first_ms - HISTORY_FACTOR * run.cluster.gate.n * run.config.window_ms
    reach = (TimeWindow(reach_ms, _END_OF_TIME_MS),)
    moving: dict[int, int] = {}
    for row in load_rows(run.warehouse, TOPIC_HEALTH, cluster=run.cluster_name, windows=reach).to_pylist():
        if row["reassigning_count"]:
            start_ms = milliseconds_of(row["window_start"])
            moving[start_ms] = moving.get(start_ms, 0) + row["reassigning_count"]
    return {
        start_ms: Hold("incomplete", f"a reassignment of {count:,} partition{'' if count == 1 else 's'} was running")
        for start_ms, count in moving.items()
    }


def _arrivals(run: RunContext, first_ms: int) -> tuple[SourceArrival, ...]:
    """What every source brought, from as far back as shares are looked at."""
    from pipeline.storage.rows import load_rows  # noqa: PLC0415

    rows = load_rows(run.warehouse, WINDOW_STATUS, cluster=run.cluster_name).to_pylist()
    reach_ms = first_ms - HISTORY_FACTOR * run.cluster.gate.n * run.config.window_ms
    return tuple(
        SourceArrival(
            window_start_ms=milliseconds_of(row["window_start"]),
            source=row["source"],
            expected_count=row["expected_count"],
            arrived_count=row["arrived_count"],
            missing=row["missing"],
            newest_ms=None if row["newest_at"] is None else milliseconds_of(row["newest_at"]),
            as_of_ms=milliseconds_of(row["as_of"]),
            source_expired=row["source_expired"],
        )
        for row in rows
        if row["is_trusted"] and milliseconds_of(row["window_start"]) >= reach_ms
    )


def _ratios(run: RunContext, held: Mapping[int, Any]) -> dict[int, dict[int, float | None]]:
    """Share ratios of windows that are not judged, by start and broker."""
    from pipeline.storage.rows import load_rows  # noqa: PLC0415

    windows = tuple(TimeWindow(start_ms, start_ms + run.config.window_ms) for start_ms in held)
    found: dict[int, dict[int, float | None]] = {}
    if windows:
        for row in load_rows(run.warehouse, BROKER_SHARE, cluster=run.cluster_name, windows=windows).to_pylist():
            found.setdefault(milliseconds_of(row["window_start"]), {})[row["broker_id"]] = row["share_ratio"]
    return found


def _sight(unjudged: tuple[Verdict, ...], seen: tuple[Verdict, ...]) -> CheckResult:
    blind = [verdict for verdict in seen if verdict.verdict == "fail"]
    return CheckResult(
        name=SOURCES_ARRIVED,
        severity="critical",
        description="Every source arrived whole and in time in the windows that were judged.",
        success=not blind,
        observed=len(blind) or None,
        rows=tuple(
            {"window_start": format_instant(v.window_start_ms), "source": v.subject, "reason": v.reason} for v in blind
        ),
        verdicts=(*unjudged, *seen),
    )


def describe_health(report: GateReport, run: RunContext) -> str:
    """The verdict in words: which broker failed when, which windows could not be judged, or that all is well."""
    failed = [verdict for verdict in report.verdicts if verdict.verdict == "fail"]
    if failed and all(verdict.rule == SIGHT_RULE for verdict in failed):
        lines = [f"  {format_instant(verdict.window_start_ms)} {verdict.reason}" for verdict in failed]
        return "\n".join([f"cluster {run.cluster_name}: the pipeline is blind, health is not known", *lines])
    if not failed:
        return f"cluster {run.cluster_name}: healthy, no broker above its share in {run.cluster.gate.k} of {run.cluster.gate.n} windows"
    lines = [f"  {format_instant(verdict.window_start_ms)} {verdict.subject}: {verdict.reason}" for verdict in failed]
    return "\n".join([f"cluster {run.cluster_name}: NOT healthy", *lines])


def _key_sums(spark: SparkSession, run: RunContext) -> DataFrame:
    """Data records of each topic-partition and window as its batches have them and as its keys do.

    Only windows that this run read keys of: not those that are older than the tables of keys, nor runs told to read none.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  # keeps DAG files light

    windows = _windows_with(spark, run, KEY_TRAFFIC)
    grain = ("window_start", "topic", "topic_id", "partition")
    unreadable = F.when(F.col("kind") == "unreadable", F.col("record_count")).otherwise(0)
    by_key = _rows(spark, run, KEY_TRAFFIC, run.windows).groupBy(*grain)
    keyed = by_key.agg(F.sum("record_count").alias("keyed"), F.sum(unreadable).alias("unreadable"))
    batches = (
        _rows(spark, run, PARTITION_TRAFFIC, run.windows).groupBy(*grain).agg(F.sum("record_count").alias("stored"))
    )
    return (
        batches.join(keyed, list(grain), "full")
        .join(F.broadcast(windows), "window_start")
        .select(
            *grain,
            *(
                F.coalesce(found, F.lit(0)).alias(name)
                for name, found in (
                    ("record_count", "stored"),
                    ("key_record_count", "keyed"),
                    ("unreadable_record_count", "unreadable"),
                )
            ),
        )
    )


def _arrival_sums(spark: SparkSession, run: RunContext) -> DataFrame:
    """Data records of each topic and window as its batches have them and as its arrivals do, where all were read."""
    from pyspark.sql import functions as F  # noqa: PLC0415  # keeps DAG files light

    windows = _windows_with(spark, run, ARRIVALS)
    grain = ("window_start", "topic", "topic_id")
    lengths = [F.size(name) for name in ("gap_ms", "body_bytes", "partition", "key_index")]
    uneven = sum((F.when(length == F.col("record_count"), 0).otherwise(1) for length in lengths), F.lit(0))
    arrived = (
        _rows(spark, run, ARRIVALS, run.windows)
        .where("count_kind = 'exact'")
        .groupBy(*grain)
        .agg(
            F.sum(F.col("record_count") + F.col("unreadable_record_count")).alias("arrived"),
            F.sum("outlier_record_count").alias("outliers"),
            F.sum(uneven).alias("uneven"),
        )
    )
    is_exact = F.coalesce("count_kind", F.lit("exact")) == "exact"
    batches = (
        _rows(spark, run, PARTITION_TRAFFIC, run.windows)
        .groupBy(*grain)
        .agg(F.sum("record_count").alias("stored"), F.bool_and(is_exact).alias("is_exact"))
    )
    return (
        batches.join(arrived, list(grain), "full")
        .where(F.coalesce("is_exact", F.lit(True)))  # noqa: FBT003  (a literal column)
        .join(F.broadcast(windows), "window_start")
        .select(
            *grain,
            *(
                F.coalesce(found, F.lit(0)).alias(name)
                for name, found in (
                    ("record_count", "stored"),
                    ("arrival_record_count", "arrived"),
                    ("outlier_record_count", "outliers"),
                    ("uneven_row_count", "uneven"),
                )
            ),
        )
    )


def _windows_with(spark: SparkSession, run: RunContext, table: Table) -> DataFrame:
    """Starts of the run's windows whose rows of a table this run vouches for."""
    from pyspark.sql import functions as F  # noqa: PLC0415  # keeps DAG files light

    vouched = F.element_at("table_versions", F.lit(table.name)).isNotNull() & ~F.col("source_expired")
    windows = _rows(spark, run, WINDOW_STATUS, run.windows).where(vouched & F.col("source").isin(*_RECORD_SOURCES))
    return windows.select("window_start").distinct()


def _rows(spark: SparkSession, run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> DataFrame:
    from pipeline.storage.delta import load  # noqa: PLC0415  # keeps DAG files light
    from pipeline.storage.predicates import format_predicate  # noqa: PLC0415

    return load(spark, run.warehouse, table).where(format_predicate(table, run.cluster_name, windows))
