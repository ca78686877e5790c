"""Which suites stand behind which job: the data gate after `ingest`, the health gate after `score_health`.

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from expectations.gate import CheckResult, GateReport, raise_for_data_gate, run_suite
from expectations.record_sums import rows_of_windows, sum_arrivals, sum_keys
from pipeline.measures.source_arrivals import RULE as SIGHT_RULE
from pipeline.measures.source_arrivals import Hold, SourceArrival, find_holds, hold_back, judge_sources
from pipeline.model.window import TimeWindow, format_instant, milliseconds_of
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import SparkSession

    from pipeline.model.verdict import Verdict
    from pipeline.runs import RunContext

HISTORY_FACTOR = 8
"""How far back, in multiples of n windows, the windows before the first judged one are looked for: some may be missing."""

SOURCES_ARRIVED = "sources_arrived"
_END_OF_TIME_MS = 4_102_444_800_000  # the year 2100
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
    from pipeline.sources.metrics.metric_readings import reports_brokers
    from pipeline.storage.window_status import trust_windows

    limits: dict[str, Any] = {
        "windows_ms": [window.start_ms for window in run.windows],
        "max_age_ms": milliseconds_of(run.cluster.freshness),
    }
    reports = [run_suite("window_status_gate", rows_of_windows(spark, run, WINDOW_STATUS, run.windows), limits)]
    metered = (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES) if reports_brokers(run.cluster) else ()
    for table in (CLUSTER_STATE, PARTITION_TRAFFIC, RECORD_BATCHES, *metered):
        suite = f"{table.name.split('.')[1]}_gate"
        reports.append(run_suite(suite, rows_of_windows(spark, run, table, run.windows)))
    reports += [
        run_suite("keys_gate", rows_of_windows(spark, run, table, run.windows), {"key": list(table.key)})
        for table in (*_KEYS_ONLY, ARRIVALS)
    ]
    reports.append(run_suite("key_traffic_gate", sum_keys(spark, run)))
    reports.append(run_suite("arrivals_gate", sum_arrivals(spark, run)))
    raise_for_data_gate(reports)
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
    from pyspark.sql import functions as F

    from pipeline.measures.verdicts import RULE as BROKER_SHARE_RULE  # brings NumPy

    gate, window_ms = run.cluster.gate, run.window_ms
    first_ms = min(window.start_ms for window in windows)
    reach = TimeWindow(first_ms - HISTORY_FACTOR * gate.n * window_ms, _END_OF_TIME_MS)
    arrivals = _arrivals(run, first_ms)
    max_age_ms = milliseconds_of(run.cluster.freshness)
    holds = {**_reassignments(run, first_ms), **find_holds(arrivals, max_age_ms=max_age_ms)}
    shares = rows_of_windows(spark, run, BROKER_SHARE, (reach,))
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
            "topic_limits": gate.topic_limits,
            "judged_from_ms": first_ms,
        },
    )
    held = {start_ms: hold for start_ms, hold in holds.items() if start_ms >= first_ms}
    unjudged = hold_back(held, _ratios(run, held), rule=BROKER_SHARE_RULE, limit_value=gate.limit_ratio)
    seen = tuple(v for v in judge_sources(arrivals, max_age_ms=max_age_ms) if v.window_start_ms >= first_ms)
    rules = check_rules(spark, run, first_ms, holds)
    return replace(report, checks=(*report.checks, _sight(unjudged, seen), *rules.checks))


def check_rules(
    spark: SparkSession, run: RunContext, first_ms: int, holds: Mapping[int, Hold] | None = None
) -> GateReport:
    """Is anything beyond the limit of a further rule, from a window on?

    Args:
        spark: Session.
        run: The run; its configuration holds the rules.
        first_ms: Start of the first window to judge, UTC milliseconds; those before count toward k of n only.
        holds: Windows in which not every rule is judged, and why.
    """
    n = max(rule.n for rule in run.cluster.rules.values())
    reach = TimeWindow(first_ms - HISTORY_FACTOR * n * run.window_ms, _END_OF_TIME_MS)
    return run_suite(
        "rules_gate",
        rows_of_windows(spark, run, RULE_MEASURES, (reach,)),
        {
            "rules": {name: rule.model_dump() for name, rule in run.cluster.rules.items()},
            "chance_level": run.cluster.gate.chance_level,
            "judged_from_ms": first_ms,
            "holds": {str(start_ms): asdict(hold) for start_ms, hold in (holds or {}).items()},
        },
    )


def _reassignments(run: RunContext, first_ms: int) -> dict[int, Hold]:
    """Windows at whose end a reassignment ran: what it copies, and leaders on their way, say nothing of balance."""
    from pipeline.storage.rows import load_rows

    reach_ms = first_ms - HISTORY_FACTOR * run.cluster.gate.n * run.window_ms
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
    from pipeline.storage.rows import load_rows

    rows = load_rows(run.warehouse, WINDOW_STATUS, cluster=run.cluster_name).to_pylist()
    reach_ms = first_ms - HISTORY_FACTOR * run.cluster.gate.n * run.window_ms
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
    from pipeline.storage.rows import load_rows

    windows = tuple(TimeWindow(start_ms, start_ms + run.window_ms) for start_ms in held)
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
