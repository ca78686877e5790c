"""What the rules judge besides shares: `gold.rule_measures`, read off the tables of health and cluster state."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.measures.rule_measures import (
    measure_brokers,
    measure_disks,
    measure_groups,
    measure_latency,
    measure_segments,
    measure_topics,
)
from pipeline.model.window import TimeWindow, instant_of
from pipeline.runs import JobReport
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS
from pipeline.tables.gold import LATENCY, PARTITION_HEALTH
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.model.rule import RuleMeasure
    from pipeline.runs import RunContext
    from pipeline.tables import Table

JOB = "measure_rules"
DISK_HISTORY_WINDOWS = 24


def run(run: RunContext, windows: Sequence[TimeWindow]) -> JobReport:
    """Replaces the windows' measures.

    Args:
        run: What the run is about.
        windows: Windows that were scored.
    """
    if not windows:
        return JobReport(job=JOB)
    values = (_row(run, measure) for measure in _measure(run, tuple(windows)) if _is_judged(run, measure))
    rows = rows_of(RULE_MEASURES, values, run_id=run.run_id)
    version = replace_rows(rows, run.warehouse, RULE_MEASURES, cluster=run.cluster_name, windows=tuple(windows))
    return JobReport(job=JOB, table_versions={RULE_MEASURES.name: version})


def _is_judged(run: RunContext, measure: RuleMeasure) -> bool:
    return run.cluster.rules[measure.rule].of_topic(measure.topic).severity != "off"


def _measure(run: RunContext, windows: tuple[TimeWindow, ...]) -> Iterator[RuleMeasure]:
    topics = _rows(run, TOPIC_HEALTH, windows)
    yield from measure_topics(topics)
    yield from measure_brokers(_rows(run, BROKERS, windows))
    yield from measure_latency(_rows(run, LATENCY, windows))
    groups = _rows(run, CONSUMER_GROUPS, windows)
    if groups:
        yield from measure_groups(groups, _rows(run, PARTITION_HEALTH, windows))
    window_ms = run.window_ms
    reach = TimeWindow(windows[0].start_ms - DISK_HISTORY_WINDOWS * window_ms, windows[-1].end_ms)
    starts_ms = [window.start_ms for window in windows]
    disks = _rows(run, BROKERS, (reach,))
    yield from measure_disks(disks, run.cluster.disk_bytes, window_ms=window_ms, starts_ms=starts_ms)
    segments = _deletable_segments(run, windows[-1].end_ms)
    state = _rows(run, CLUSTER_STATE, windows) if segments else []
    yield from measure_segments(topics, segments, state, {window.start_ms: window.end_ms for window in windows})


def _deletable_segments(run: RunContext, before_ms: int) -> list[dict[str, Any]]:
    """Closed segments whose retention is over by then; few of all that there are."""
    segments = load_rows(run.warehouse, LOG_SEGMENTS, cluster=run.cluster_name)
    over = pc.less_equal(segments["deletable_at"], pa.scalar(instant_of(before_ms), segments["deletable_at"].type))
    found: list[dict[str, Any]] = segments.filter(over).to_pylist()
    return found


def _rows(run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load_rows(run.warehouse, table, cluster=run.cluster_name, windows=windows).to_pylist()
    return rows


def _row(run: RunContext, measure: RuleMeasure) -> dict[str, Any]:
    columns = asdict(measure)
    return {"cluster": run.cluster_name, "window_start": instant_of(columns.pop("window_start_ms")), **columns}
