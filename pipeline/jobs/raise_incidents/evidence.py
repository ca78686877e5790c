"""Gathers the evidence on an incident's change from the tables of its window."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.alerting.broker_share import describe_broker_share
from pipeline.alerting.content import Content
from pipeline.alerting.evidence import (
    BrokerShareEvidence,
    HotKey,
    HotPartition,
    IncidentEvidence,
    ProduceLatency,
    ShareCauses,
    excess_by_topic,
)
from pipeline.alerting.incident_mail import describe_rule, describe_source
from pipeline.model.incident import IncidentChange
from pipeline.model.promise import Promise
from pipeline.model.recommendation import Recommendation
from pipeline.model.verdict import BrokerLoad, Verdict
from pipeline.model.window import TimeWindow
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.rules.brokers import DISK_RULE
from pipeline.runs import Row, RunContext
from pipeline.storage.values import value_of
from pipeline.tables.broker_metrics import BROKER_METRICS
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH
from pipeline.tables.health import HOT_KEYS, PROMISES, RECOMMENDATIONS, RULE_MEASURES
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.replay import SCENARIO_COMPARISON
from pipeline.tables.silver import PARTITION_TRAFFIC
from pipeline.verdicts.rules import list_events
from pipeline.verdicts.sources import SourceStatus

EARLIER_WINDOWS = 12
ALL_CLIENTS = "*"


def describe_change(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> Content:
    """Describes a change for its message; the verdicts of its window are among `verdicts`."""
    evidence = gather_evidence(run, change, verdicts)
    if isinstance(evidence, BrokerShareEvidence):
        return describe_broker_share(evidence)
    return describe_source(evidence) if change.rule == SOURCE_ARRIVAL else describe_rule(evidence)


def gather_evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> IncidentEvidence:
    """Gathers the evidence on a change; the verdicts of its window are among `verdicts`."""
    key = (change.window_start_ms, change.rule, change.subject)
    verdict = next(v for v in verdicts if (v.window_start_ms, v.rule, v.subject) == key)
    common: dict[str, Any] = {
        "cluster": run.cluster_name,
        "change": change,
        "window_ms": run.window_ms,
        "as_of_ms": run.as_of_ms,
        "command": run.config.command,
        "reason": verdict.reason,
        "events": tuple(
            said
            for _, said in list_events(
                v for v in verdicts if v.window_start_ms == change.window_start_ms and v is not verdict
            )
        ),
        "owner": run.cluster.owner,
        "time_zone": run.cluster.time_zone,
        "report": run.config.report_link(run.cluster_name, change.window_start_ms),
        "merged": _merged_into(run, change),
    }
    if change.rule == SOURCE_ARRIVAL:
        return IncidentEvidence(**common, limits_at="freshness")
    if change.rule in run.cluster.rules:
        rule = run.cluster.rules[change.rule].of_topic(change.subject.removeprefix("topic "))
        common["owner"] = rule.owner or run.cluster.owner
        return IncidentEvidence(**common, limits_at=f"rules.{change.rule}")
    return _gather(run, common, verdict)


def _merged_into(run: RunContext, change: IncidentChange) -> tuple[str, ...]:
    """Ids that were merged into the incident since it began: they ended in a window of its span."""
    span = TimeWindow(min(change.since_ms, change.window_start_ms), change.window_start_ms + run.window_ms)
    found = run.rows(INCIDENTS, (span,), ("incident_id", "merged_into"))
    return tuple(sorted({row["incident_id"] for row in found if row["merged_into"] == change.incident_id}))


def _gather(run: RunContext, common: dict[str, Any], verdict: Verdict) -> BrokerShareEvidence:
    change, broker_id = common["change"], int(verdict.subject.removeprefix("broker "))
    windows = (run.window_at(verdict.window_start_ms),)
    shares = sorted(run.rows(BROKER_SHARE, windows), key=lambda row: row["broker_id"])
    own = next(row for row in shares if row["broker_id"] == broker_id)
    gate = run.cluster.gate.of_topic(own["excess_topic"] or "")
    first_ms = min(change.since_ms, verdict.window_start_ms) - EARLIER_WINDOWS * run.window_ms
    loads: Counter[tuple[str, int]] = Counter()
    for row in run.rows(PARTITION_TRAFFIC, windows):
        loads[row["topic"], row["leader_id"]] += row["size_bytes"]
    led = [row for row in run.rows(PARTITION_HEALTH, windows) if row["leader_id"] == broker_id]
    return BrokerShareEvidence(
        **common | {"owner": gate.owner or run.cluster.owner},
        broker_id=broker_id,
        limits_at="gate.limit_ratio (gate.topics for one topic)",
        brokers=tuple(value_of(BrokerLoad, row) for row in shares),
        topics=excess_by_topic(loads, broker_id=broker_id, expected_share=own["expected_share"]),
        partitions=_hot_partitions(led),
        causes=None if own["leaders_term"] is None else value_of(ShareCauses, own),
        above_count=verdict.above_count,
        gate=gate,
        chance_ratio=own["chance_ratio"],
        latency=_latency(run, windows, broker_id),
        earlier=tuple(run.values(BrokerLoad, BROKER_SHARE, (TimeWindow(first_ms, verdict.window_start_ms),))),
        partitioners={
            row["topic"]: row["baseline"]
            for row in run.rows(SCENARIO_COMPARISON, windows)
            if row["is_baseline"] and row["baseline_source"] != "none"
        },
        hot_keys=_hot_keys(run, windows, led),
        recommendations=_recommendations(run, windows, verdict.subject),
        promises=_promises(run, change, windows[0].end_ms),
        source_statuses=tuple(
            status
            for status in sorted(run.values(SourceStatus, WINDOW_STATUS, windows), key=lambda one: one.source)
            if status.expected_count
        ),
        peak_ratio=own["peak_ratio"],
        idle_ratio=_idle_ratio(run, windows, broker_id),
        hours_to_full=next(
            (
                row["value"]
                for row in run.rows(RULE_MEASURES, windows)
                if (row["rule"], row["subject"]) == (DISK_RULE, verdict.subject)
            ),
            None,
        ),
    )


def _hot_partitions(led: Sequence[Row]) -> tuple[HotPartition, ...]:
    """Partitions the broker leads, those with most bytes above their topic's mean first."""
    known = [row for row in led if row["ratio_to_mean"] is not None]
    known.sort(key=lambda row: (-row["excess_bytes"], row["topic"], row["partition"]))
    return tuple(value_of(HotPartition, row) for row in known)


def _hot_keys(run: RunContext, windows: Sequence[TimeWindow], led: Sequence[Row]) -> tuple[HotKey, ...]:
    """Keys on partitions the broker leads, those that hold most of their topic first."""
    places = {(row["topic"], row["partition"]) for row in led}
    keys = [key for key in run.values(HotKey, HOT_KEYS, windows) if (key.topic, key.partition) in places]
    return tuple(sorted(keys, key=lambda key: (not key.is_heavy, -key.size_bytes, key.key)))


def _recommendations(run: RunContext, windows: Sequence[TimeWindow], subject: str) -> tuple[Recommendation, ...]:
    """Loads the recommendations on the subject, by rank."""
    rows = [row for row in run.rows(RECOMMENDATIONS, windows) if row["subject"] == subject]
    for row in rows:
        row["broker_ratios"] = {int(broker_id): ratio for broker_id, ratio in row["broker_ratios"] or ()}
    return tuple(value_of(Recommendation, row) for row in sorted(rows, key=lambda row: row["rank"]))


def _promises(run: RunContext, change: IncidentChange, until_ms: int) -> tuple[Promise, ...]:
    """Loads the promises since the incident began."""
    span = TimeWindow(min(change.since_ms, change.window_start_ms), until_ms)
    found = run.values(Promise, PROMISES, (span,))
    return tuple(one for one in found if one.subject == change.subject and one.promised_ms >= change.since_ms)


def _idle_ratio(run: RunContext, windows: Sequence[TimeWindow], broker_id: int) -> float | None:
    """How idle the broker's request handlers were; the least, where several sources report it."""
    rows = [row for row in run.rows(BROKER_METRICS, windows) if row["broker_id"] == broker_id]
    known = [row["request_handler_idle_ratio"] for row in rows if row["request_handler_idle_ratio"] is not None]
    return min(known, default=None)


def _latency(run: RunContext, windows: Sequence[TimeWindow], broker_id: int) -> ProduceLatency | None:
    for row in run.rows(LATENCY, windows):
        if (row["client_id"], row["broker_id"]) == (ALL_CLIENTS, broker_id):
            is_known = row["request_latency_avg_ms"] is not None and row["ratio_to_peers"]
            return value_of(ProduceLatency, row) if is_known else None
    return None
