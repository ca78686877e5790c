"""Gathers the evidence on an incident's change from the tables of its window."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.evidence.incident import (
    BrokerShareEvidence,
    HotPartition,
    IncidentEvidence,
    ProduceLatency,
    ShareCauses,
    rank_topics,
)
from pipeline.model.incident import IncidentChange
from pipeline.model.promise import Promise, Recommendation
from pipeline.model.verdict import BrokerLoad, Verdict
from pipeline.model.window import TimeWindow
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.runs import RunContext
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH
from pipeline.tables.health import PROMISES, RECOMMENDATIONS
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.replay import SCENARIO_COMPARISON
from pipeline.tables.silver import PARTITION_TRAFFIC
from pipeline.tables.values import value_of
from pipeline.verdicts.rules import list_events

ALL_CLIENTS = "*"


def gather_evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> IncidentEvidence:
    """Gathers the evidence on a change; the verdicts of its window are among `verdicts`."""
    key = (change.window_start_ms, change.rule, change.subject)
    verdict = next(v for v in verdicts if (v.window_start_ms, v.rule, v.subject) == key)
    # ids that were merged into the incident since it began: they ended in a window of its span
    span = TimeWindow(min(change.since_ms, change.window_start_ms), change.window_start_ms + run.window_ms)
    changes = run.rows(INCIDENTS, (span,), ("incident_id", "merged_into"))
    common: dict[str, Any] = {
        "cluster": run.cluster_name,
        "change": change,
        "window_ms": run.window_ms,
        "as_of_ms": run.as_of_ms,
        "command": run.config.command,
        "reason": verdict.reason,
        "events": tuple(
            text
            for _, text in list_events(
                v for v in verdicts if v.window_start_ms == change.window_start_ms and v is not verdict
            )
        ),
        "owner": run.cluster.owner,
        "time_zone": run.cluster.time_zone,
        "report": run.config.report_link(run.cluster_name, change.window_start_ms),
        "merged": tuple(sorted({row["incident_id"] for row in changes if row["merged_into"] == change.incident_id})),
    }
    if change.rule == SOURCE_ARRIVAL:
        return IncidentEvidence(**common, limits_at="freshness")
    if change.rule in run.cluster.rules:
        rule = run.cluster.rules[change.rule].of_topic(change.subject.removeprefix("topic "))
        common["owner"] = rule.owner or run.cluster.owner
        return IncidentEvidence(**common, limits_at=f"rules.{change.rule}")
    return _gather(run, common, verdict)


def _gather(run: RunContext, common: dict[str, Any], verdict: Verdict) -> BrokerShareEvidence:
    change, broker_id = common["change"], int(verdict.subject.removeprefix("broker "))
    windows = (run.window_at(verdict.window_start_ms),)
    shares = sorted(run.rows(BROKER_SHARE, windows), key=lambda row: row["broker_id"])
    own = next(row for row in shares if row["broker_id"] == broker_id)
    gate = run.cluster.gate.of_topic(own["excess_topic"])
    loads: Counter[tuple[str, int]] = Counter()
    for row in run.rows(PARTITION_TRAFFIC, windows):
        loads[row["topic"], row["leader_id"]] += row["size_bytes"]
    # loads the promises since the incident began
    span = TimeWindow(min(change.since_ms, change.window_start_ms), windows[0].end_ms)
    promises = run.values(Promise, PROMISES, (span,))
    # loads the recommendations on the subject, by rank
    rows = [row for row in run.rows(RECOMMENDATIONS, windows) if row["subject"] == verdict.subject]
    for row in rows:
        row["broker_ratios"] = {int(broker_id): ratio for broker_id, ratio in row["broker_ratios"] or ()}
    return BrokerShareEvidence(
        **common | {"owner": gate.owner or run.cluster.owner},
        broker_id=broker_id,
        limits_at="gate.limit_ratio (gate.topics for one topic)",
        brokers=tuple(value_of(BrokerLoad, row) for row in shares),
        topics=rank_topics(loads, broker_id=broker_id, expected_share=own["expected_share"]),
        partitions=tuple(
            value_of(HotPartition, row) for row in run.rows(PARTITION_HEALTH, windows) if row["leader_id"] == broker_id
        ),
        causes=None if own["leaders_term"] is None else value_of(ShareCauses, own),
        above_count=verdict.above_count,
        gate=gate,
        latency=_latency(run, windows, broker_id),
        partitioners={
            row["topic"]: row["baseline"]
            for row in run.rows(SCENARIO_COMPARISON, windows)
            if row["is_baseline"] and row["baseline_source"] != "none"
        },
        recommendations=tuple(value_of(Recommendation, row) for row in sorted(rows, key=lambda row: row["rank"])),
        promises=tuple(one for one in promises if one.subject == change.subject and one.promised_ms >= change.since_ms),
    )


def _latency(run: RunContext, windows: Sequence[TimeWindow], broker_id: int) -> ProduceLatency | None:
    for row in run.rows(LATENCY, windows):
        if (row["client_id"], row["broker_id"]) == (ALL_CLIENTS, broker_id):
            is_known = row["request_latency_avg_ms"] is not None and row["ratio_to_peers"]
            return value_of(ProduceLatency, row) if is_known else None
    return None
