"""Brokers, consumer groups, segment files and what was wrong, through delta-rs; partitions' states by tasks."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pipeline.jobs.ingest.ingest_input import IngestInput
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.model.cluster import ClusterHistory
from pipeline.model.log_tree import LogTree
from pipeline.model.window import TimeWindow, instant_of, milliseconds_of
from pipeline.model.window_state import PartitionKey
from pipeline.runs import RunContext, TableRows
from pipeline.sources.files.cluster_rows import (
    WindowState,
    compacted_topics,
    disk_columns,
    iter_broker_rows,
    iter_cluster_state_rows,
    list_window_states,
    retention_ms,
    with_leaders,
)
from pipeline.sources.files.file_rows import (
    group_row,
    iter_consumer_group_rows,
    iter_quarantine_rows,
    iter_segment_rows,
)
from pipeline.sources.source import ClusterReading
from pipeline.stages import map_tasks
from pipeline.storage.file_writer import WRITTEN
from pipeline.storage.rows import merge_rows
from pipeline.tables import Table
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, QUARANTINE


class _Described(NamedTuple):
    """A window whose rows are written, and what its batches prove; a task computes the cluster's state at its end."""

    window: TimeWindow
    epochs: Mapping[PartitionKey, int]  # the largest leader epoch among each partition's batches
    newest: TimeWindow | None = None  # the window that a live cluster's state was observed for
    is_stored: bool = False  # an earlier run observed it: its rows stay, but for who led at its end

    def find_state(self, history: ClusterHistory) -> WindowState:
        (known,) = list_window_states(history, (self.window,), {self.window.start_ms: self.epochs}, self.newest)
        return known


def write_cluster(run: RunContext, given: IngestInput, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Brokers and consumer groups, through delta-rs: few rows; partitions' states by tasks, window by window."""
    reading = given.reading
    observed = _observed_before(run, reading) if reading.live else set()
    gone = expired.get(reading.record_source, set())
    fresh = fresh_windows(run, gone | observed)
    now = _windows_of_now(run, reading)
    again = tuple(sorted(observed - gone))
    fresh_groups = fresh_windows(run, expired.get(reading.group_source, set()))
    epochs = _newest_epochs(given)
    described = [
        *(_Described(window, epochs.get(window.start_ms, {}), reading.newest) for window in fresh),
        *(_Described(window, {}) for window in now),
    ]
    plan: tuple[tuple[Table, Any, tuple[TimeWindow, ...]], ...] = (
        (BROKERS, _broker_rows(run.cluster_name, reading, described, {reading.newest, *now}), (*fresh, *now)),
        (CONSUMER_GROUPS, _group_rows(run, reading, fresh_groups), fresh_groups),
    )
    versions = {table.name: run.replace(table, rows, windows) for table, rows, windows in plan if windows}
    described += [_Described(window, epochs.get(window.start_ms, {}), is_stored=True) for window in again]
    if not described:
        return versions
    windows = tuple(one.window for one in described)
    of_partitions = replace(reading, tree=LogTree(), groups=(), groups_now=(), live=None, collected=None)
    work = partial(_state_rows, run, of_partitions)
    kernel = run.to_files(work, (CLUSTER_STATE,), windows)
    states = map_tasks(given.staging.spark, described, kernel, WRITTEN)
    return versions | run.replace_by_files("describe partitions", states, (CLUSTER_STATE,), windows)


def _state_rows(run: RunContext, reading: ClusterReading, one: _Described) -> TableRows:
    """Kernel: rows of one window."""
    known, name = one.find_state(reading.history), run.cluster_name
    if one.is_stored:
        yield CLUSTER_STATE.name, with_leaders(run.rows(CLUSTER_STATE, (one.window,)), known.state)
    else:
        rows = iter_cluster_state_rows(name, reading.replicas, (known,), reading.relative, moving=reading.moving)
        yield CLUSTER_STATE.name, rows


def _windows_of_now(run: RunContext, reading: ClusterReading) -> tuple[TimeWindow, ...]:
    """The window that holds the moment at which a live cluster was asked, which is not over: a later run adds the rest."""
    if reading.live is None or reading.live.state is None:
        return ()
    at_ms = reading.live.observed_at_ms
    window = run.window_at(at_ms - at_ms % run.window_ms)
    return (window,) if window.start_ms >= run.span.end_ms else ()


def _broker_rows(
    name: str, reading: ClusterReading, described: Sequence[_Described], present: Collection[TimeWindow | None]
) -> Iterator[dict[str, Any]]:
    """Rows of brokers; volumes and configs are of now, and belong to the windows that the present state is of."""
    for one in described:
        is_present = one.window in present
        disks = disk_columns(reading.replicas, reading.spaces if is_present else {}, reading.relative)
        configs = reading.broker_configs if is_present else {}
        state = one.find_state(reading.history)
        yield from iter_broker_rows(name, reading.history, reading.directory_counts, [state], configs, disks=disks)


def _observed_before(run: RunContext, reading: ClusterReading) -> set[TimeWindow]:
    """Windows that hold the moment at which an earlier run asked, and those it was the newest window of in older versions."""
    observed = set()
    for row in run.rows(BROKERS, run.windows, ("window_start", "is_fenced", "observed_at")):
        if row["observed_at"] is None:
            continue
        window = run.window_at(milliseconds_of(row["window_start"]))
        is_inside = milliseconds_of(row["observed_at"]) in window
        if is_inside or (row["is_fenced"] is not None and window != reading.newest):
            observed.add(window)
    return observed


def _newest_epochs(given: IngestInput) -> dict[int, dict[PartitionKey, int]]:
    """By window's start, the largest leader epoch among the batches of each partition."""
    epochs: dict[int, dict[PartitionKey, int]] = defaultdict(dict)
    for row in given.window_rows():
        if row.get("leader_epoch") is not None and row["leader_epoch"] >= 0:
            of_window, key = epochs[row["window_start_ms"]], (row["topic"], row["topic_id"] or "", row["partition"])
            of_window[key] = max(row["leader_epoch"], of_window.get(key, 0))
    return epochs


def _group_rows(run: RunContext, reading: ClusterReading, windows: tuple[TimeWindow, ...]) -> Iterator[dict[str, Any]]:
    yield from iter_consumer_group_rows(run.cluster_name, reading.groups, windows)
    newest = reading.newest
    if newest is not None and newest in windows:
        yield from (group_row(run.cluster_name, newest, at_ms, member) for at_ms, member in reading.groups_now)


def merge_files(run: RunContext, given: IngestInput) -> dict[str, int]:
    """Upserts what belongs to files rather than windows: segments and problems."""
    reading = given.reading
    state = reading.history.state_at(run.as_of_ms)
    compacted = compacted_topics(state, reading.tree)
    kept_ms = {
        topic: retention_ms(state.topic_config(topic)) for topic in state.topic_configs if topic not in compacted
    }
    known_ms = {topic: span_ms for topic, span_ms in kept_ms.items() if span_ms is not None}
    segments = list(iter_segment_rows(run.cluster_name, reading.tree, given.summaries, known_ms, reading.relative))
    problems = iter_quarantine_rows(run.cluster_name, given.problems, reading.relative)
    first_seen = ({**row, "first_seen_at": instant_of(run.as_of_ms)} for row in problems)
    scanned = run.table_of(LOG_SEGMENTS, (row for row in segments if row["is_scanned"]))
    # A replica that is not the counted copy, or a file outside the run's windows: known, unless it was read before.
    others = run.table_of(LOG_SEGMENTS, (row for row in segments if not row["is_scanned"]))
    merge_rows(scanned, run.warehouse, LOG_SEGMENTS)
    return {
        LOG_SEGMENTS.name: merge_rows(others, run.warehouse, LOG_SEGMENTS, insert_only=True),
        QUARANTINE.name: merge_rows(run.table_of(QUARANTINE, first_seen), run.warehouse, QUARANTINE, insert_only=True),
    }
