"""Queues the mail of the day about all clusters, where `mail.daily` asks for it. No Spark."""

from pipeline.alerting.digest import ClusterDay, describe_day
from pipeline.alerting.message import render_message
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.model.incident import ENDED
from pipeline.model.window import DAY_MS, milliseconds_of
from pipeline.runs import JobReport
from pipeline.storage.outbox import queue
from pipeline.storage.predicates import format_datafusion_text
from pipeline.storage.rows import load_rows, query_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.values import tuples_of

_JUDGED = """
SELECT window_start FROM verdicts WHERE cluster = {cluster} GROUP BY window_start
HAVING NOT bool_or(rule = 'broker_share')
    OR bool_or(rule = 'broker_share' AND verdict NOT IN ('incomplete', 'stale') AND (verdict <> 'not_enough_traffic' OR value IS NOT NULL))
"""
"""Windows of which a share is known. Silence is not well either: no share of a window without records has a value."""


def run(config: PipelineConfig, *, now_ms: int) -> JobReport:
    """Queues it once a day, however often it is called; recordings end at their own `as_of`."""
    ensure_tables(config.warehouse, (VERDICTS, INCIDENTS))
    content = describe_day([_look_at(config, name, now_ms) for name in config.clusters], now_ms)
    message = render_message(content, sender=config.mail.sender, recipients=config.mail.to, now_ms=now_ms)
    queue(config.warehouse, message, run_id="day")
    return JobReport(notes=(content.subject_line,))


def _look_at(config: PipelineConfig, name: str, now_ms: int) -> ClusterDay:
    as_of, window_ms = config.clusters[name].as_of, milliseconds_of(config.window)
    end_ms = (now_ms if as_of is None else milliseconds_of(as_of)) - milliseconds_of(config.grace)
    end_ms -= end_ms % window_ms
    judged = query_rows(config.warehouse, _JUDGED.format(cluster=format_datafusion_text(name)), {"verdicts": VERDICTS})
    starts_ms = [start_ms for (start_ms,) in tuples_of(judged, "window_start_ms")]
    columns = ("incident_id", "state", "rule", "subject", "window_start", "since")
    changes = load_rows(config.warehouse, INCIDENTS, cluster=name, columns=columns).sort_by("window_start").to_pylist()
    ended = {row["incident_id"] for row in changes if row["state"] in ENDED}
    last = {row["incident_id"]: row for row in changes if row["incident_id"] not in ended}
    still_open = sorted(last.values(), key=lambda row: row["since"])
    return ClusterDay(
        cluster=name,
        window_count=DAY_MS // window_ms,
        judged_count=sum(end_ms - DAY_MS <= start_ms < end_ms for start_ms in starts_ms),
        newest_ms=max(starts_ms, default=None),
        open_incidents=tuple(f"{row['subject']} ({row['rule'].replace('_', ' ')})" for row in still_open),
    )
