"""Which suites stand behind which job: the data gate after `ingest`, the health gate after `score_health`.

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.gate import GateReport, run_suite
from pipeline.errors import DataGateError
from pipeline.model.window import TimeWindow, format_instant
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.runs import RunContext
    from pipeline.tables import Table

HISTORY_FACTOR = 8
"""How far back, in multiples of n windows, the windows before the first judged one are looked for: some may be missing."""

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
    from pipeline.storage.window_status import trust_windows  # noqa: PLC0415  # keeps DAG files light

    limits: dict[str, Any] = {
        "windows_ms": [window.start_ms for window in run.windows],
        "max_age_ms": run.cluster.freshness_ms,
    }
    reports = [run_suite("window_status_gate", _rows(spark, run, WINDOW_STATUS, run.windows), limits)]
    for table in (CLUSTER_STATE, PARTITION_TRAFFIC, RECORD_BATCHES):
        suite = f"{table.name.split('.')[1]}_gate"
        reports.append(run_suite(suite, _rows(spark, run, table, run.windows)))
    reports += [
        run_suite("keys_gate", _rows(spark, run, table, run.windows), {"key": list(table.key)}) for table in _KEYS_ONLY
    ]
    failed = [report for report in reports if not report.success]
    if failed:
        raise DataGateError("\n".join(report.describe_failures() for report in failed))
    trust_windows(run.warehouse, run.cluster_name, run.windows)
    return tuple(reports)


def check_health(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> GateReport:
    """The health gate: does any broker carry more than its share?

    Every window from the first of these to the newest scored is judged: a changed window changes the count of windows
    above for those after it. Windows before count toward k of n only.

    Args:
        spark: Session.
        run: The run.
        windows: Windows that were scored.
    """
    gate, window_ms = run.cluster.gate, run.config.window_ms
    first_ms = min(window.start_ms for window in windows)
    reach = TimeWindow(first_ms - HISTORY_FACTOR * gate.n * window_ms, _END_OF_TIME_MS)
    shares = _rows(spark, run, BROKER_SHARE, (reach,))
    return run_suite(
        "health_gate",
        shares,
        {
            "limit_ratio": gate.limit_ratio,
            "floor_bytes": gate.floor_bytes_per_s * window_ms / 1000,
            "chance_level": gate.chance_level,
            "k": gate.k,
            "n": gate.n,
            "judged_from_ms": first_ms,
        },
    )


def describe_health(report: GateReport, run: RunContext) -> str:
    """The verdict in words: which broker failed when, or that none did."""
    failed = [verdict for verdict in report.verdicts if verdict.verdict == "fail"]
    if not failed:
        return f"cluster {run.cluster_name}: healthy, no broker above its share in {run.cluster.gate.k} of {run.cluster.gate.n} windows"
    lines = [f"  {format_instant(verdict.window_start_ms)} {verdict.subject}: {verdict.reason}" for verdict in failed]
    return "\n".join([f"cluster {run.cluster_name}: NOT healthy", *lines])


def _rows(spark: SparkSession, run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> DataFrame:
    from pipeline.storage.delta import load  # noqa: PLC0415  # keeps DAG files light
    from pipeline.storage.predicates import format_predicate  # noqa: PLC0415

    return load(spark, run.warehouse, table).where(format_predicate(table, run.cluster_name, windows))
