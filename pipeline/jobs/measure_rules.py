"""What the rules judge besides shares: `gold.rule_measures`, read off the tables of health and cluster state."""

from __future__ import annotations

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
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS
from pipeline.tables.gold import LATENCY, PARTITION_HEALTH
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.model.rule import RuleMeasure
    from pipeline.runs import RunContext

DISK_HISTORY_WINDOWS = 24


def run(run: RunContext, windows: Sequence[TimeWindow]) -> JobReport:
    """Replaces the measures of windows that were scored."""
    if not windows:
        return JobReport()
    measures = (measure for measure in _measure(run, tuple(windows)) if _is_judged(run, measure))
    return JobReport(table_versions={RULE_MEASURES.name: run.replace(RULE_MEASURES, measures, windows)})


def _is_judged(run: RunContext, measure: RuleMeasure) -> bool:
    return run.cluster.rules[measure.rule].of_topic(measure.topic).severity != "off"


def _measure(run: RunContext, windows: tuple[TimeWindow, ...]) -> Iterator[RuleMeasure]:
    topics = run.rows(TOPIC_HEALTH, windows)
    yield from measure_topics(topics)
    yield from measure_brokers(run.rows(BROKERS, windows))
    yield from measure_latency(run.rows(LATENCY, windows))
    groups = run.rows(CONSUMER_GROUPS, windows)
    if groups:
        yield from measure_groups(groups, run.rows(PARTITION_HEALTH, windows))
    window_ms = run.window_ms
    reach = TimeWindow(windows[0].start_ms - DISK_HISTORY_WINDOWS * window_ms, windows[-1].end_ms)
    starts_ms = [window.start_ms for window in windows]
    yield from measure_disks(
        run.rows(BROKERS, (reach,)), run.cluster.disk_bytes, window_ms=window_ms, starts_ms=starts_ms
    )
    segments = _deletable_segments(run, windows[-1].end_ms)
    state = run.rows(CLUSTER_STATE, windows) if segments else []
    yield from measure_segments(topics, segments, state, {window.start_ms: window.end_ms for window in windows})


def _deletable_segments(run: RunContext, before_ms: int) -> list[dict[str, Any]]:
    """Closed segments whose retention is over by then; few of all that there are."""
    segments = run.load(LOG_SEGMENTS)
    over = pc.less_equal(segments["deletable_at"], pa.scalar(instant_of(before_ms), segments["deletable_at"].type))
    found: list[dict[str, Any]] = segments.filter(over).to_pylist()
    return found
