"""What a mail about a change says, from the tables of the window that brought it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pipeline.alerting.blind import describe_blind
from pipeline.alerting.broker_share import describe_broker_share
from pipeline.alerting.evidence import (
    Arrival,
    BrokerShareEvidence,
    CauseTerms,
    HotKey,
    HotPartition,
    ProduceLatency,
    VerdictEvidence,
    excess_by_topic,
)
from pipeline.alerting.rule_alert import describe_rule
from pipeline.measures.source_arrivals import RULE as SIGHT_RULE
from pipeline.model.load import BrokerLoad
from pipeline.model.recommendation import Recommendation
from pipeline.model.rule import DISK_RULE
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.tables.broker_metrics import BROKER_METRICS
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH
from pipeline.tables.health import HOT_KEYS, RECOMMENDATIONS, RULE_MEASURES
from pipeline.tables.scenario_comparison import SCENARIO_COMPARISON
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.alerting.content import Content
    from pipeline.model.incident import IncidentChange
    from pipeline.model.verdict import Verdict
    from pipeline.runs import RunContext

EARLIER_WINDOWS = 12
ALL_CLIENTS = "*"


def describe_change(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> Content:
    """What people are told of a change.

    Args:
        run: What the run is about.
        change: The change.
        verdicts: Those of its window among them.
    """
    if change.rule == SIGHT_RULE:
        return describe_blind(_blind_evidence(run, change, verdicts))
    if change.rule in run.cluster.rules:
        return describe_rule(_rule_evidence(run, change, verdicts))
    return describe_broker_share(_evidence(run, change, verdicts))


def _verdict_of(change: IncidentChange, verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict that brought a change."""
    told = (change.window_start_ms, change.rule, change.subject)
    return next(v for v in verdicts if (v.window_start_ms, v.rule, v.subject) == told)


def _rule_evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> VerdictEvidence:
    rule = run.cluster.rules[change.rule].of_topic(change.subject.removeprefix("topic "))
    return VerdictEvidence(
        cluster=run.cluster_name,
        change=change,
        reason=_verdict_of(change, verdicts).reason,
        window_ms=run.window_ms,
        limits_at=f"rules.{change.rule}",
        owner=rule.owner or run.cluster.owner,
        time_zone=run.cluster.time_zone,
    )


def _blind_evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> VerdictEvidence:
    return VerdictEvidence(
        cluster=run.cluster_name,
        change=change,
        reason=_verdict_of(change, verdicts).reason,
        window_ms=run.window_ms,
        limits_at="freshness",
        owner=run.cluster.owner,
        time_zone=run.cluster.time_zone,
    )


def _evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> BrokerShareEvidence:
    """What a mail about the change says, from the tables of the window that brought it."""
    window = TimeWindow(change.window_start_ms, change.window_start_ms + run.window_ms)
    broker_id = int(change.subject.removeprefix("broker "))
    shares = run.rows(BROKER_SHARE, (window,))
    own = next(row for row in shares if row["broker_id"] == broker_id)
    gate = run.cluster.gate.of_topic(own["excess_topic"] or "")
    first_ms = min(change.since_ms, window.start_ms) - EARLIER_WINDOWS * run.window_ms
    loads: dict[tuple[str, int], int] = {}
    for row in run.rows(PARTITION_TRAFFIC, (window,)):
        key = (row["topic"], row["leader_id"])
        loads[key] = loads.get(key, 0) + row["size_bytes"]
    return BrokerShareEvidence(
        cluster=run.cluster_name,
        change=change,
        broker_id=broker_id,
        window_ms=run.window_ms,
        limits_at="gate.limit_ratio (gate.topics for one topic)",
        brokers=tuple(_broker_load(row) for row in sorted(shares, key=lambda row: row["broker_id"])),
        topics=excess_by_topic(loads, broker_id=broker_id, expected_share=own["expected_share"]),
        partitions=_hot_partitions(run, window, broker_id),
        causes=_causes(own),
        above_count=_verdict_of(change, verdicts).above_count,
        k=gate.k,
        n=gate.n,
        resolves_at=gate.resolves_at,
        chance_ratio=own["chance_ratio"],
        latency=_latency(run, window, broker_id),
        earlier=tuple(_broker_load(row) for row in run.rows(BROKER_SHARE, (TimeWindow(first_ms, window.start_ms),))),
        partitioners=_partitioners(run, window),
        hot_keys=_hot_keys(run, window, broker_id),
        recommendations=_recommendations(run, window, change.subject),
        arrivals=_arrivals(run, window),
        peak_ratio=own["peak_ratio"],
        idle_ratio=_idle_ratio(run, window, broker_id),
        hours_to_full=_hours_to_full(run, window, change.subject),
        owner=gate.owner or run.cluster.owner,
        time_zone=run.cluster.time_zone,
    )


def _broker_load(row: dict[str, Any]) -> BrokerLoad:
    columns = {field.name: row[field.name] for field in fields(BrokerLoad) if field.name != "window_start_ms"}
    return BrokerLoad(window_start_ms=milliseconds_of(row["window_start"]), **columns)


def _causes(row: dict[str, Any]) -> CauseTerms | None:
    if row["leaders_term"] is None:
        return None
    return CauseTerms(
        leaders=row["leaders_term"],
        topic_mix=row["topic_mix_term"],
        partition_skew=row["partition_skew_term"],
        heavy_keys=row["heavy_keys_term"],
        hash_luck=row["hash_luck_term"],
        remainder=row["remainder_term"],
    )


def _recommendations(run: RunContext, window: TimeWindow, subject: str) -> tuple[Recommendation, ...]:
    """What to do about the subject, by rank."""
    names = {field.name for field in fields(Recommendation)} - {"window_start_ms", "broker_ratios"}
    rows = [row for row in run.rows(RECOMMENDATIONS, (window,)) if row["subject"] == subject]
    return tuple(
        Recommendation(
            window_start_ms=window.start_ms,
            broker_ratios={int(broker_id): ratio for broker_id, ratio in row["broker_ratios"] or ()},
            **{name: row[name] for name in names},
        )
        for row in sorted(rows, key=lambda row: row["rank"])
    )


def _arrivals(run: RunContext, window: TimeWindow) -> tuple[Arrival, ...]:
    """What the sources brought, of those that know what to expect."""
    return tuple(
        Arrival(source=row["source"], arrived_count=row["arrived_count"], expected_count=row["expected_count"])
        for row in sorted(run.rows(WINDOW_STATUS, (window,)), key=lambda row: row["source"])
        if row["expected_count"]
    )


def _idle_ratio(run: RunContext, window: TimeWindow, broker_id: int) -> float | None:
    """How idle the broker's request handlers were; the least, where several sources tell."""
    rows = [row for row in run.rows(BROKER_METRICS, (window,)) if row["broker_id"] == broker_id]
    told = [row["request_handler_idle_ratio"] for row in rows if row["request_handler_idle_ratio"] is not None]
    return min(told, default=None)


def _hours_to_full(run: RunContext, window: TimeWindow, subject: str) -> float | None:
    rows = run.rows(RULE_MEASURES, (window,))
    return next((r["value"] for r in rows if (r["rule"], r["subject"]) == (DISK_RULE, subject)), None)


def _hot_partitions(run: RunContext, window: TimeWindow, broker_id: int) -> tuple[HotPartition, ...]:
    """Partitions the broker leads, those with most bytes above their topic's mean first."""
    led = [
        row
        for row in run.rows(PARTITION_HEALTH, (window,))
        if row["leader_id"] == broker_id and row["ratio_to_mean"] is not None
    ]
    led.sort(key=lambda row: (-row["excess_bytes"], row["topic"], row["partition"]))
    names = [field.name for field in fields(HotPartition)]
    return tuple(HotPartition(**{name: row[name] for name in names}) for row in led)


def _partitioners(run: RunContext, window: TimeWindow) -> dict[str, str]:
    """Strategy in use by topic, of those whose replay found or was told one."""
    rows = run.rows(SCENARIO_COMPARISON, (window,))
    return {row["topic"]: row["baseline"] for row in rows if row["is_baseline"] and row["baseline_source"] != "none"}


def _hot_keys(run: RunContext, window: TimeWindow, broker_id: int) -> tuple[HotKey, ...]:
    """Keys on partitions the broker leads, those that hold most of their topic first."""
    led = {
        (row["topic"], row["partition"])
        for row in run.rows(PARTITION_HEALTH, (window,))
        if row["leader_id"] == broker_id
    }
    rows = [row for row in run.rows(HOT_KEYS, (window,)) if (row["topic"], row["partition"]) in led]
    rows.sort(key=lambda row: (not row["is_heavy"], -row["size_bytes"], row["key"]))
    names = [field.name for field in fields(HotKey)]
    return tuple(HotKey(**{name: row[name] for name in names}) for row in rows)


def _latency(run: RunContext, window: TimeWindow, broker_id: int) -> ProduceLatency | None:
    rows = [row for row in run.rows(LATENCY, (window,)) if row["client_id"] == ALL_CLIENTS]
    own = next((row for row in rows if row["broker_id"] == broker_id), None)
    if own is None or own["request_latency_avg_ms"] is None or not own["ratio_to_peers"]:
        return None
    return ProduceLatency(
        broker_avg_ms=own["request_latency_avg_ms"],
        peers_avg_ms=own["request_latency_avg_ms"] / own["ratio_to_peers"],
        broker_max_ms=own["request_latency_max_ms"],
    )
