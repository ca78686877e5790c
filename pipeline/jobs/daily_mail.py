"""Queues the mail of the day about all clusters, where `mail.daily` asks for it. No Spark."""

from collections import defaultdict

from pipeline.alerting.digest import ClusterDay, describe_day
from pipeline.alerting.message import render_message
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.model.incident import IncidentChange
from pipeline.model.verdict import Verdict
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, milliseconds_of
from pipeline.runs import JobReport
from pipeline.storage.outbox import queue
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.values import values_of
from pipeline.verdicts.rules import find_unjudged

_RECENT = 3  # windows, an hour at least: where none of these is judged, nobody knows how the cluster is


def run(config: PipelineConfig, *, now_ms: int) -> JobReport:
    """Queues it once a day, however often it is called; recordings end at their own `as_of`."""
    ensure_tables(config.warehouse, (VERDICTS, INCIDENTS))
    content = describe_day([_look_at(config, name, now_ms) for name in config.cluster_names], now_ms)
    message = render_message(content, sender=config.mail.sender, recipients=config.mail.to, now_ms=now_ms)
    queue(config.warehouse, message, run_id="day")
    return JobReport(notes=(content.subject_line,))


def _look_at(config: PipelineConfig, name: str, now_ms: int) -> ClusterDay:
    as_of = config.clusters[name].as_of if name in config.clusters else None
    window_ms = milliseconds_of(config.window)
    end_ms = (now_ms if as_of is None else milliseconds_of(as_of)) - milliseconds_of(config.grace)
    end_ms -= end_ms % window_ms
    day_ms = end_ms - DAY_MS
    # not later: a clock that was ahead leaves such windows
    starts_ms = _find_judged(config, name, TimeWindow(day_ms, end_ms + window_ms))
    newest_ms = max(starts_ms or _find_judged(config, name, TimeWindow(0, day_ms)), default=None)
    changes = values_of(IncidentChange, load_rows(config.warehouse, INCIDENTS, cluster=name))
    ended = {one.incident_id for one in changes if not one.is_open}
    changes.sort(key=lambda one: one.window_start_ms)
    last = {one.incident_id: one for one in changes if one.incident_id not in ended}
    still_open = sorted(last.values(), key=lambda one: one.since_ms)
    return ClusterDay(
        cluster=name,
        window_count=DAY_MS // window_ms,
        judged_count=sum(start_ms < end_ms for start_ms in starts_ms),
        newest_ms=newest_ms,
        is_recent=newest_ms is not None and newest_ms >= end_ms - max(HOUR_MS, _RECENT * window_ms),
        open_incidents=tuple(f"{one.subject} ({one.rule.replace('_', ' ')})" for one in still_open),
    )


def _find_judged(config: PipelineConfig, name: str, span: TimeWindow) -> list[int]:
    verdicts: dict[int, list[Verdict]] = defaultdict(list)
    for verdict in values_of(Verdict, load_rows(config.warehouse, VERDICTS, cluster=name, windows=(span,))):
        verdicts[verdict.window_start_ms].append(verdict)
    return [start_ms for start_ms, of_window in verdicts.items() if find_unjudged(of_window) is None]
