"""Delays and variants that metrics and batches leave open, found over Spark: tasks simulate a minute of what is in use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.calibration.service.batch_fit import choose_variant
from pipeline.calibration.service.latency_fit import needs_trial, sharpen_services
from pipeline.calibration.service.trial import SessionTopic
from pipeline.calibration.session_traffic import iter_sessions, select_batches
from pipeline.calibration.within_ms import Pattern
from pipeline.simulator.clients.client import PLACEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.calibration.partitioner.baseline import Baseline
    from pipeline.calibration.service.fit import NodeMetrics
    from pipeline.calibration.service.model import ServiceModel
    from pipeline.replay.calibrated import ReadRows, SessionFinding, SessionKey

LEAST_RECORDS = 1_000
"""Fewer in a window tell too little to be simulated for."""


@dataclass(frozen=True, eq=False)
class RefineTask:
    """A session to be looked at.

    Attributes:
        session: Which.
        findings: Its topics, the one with most records first.
        leaders: By topic and topic id: the id of each partition's leader, or -1.
        models: How long brokers take, as metrics tell it.
        nodes: Those metrics; may be none.
        end_ms: Of the window.
    """

    session: SessionKey
    findings: tuple[SessionFinding, ...]
    leaders: Mapping[tuple[str, str], tuple[int, ...]]
    models: Mapping[int, ServiceModel]
    nodes: tuple[NodeMetrics, ...]
    end_ms: int


@dataclass(frozen=True, eq=False)
class Refined:
    """What came out.

    Attributes:
        session: Which.
        models: How long brokers take.
        baseline: What the session uses.
    """

    session: SessionKey
    models: Mapping[int, ServiceModel]
    baseline: Baseline


def can_refine(findings: Sequence[SessionFinding], models: Mapping[int, ServiceModel]) -> bool:
    """Whether a simulation may tell more: where records without a key go depends on what is open."""
    keyless = sum(finding.keyless_count for finding in findings)
    strategies = {finding.baseline.strategy for finding in findings if finding.keyless_count}
    is_followed = bool(strategies) and strategies <= PLACEMENTS.keys()
    is_bursty = any(finding.row["traffic_pattern"] == Pattern.BURST for finding in findings)
    is_open = "java-builtin" in strategies or any(needs_trial(one, is_bursty=is_bursty) for one in models.values())
    return keyless >= LEAST_RECORDS and is_followed and is_open


def refine_session(task: RefineTask, *, read_arrivals: ReadRows, read_batches: ReadRows) -> Refined:
    """Looks closer at a session.

    Args:
        task: Which, and what is known of it.
        read_arrivals: As `find_sessions` takes it, like the next.
        read_batches: Gives rows of `silver.record_batches`.
    """
    start_ms, producer_id, epoch, *_ = task.session
    arrivals = read_arrivals(start_ms, [(producer_id, epoch)])
    stored = read_batches(start_ms, [(producer_id, epoch)])
    wanted = {(finding.topic, finding.topic_id): finding for finding in task.findings}
    traffics = {(traffic.topic, traffic.topic_id): traffic for traffic in iter_sessions(arrivals)}
    topics = [
        SessionTopic(
            traffics[place], select_batches(stored, traffics[place]), task.leaders[place], f.baseline, f.compression
        )
        for place, f in wanted.items()
        if place in traffics and place in task.leaders
    ]
    models = sharpen_services(topics, task.models, task.nodes, start_ms, task.end_ms)
    return Refined(task.session, models, choose_variant(topics, models, start_ms, task.end_ms))


def take_refined(findings: Iterable[SessionFinding], refined: Mapping[SessionKey, Refined]) -> list[SessionFinding]:
    """The findings with the baselines that came out."""
    return [
        replace(finding, baseline=refined[finding.session].baseline)
        if finding.session in refined and finding.keyless_count
        else finding
        for finding in findings
    ]
