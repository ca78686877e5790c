"""The gates of `health`: is the cluster healthy; and do shares, measures and verdicts follow from the traffic, and from each other?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from expectations import queries
from expectations.gate import NOTHING, Asked, Batches, Versions, run_gate, same_columns
from expectations.reports import SuiteReport, raise_for_data_gate
from pipeline.model.verdict import Verdict
from pipeline.model.window import instant_of
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.tables.health import FORECAST, RULE_MEASURES
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext, Windows

_RULE_COLUMNS = {
    "topic_peak": "peak_to_mean", "under_replicated": "under_replicated_count", "below_min_isr": "below_min_isr_count",
    "leaderless": "leaderless_count", "lagging_replicas": "lagging_replica_count",
    "replica_size_spread": "replica_size_spread",
}  # fmt: skip  # a table: short fields share a line
"""Column of `gold.topic_health` that a rule judges as it is."""
_RATIOS = (
    "SELECT window_start, concat('broker ', broker_id) AS subject, share_ratio AS actual_ratio FROM gold.broker_share"
)


def check_health(
    run: RunContext, verdicts: Sequence[Verdict], queue: Callable[[], object] | None = None
) -> SuiteReport:
    """The health gate over verdicts with limit, k, severity: its failure is mailed; `queue`, its action, queues incidents."""
    import pyarrow as pa

    from expectations.actions import QueueIncidents  # takes three seconds

    actions = [] if queue is None else [QueueIncidents.by(queue)]
    rows = run.table_of(VERDICTS, verdicts).append_column("k", pa.array([one.k for one in verdicts], pa.int64()))
    rows = rows.append_column("severity", pa.array([one.severity for one in verdicts], pa.string()))
    (report,) = run_gate(None, "health", run, {"health_gate": lambda: rows}, actions=actions)
    return report


def describe_health(verdicts: Sequence[Verdict], run: RunContext) -> str:
    from pipeline.verdicts.rules import describe_verdicts

    return describe_verdicts(verdicts, cluster=run.cluster_name, gate=run.cluster.gate, window_ms=run.window_ms)


def check_measured(
    spark: SparkSession, run: RunContext, windows: Windows, verdicts: Sequence[Verdict], versions: Versions = NOTHING
) -> tuple[SuiteReport, ...]:
    """The data gate of `health`, after incidents were queued, so that none is silenced; raises as `check_ingested`."""
    reports = run_gate(spark, "measures", run, list_measured(run, windows, verdicts), versions=versions)
    raise_for_data_gate(reports)
    return reports


def list_measured(run: RunContext, windows: Windows, verdicts: Sequence[Verdict]) -> Batches:
    kept = run.split_by_rows(windows)[0]  # others' keys are dropped (`sums_only`)
    return {
        "broker_share_gate": queries.join_shares(run, windows),
        "partition_health_gate": Asked(queries.PARTITIONS, windows),
        "topic_health_gate": Asked(queries.TOPICS, windows, is_few=True),
        "hot_keys_gate": Asked(queries.KEYS, kept, is_few=True),
        "latency_gate": Asked(queries.NODES, windows),
        "group_balance_gate": Asked(queries.GROUPS, windows, is_few=True),
        "zone_traffic_gate": queries.join_zones(run, kept),
        "rule_measures_gate": Asked(_RULES, windows),
        "recommendations_gate": Asked(_ADVICE, windows, is_few=True),
        "promises_gate": Asked(_PROMISES, windows, is_few=True),
        "forecast_gate": partial(run.load, FORECAST, windows),
        "verdicts_gate": partial(join_verdicts, run, verdicts),
        "incidents_gate": Asked(_INCIDENTS, windows, is_few=True),
        "alert_outbox_gate": partial(join_messages, run, windows),
    }


# Rows of `gold.recommendations` with the share ratio of their broker, and how many there are for it
_ADVICE = f"""
    SELECT advice.*, actual_ratio, advice_count
    FROM gold.recommendations AS advice
    LEFT JOIN ({_RATIOS}) AS shares ON {same_columns("shares", "window_start, subject", "advice")}
    LEFT JOIN (
        SELECT window_start, subject, count(1) AS advice_count FROM gold.recommendations GROUP BY window_start, subject
    ) AS counted ON {same_columns("counted", "window_start, subject", "advice")}"""
_MEASURES = " ".join(f"WHEN '{rule}' THEN cast({column} AS double)" for rule, column in _RULE_COLUMNS.items())
_RULES = f"""
    SELECT rules.window_start, rule, subject, value, p_value,
           CASE rule {_MEASURES} END AS measured_value
    FROM gold.rule_measures AS rules
    LEFT JOIN (
        SELECT window_start, topic, {", ".join(f"max({name}) AS {name}" for name in _RULE_COLUMNS.values())}
        FROM gold.topic_health GROUP BY window_start, topic HAVING count(1) = 1
    ) AS health ON health.window_start = rules.window_start AND concat('topic ', health.topic) = rules.subject"""

_PROMISES = f"""
    SELECT promises.window_start, promised_at, promises.subject, action, topic, rank, outcome,
           promises.actual_ratio AS told_ratio, shares.actual_ratio, predicted_ratio_low, predicted_ratio,
           predicted_ratio_high, carried_out_ratio
    FROM gold.promises AS promises
    LEFT JOIN ({_RATIOS}) AS shares ON {same_columns("shares", "window_start, subject", "promises")}"""

_INCIDENTS = f"""
    SELECT incidents.*, verdict
    FROM gold.incidents AS incidents
    LEFT JOIN (SELECT window_start, rule, subject, verdict FROM gold.verdicts) AS judged
    ON {same_columns("judged", "window_start, rule, subject", "incidents")}"""


def join_messages(run: RunContext, windows: Windows) -> pa.Table:
    """Messages about the windows, and a row without one for each open change that nobody silenced and no mail tells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from pipeline.config.mail import MAIL_CHANNEL  # brings pydantic
    from pipeline.model.incident import IncidentChange

    names = ("window_start", "message_id", "incident_id", "state", "channel", "tells", "subject_line", "attempt_count")
    messages = run.load(ALERT_OUTBOX, None, (*names, "delivered_at", "delivered_to"))
    told: set[str] = set()
    for row in messages.to_pylist():
        if (row["channel"] or MAIL_CHANNEL) == MAIL_CHANNEL:
            told |= set((row["tells"] or f"{row['incident_id']}-{row['state']}").split(","))
    starts = pa.array([window.start_ms * 1000 for window in windows], pa.int64()).cast(messages["window_start"].type)
    own = messages.filter(pc.is_in(messages["window_start"], starts))
    untold = [
        {"window_start": instant_of(one.window_start_ms), "incident_id": one.incident_id, "state": one.state}
        for one in run.values(IncidentChange, INCIDENTS, windows, where="silenced_by IS NULL")
        if one.is_open and one.key not in told
    ]
    schema = pa.schema([field.with_nullable(nullable=True) for field in own.schema])
    return pa.concat_tables([own.cast(schema), pa.Table.from_pylist(untold, schema)])


def join_verdicts(run: RunContext, verdicts: Sequence[Verdict]) -> pa.Table:
    """Verdicts as they are to be stored, and brokers that lack one, with the measure that each judges."""
    import pyarrow as pa

    rows = run.table_of(VERDICTS, verdicts)
    starts_ms = sorted({verdict.window_start_ms for verdict in verdicts})
    windows = [run.window_at(start_ms) for start_ms in starts_ms]
    names = ("window_start", "rule", "subject")
    measured = {tuple(key): value for *key, value in run.tuples(RULE_MEASURES, windows, *names, "value")} | {
        (start, "broker_share", f"broker {broker_id}"): ratio
        for start, broker_id, ratio in run.tuples(BROKER_SHARE, windows, "window_start", "broker_id", "share_ratio")
    }
    keys = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
    judged = rows.append_column("measured_value", pa.array([measured.get(key) for key in keys], pa.float64()))
    unjudged = [dict(zip(names, key, strict=True)) for key in {*measured} - {*keys} if key[1] == "broker_share"]
    schema = pa.schema([field.with_nullable(nullable=True) for field in judged.schema])
    return pa.concat_tables([judged.cast(schema), pa.Table.from_pylist(unjudged, schema)])
