"""Sessions whose delays or variant are open, looked at by simulation; what metrics tell is taken where they are not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pipeline.calibration.partitioner.settings import settle_linger
from pipeline.jobs.replay.sessions import count_tasks, read_sessions
from pipeline.replay.calibrated import ARRIVAL_COLUMNS, BATCH_COLUMNS
from pipeline.replay.refined import RefineTask, can_refine, refine_session, take_refined
from pipeline.storage.files import list_files
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.silver import RECORD_BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from pipeline.jobs.replay.services import SessionServices
    from pipeline.model.window import TimeWindow
    from pipeline.replay.calibrated import SessionFinding, SessionKey
    from pipeline.replay.results import ClusterFacts
    from pipeline.runs import RunContext


def refine(
    spark: SparkSession,
    run: RunContext,
    windows: Sequence[TimeWindow],
    *,
    findings: Sequence[SessionFinding],
    services: Mapping[SessionKey, SessionServices],
    cluster: ClusterFacts,
) -> tuple[list[SessionFinding], dict[SessionKey, SessionServices]]:
    """Looks closer at the sessions whose delays or variant are open.

    Args:
        spark: Session.
        run: What the run is about.
        windows: Which windows.
        findings: Sessions.
        services: What metrics say about them.
        cluster: Leaders.

    Returns:
        Findings and services, sharper where that was possible.
    """
    findings = [_settle_linger(finding, services[finding.session]) for finding in findings]
    tasks = _list_tasks(run, findings, services, cluster)
    if not tasks:
        return findings, dict(services)
    arrivals = list_files(run.warehouse, ARRIVALS, run.cluster_name, windows)
    batches = list_files(run.warehouse, RECORD_BATCHES, run.cluster_name, windows)
    refine = partial(
        refine_session,
        read_arrivals=partial(read_sessions, arrivals, ARRIVAL_COLUMNS),
        read_batches=partial(read_sessions, batches, BATCH_COLUMNS, every_epoch=True),
    )
    spread = spark.sparkContext.parallelize(tasks, min(len(tasks), count_tasks(spark)))
    refined = {one.session: one for one in spread.map(refine).collect()}
    sharper = {
        session: replace(found, models=refined[session].models) if session in refined else found
        for session, found in services.items()
    }
    return take_refined(findings, refined), sharper


def _settle_linger(finding: SessionFinding, services: SessionServices) -> SessionFinding:
    baseline = settle_linger(finding.baseline, services.queue_time_ms, services.under_way)
    return finding if baseline is finding.baseline else replace(finding, baseline=baseline)


def _list_tasks(
    run: RunContext,
    findings: Sequence[SessionFinding],
    services: Mapping[SessionKey, SessionServices],
    cluster: ClusterFacts,
) -> list[RefineTask]:
    by_session: dict[SessionKey, list[SessionFinding]] = {}
    for finding in findings:
        by_session.setdefault(finding.session, []).append(finding)
    tasks = []
    for session, found in by_session.items():
        own = services[session]
        if can_refine(found, own.models):
            largest_first = tuple(sorted(found, key=lambda f: (-f.keyless_count, f.topic, f.topic_id)))
            led = {(f.topic, f.topic_id): cluster.leaders[session[0], f.topic, f.topic_id] for f in found}
            leaders = {place: tuple(by.get(p, -1) for p in range(max(by) + 1)) for place, by in led.items()}
            end_ms = session[0] + run.window_ms
            tasks.append(RefineTask(session, largest_first, leaders, own.models, own.nodes, end_ms))
    return tasks
