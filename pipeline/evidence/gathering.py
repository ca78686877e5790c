"""Gathers the evidence on an incident's change from the tables of its window."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
from pipeline.verdicts.rules import list_events

ALL_CLIENTS = "*"
KNOWN_LATENCY = f"client_id = '{ALL_CLIENTS}' AND request_latency_avg_ms IS NOT NULL AND ratio_to_peers <> 0"


def gather_evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> IncidentEvidence:
    """Gathers the evidence on a change; the verdict of its window, or the last before it, is among `verdicts`."""
    own = [v for v in verdicts if (v.rule, v.subject) == (change.rule, change.subject)]
    verdict = max((v for v in own if v.window_start_ms <= change.window_start_ms), key=lambda v: v.window_start_ms)
    others = (v for v in verdicts if v.window_start_ms == change.window_start_ms and v is not verdict)
    # ids that were merged into the incident since it began: they ended in a window of its span
    span = TimeWindow(min(change.since_ms, change.window_start_ms), change.window_start_ms + run.window_ms)
    changes = run.tuples(INCIDENTS, (span,), "incident_id", "merged_into")
    common: dict[str, Any] = {
        "cluster": run.cluster_name,
        "change": change,
        "window_ms": run.window_ms,
        "as_of_ms": run.as_of_ms,
        "command": run.config.command,
        "reason": verdict.reason,
        "events": tuple(text for _, text in list_events(others)),
        "owner": run.cluster.owner,
        "time_zone": run.cluster.time_zone,
        "report": run.config.report_link(run.cluster_name, change.window_start_ms),
        "merged": tuple(sorted({one for one, merged_into in changes if merged_into == change.incident_id})),
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
    brokers = sorted(run.values(BrokerLoad, BROKER_SHARE, windows), key=lambda one: one.broker_id)
    own = next(one for one in brokers if one.broker_id == broker_id)
    gate = run.cluster.gate.of_broker(own)
    is_split = f"broker_id = {broker_id} AND leaders_term IS NOT NULL"
    is_own = f"{KNOWN_LATENCY} AND broker_id = {broker_id}"
    causes = run.values(ShareCauses, BROKER_SHARE, windows, where=is_split)
    loads: Counter[tuple[str, int]] = Counter()
    for topic, leader_id, size in run.tuples(PARTITION_TRAFFIC, windows, "topic", "leader_id", "size_bytes"):
        loads[topic, leader_id] += size
    led = run.values(HotPartition, PARTITION_HEALTH, windows, where=f"leader_id = {broker_id}")
    span = TimeWindow(min(change.since_ms, change.window_start_ms), windows[0].end_ms)
    promises = run.values(Promise, PROMISES, (span,))
    advice = [
        replace(one, broker_ratios={int(broker): ratio for broker, ratio in dict(one.broker_ratios or ()).items()})
        for one in run.values(Recommendation, RECOMMENDATIONS, windows)
        if one.subject == verdict.subject
    ]
    compared = run.tuples(SCENARIO_COMPARISON, windows, "topic", "baseline", "is_baseline", "baseline_source")
    return BrokerShareEvidence(
        **common | {"owner": gate.owner or run.cluster.owner},
        broker_id=broker_id,
        limits_at="gate.limit_ratio (gate.topics for one topic)",
        brokers=tuple(brokers),
        topics=rank_topics(loads, broker_id=broker_id, expected_share=own.expected_share),
        partitions=tuple(led),
        causes=next(iter(causes), None),
        above_count=verdict.above_count,
        gate=gate,
        latency=next(iter(run.values(ProduceLatency, LATENCY, windows, where=is_own)), None),
        partitioners={topic: name for topic, name, is_baseline, source in compared if is_baseline and source != "none"},
        recommendations=tuple(sorted(advice, key=lambda one: one.rank)),
        promises=tuple(one for one in promises if one.subject == change.subject and one.promised_ms >= change.since_ms),
    )
