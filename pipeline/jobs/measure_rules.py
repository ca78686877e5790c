"""Measures what the rules judge: `gold.rule_measures`, from the tables of health and cluster state."""

from collections.abc import Iterator, Sequence
from functools import cache

from pipeline.model.window import TimeWindow
from pipeline.rules import RULES
from pipeline.rules.rule import RuleInput, RuleMeasure
from pipeline.runs import JobReport, Row, RunContext
from pipeline.storage.outages import load_outages
from pipeline.storage.predicates import format_datafusion_instant
from pipeline.tables import Table
from pipeline.tables.bronze import CLUSTER_STATE, LOG_SEGMENTS
from pipeline.tables.health import RULE_MEASURES

_DELETABLE = """
    SELECT segments.*
    FROM segments JOIN (
        SELECT topic, partition, replica_id, min(log_start_offset) AS first_offset FROM state GROUP BY topic, partition, replica_id
    ) AS logs ON logs.topic = segments.topic AND logs.partition = segments.partition AND logs.replica_id = segments.broker_id
    WHERE deletable_at <= {end} AND coalesce(segments.last_offset, segments.base_offset) >= logs.first_offset
"""
"""Few of all segments that ever were: most were deleted since, and lie before their logs' starts."""


def run(run: RunContext, windows: Sequence[TimeWindow]) -> JobReport:
    """Replaces the measures of windows that were scored."""
    if not windows:
        return JobReport()
    version = run.replace(RULE_MEASURES, _measure(run, windows), windows)
    return JobReport(table_versions={RULE_MEASURES.name: version})


def _measure(run: RunContext, windows: Sequence[TimeWindow]) -> Iterator[RuleMeasure]:
    @cache
    def rows(table: Table, history_windows: int) -> Sequence[Row]:
        first_ms = windows[0].start_ms - history_windows * run.window_ms
        return run.rows(table, (TimeWindow(first_ms, windows[-1].end_ms),) if history_windows else windows)

    def deletable_segments() -> Sequence[Row]:
        segments: list[Row] = run.query(
            _DELETABLE.format(end=format_datafusion_instant(windows[-1].end_ms)),
            windows,
            segments=LOG_SEGMENTS,
            state=CLUSTER_STATE,
        ).to_pylist()
        return segments

    given = RuleInput(
        rows=rows,
        deletable_segments=deletable_segments,
        starts_ms=[window.start_ms for window in windows],
        window_ms=run.window_ms,
        disk_bytes=run.cluster.disk_bytes,
        outages=load_outages(run.warehouse, run.cluster_name, windows, run.window_ms),
        broker_zones=run.cluster.zones.brokers,
    )
    for name, rule in RULES.items():
        settings = run.cluster.rules[name]
        for measure in rule.measure(name, given):
            if settings.of_topic(measure.topic).severity != "off":
                yield measure
