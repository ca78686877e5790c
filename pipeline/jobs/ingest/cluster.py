"""Brokers, partitions, consumer groups, segment files and what was wrong: few rows, through delta-rs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.model.window import instant_of
from pipeline.sources.files.cluster_rows import (
    compacted_topics,
    disk_columns,
    group_row,
    iter_broker_rows,
    iter_cluster_state_rows,
    iter_consumer_group_rows,
    retention_ms,
)
from pipeline.sources.files.file_rows import iter_quarantine_rows, iter_segment_rows
from pipeline.storage.rows import merge_rows
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.jobs.ingest.found import Found
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.sources.source import ClusterReading
    from pipeline.tables import Table


def write_cluster(run: RunContext, reading: ClusterReading, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Brokers, partitions' states and consumer groups, through delta-rs: few rows."""
    fresh = fresh_windows(run, expired.get(reading.record_source, set()))
    fresh_groups = fresh_windows(run, expired.get(reading.group_source, set()))
    name, history = run.cluster_name, reading.history
    disks = disk_columns(reading.replicas, reading.spaces, reading.relative)
    plan: tuple[tuple[Table, Any, tuple[TimeWindow, ...]], ...] = (
        (
            BROKERS,
            iter_broker_rows(name, history, reading.directory_counts, fresh, reading.broker_configs, disks=disks),
            fresh,
        ),
        (
            CLUSTER_STATE,
            iter_cluster_state_rows(name, history, reading.replicas, fresh, reading.relative, moving=reading.moving),
            fresh,
        ),
        (CONSUMER_GROUPS, _group_rows(run, reading, fresh_groups), fresh_groups),
    )
    return {table.name: run.replace(table, rows, windows) for table, rows, windows in plan if windows}


def _group_rows(run: RunContext, reading: ClusterReading, windows: tuple[TimeWindow, ...]) -> Iterator[dict[str, Any]]:
    yield from iter_consumer_group_rows(run.cluster_name, reading.groups, windows)
    last = run.windows[-1]
    if reading.live is not None and last in windows:  # as they are at the run's now, which is in no window
        yield from (group_row(run.cluster_name, last, at_ms, member) for at_ms, member in reading.live.groups)


def merge_files(run: RunContext, found: Found) -> dict[str, int]:
    """Upserts what belongs to files rather than windows: segments and problems."""
    reading = found.reading
    state = reading.history.state_at(run.as_of_ms)
    compacted = compacted_topics(state, reading.tree)
    kept_ms = {
        topic: retention_ms(state.topic_config(topic)) for topic in state.topic_configs if topic not in compacted
    }
    known_ms = {topic: span_ms for topic, span_ms in kept_ms.items() if span_ms is not None}
    segments = list(iter_segment_rows(run.cluster_name, reading.tree, found.summaries, known_ms, reading.relative))
    problems = iter_quarantine_rows(run.cluster_name, found.problems, reading.relative)
    first_seen = ({**row, "first_seen_at": instant_of(run.as_of_ms)} for row in problems)
    scanned = run.table_of(LOG_SEGMENTS, (row for row in segments if row["is_scanned"]))
    # A replica that is not the counted copy, or a file outside the run's windows: known, unless it was read before.
    others = run.table_of(LOG_SEGMENTS, (row for row in segments if not row["is_scanned"]))
    merge_rows(scanned, run.warehouse, LOG_SEGMENTS)
    return {
        LOG_SEGMENTS.name: merge_rows(others, run.warehouse, LOG_SEGMENTS, insert_only=True),
        QUARANTINE.name: merge_rows(run.table_of(QUARANTINE, first_seen), run.warehouse, QUARANTINE, insert_only=True),
    }
