"""Consumer groups and what was wrong, through delta-rs; brokers, partitions' states and segment files by tasks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.engine import describe_work
from pipeline.jobs.ingest.ingest_input import IngestInput, iter_rows
from pipeline.jobs.ingest.windows import Expired, fresh_windows
from pipeline.model.cluster import LIVE_CLUSTER, retention_ms
from pipeline.model.log import LogName
from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree
from pipeline.model.window import LATEST_MS, TimeWindow, Windows, instant_of
from pipeline.rules.brokers import DISK_MAPS
from pipeline.runs import RunContext, TableRows
from pipeline.sources.files.cluster_rows import (
    compacted_topics,
    describe_window,
    disk_columns,
    iter_broker_rows,
    iter_cluster_state_rows,
    iter_quarantine_rows,
    with_leaders,
)
from pipeline.sources.records.pieces import Kind
from pipeline.sources.source import ClusterReading
from pipeline.stages import map_tasks, read_parts
from pipeline.storage.data_files import merge_frame
from pipeline.storage.files import WRITTEN
from pipeline.storage.rows import insert_rows
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, QUARANTINE
from pipeline.transforms.traffic import join_segments

_NOT_FOR_TASKS: dict[str, Any] = {
    "tree": LogTree(), "groups": (), "groups_now": (), "live": None, "collected": None, "live_partitions": frozenset()
}  # fmt: skip  # fields of a value, several a line
"""Of a reading what no task needs."""
_EPOCH_IS_KNOWN = (pc.field("row_kind") == "window") & (pc.field("leader_epoch") >= 0)
LISTED_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("found_at", "log_directory", "topic", "topic_id", "path")),
        *((name, pa.int64()) for name in ("broker_id", "partition", "base_offset", "size_bytes", "kept_ms")),
        ("is_active", pa.bool_()),
    ]
)  # A segment file as it is listed; `kept_ms` is its `retention.ms`, where known and neither active nor compacted


class _Described(NamedTuple):
    window: TimeWindow
    newest: TimeWindow | None = None  # the window that a live cluster's state was observed for
    is_present: bool = False  # disks and configs, which are of now, belong to it
    is_stored: bool = False  # an earlier run observed it: its rows stay, but for who led at its end


def write_cluster(run: RunContext, given: IngestInput, expired: Expired) -> dict[str, int]:
    """Consumer groups, through delta-rs; brokers and partitions' states by tasks, a window each."""
    reading = given.reading
    observed = _observed_before(run, reading) if reading.live else set()
    gone = expired.get(reading.record_source, set())
    fresh_groups = fresh_windows(run, expired.get(reading.group_source, set()) | _told_before(run, reading))
    versions = {}
    if fresh_groups:
        versions = run.replace(CONSUMER_GROUPS, iter_group_rows(run.cluster_name, reading, fresh_groups), fresh_groups)
    described = [
        *(_Described(one, reading.newest, one == reading.newest) for one in fresh_windows(run, gone | observed)),
        *(_Described(one, is_present=True) for one in _windows_of_now(run, reading)),
        *(_Described(one, is_stored=True) for one in sorted(observed - gone)),
    ]
    if not described:
        return versions
    windows, tables = tuple(one.window for one in described), (BROKERS, CLUSTER_STATE)
    parts = given.parts[Kind.SUMMARIES]
    read = partial(read_parts, parts.folder, parts.schema, parts.paths)
    kernel = run.to_files(partial(_state_rows, run, replace(reading, **_NOT_FOR_TASKS), read), tables, windows)
    states = map_tasks(given.staging.spark, described, kernel, WRITTEN)
    return versions | run.replace_by_files("describe brokers and partitions", states, tables, windows)


def _state_rows(
    run: RunContext, reading: ClusterReading, read: Callable[[pc.Expression], pa.Table], one: _Described
) -> TableRows:
    name, history, windows = run.cluster_name, reading.history, (one.window,)
    epochs: dict[LogName, int] = {}  # the largest among each partition's batches
    told = read(_EPOCH_IS_KNOWN & (pc.field("window_start_ms") == one.window.start_ms))
    for topic, topic_id, partition, epoch in iter_rows(told, *LogName._fields, "leader_epoch"):
        key = LogName(topic, topic_id or "", partition)
        epochs[key] = max(epoch, epochs.get(key, 0))
    known = describe_window(history, one.window, epochs, one.newest)
    if one.is_stored:
        yield BROKERS.name, run.rows(BROKERS, windows)
        yield CLUSTER_STATE.name, with_leaders(run.rows(CLUSTER_STATE, windows), known.state)
        return
    if one.is_present:
        disks, configs = disk_columns(reading.replicas, reading.spaces, reading.relative), reading.broker_configs
    else:  # what they hold now says nothing of then; what an earlier run read stays
        stored = {row["broker_id"]: row for row in run.rows(BROKERS, windows)}
        disks = {of: {name: dict(row[name] or ()) for name in DISK_MAPS} for of, row in stored.items()}
        configs = {of: dict(row["configs"] or ()) for of, row in stored.items()}
    yield BROKERS.name, iter_broker_rows(name, history, reading.directory_counts, known, configs, disks=disks)
    rows = iter_cluster_state_rows(name, reading.replicas, known, reading.relative, moving=reading.moving)
    yield CLUSTER_STATE.name, rows


def _windows_of_now(run: RunContext, reading: ClusterReading) -> tuple[TimeWindow, ...]:
    """The window that holds the moment at which a live cluster was asked, which is not over: a later run adds the rest."""
    if reading.live is None or reading.live.state is None:
        return ()
    at_ms = reading.live.observed_at_ms
    window = run.window_at(at_ms - at_ms % run.window_ms)
    return (window,) if window.start_ms >= run.span.end_ms else ()


def _observed_before(run: RunContext, reading: ClusterReading) -> set[TimeWindow]:
    """Windows that hold the moment at which an earlier run asked, and those it was the newest window of in older versions."""
    rows = run.tuples(BROKERS, run.windows, "window_start_ms", "is_fenced", "observed_ms")
    return {
        window
        for start_ms, is_fenced, asked_ms in rows
        for window in [run.window_at(start_ms)]
        if asked_ms is not None and (asked_ms in window or (is_fenced is not None and window != reading.newest))
    }


def _told_before(run: RunContext, reading: ClusterReading) -> set[TimeWindow]:
    """Windows of which a live cluster told earlier runs what its groups consumed: now it tells what they consume now."""
    if not any(source.kind == LIVE_CLUSTER for source in run.cluster.sources):
        return set()
    told = {at_ms - at_ms % run.window_ms for at_ms, _ in reading.groups}
    told |= {reading.newest.start_ms} if reading.newest and reading.groups_now else set()
    return {run.window_at(start_ms) for start_ms in run.starts_in((CONSUMER_GROUPS,), run.windows) - told}


def iter_group_rows(cluster: str, reading: ClusterReading, windows: Windows) -> Iterator[dict[str, Any]]:
    """What groups consumed, in the window that holds the moment; what brokers answer now, in the newest one."""
    observed = [(window, *one) for one in reading.groups for window in windows if one[0] in window]
    if reading.newest is not None and reading.newest in windows:
        observed += [(reading.newest, *one) for one in reading.groups_now]
    for window, at_ms, member in observed:
        moments = {"window_start": instant_of(window.start_ms), "observed_at": instant_of(at_ms)}
        yield {"cluster": cluster, **moments, **asdict(member)}


def merge_segments(run: RunContext, given: IngestInput) -> dict[str, int]:
    """Segment files, which belong to no window: tasks list those of a log directory each, but for known ones that count not."""
    reading, spark = given.reading, given.staging.spark
    state = reading.history.state_at(run.as_of_ms)
    compacted = compacted_topics(state, reading.tree)
    spans_ms = {topic: retention_ms(state.topic_config(topic)) for topic in {*state.topic_configs} - compacted}
    known_ms = {topic: min(span_ms, LATEST_MS) for topic, span_ms in spans_ms.items() if span_ms is not None}
    kernel = partial(list_segments, known_ms, replace(reading, **_NOT_FOR_TASKS).relative)
    listed = map_tasks(spark, reading.tree.directories, kernel, LISTED_SCHEMA)
    rows = run.fit(LOG_SEGMENTS, join_segments(listed, given.parts[Kind.SUMMARIES].frame()))
    describe_work(f"{run.subject}: {LOG_SEGMENTS.name}")
    merged = merge_frame(spark, rows, run.warehouse, LOG_SEGMENTS, run.cluster_name, replacing="is_scanned")
    return {LOG_SEGMENTS.name: merged}


def merge_problems(run: RunContext, given: IngestInput) -> dict[str, int]:
    problems = iter_quarantine_rows(run.cluster_name, given.problems, given.reading.relative)
    first_seen = ({**row, "first_seen_at": instant_of(run.as_of_ms)} for row in problems)
    rows, of = run.table_of(QUARANTINE, first_seen), (run.cluster_name, run.run_id)
    return {QUARANTINE.name: insert_rows(rows, run.warehouse, QUARANTINE, of=of)}


def list_segments(
    retention_ms: Mapping[str, int], relative: Callable[[str], str], directory: LogDirectory
) -> Iterator[pa.Table]:
    rows = [
        {
            "found_at": segment.path,
            "broker_id": -1 if directory.broker_id is None else directory.broker_id,
            "log_directory": relative(directory.path),
            "topic": partition.topic,
            "topic_id": partition.topic_id or "",
            "partition": partition.partition,
            "base_offset": segment.base_offset or 0,
            "path": relative(segment.path),
            "size_bytes": segment.size_bytes,
            "is_active": segment.is_active,
            "kept_ms": None if segment.is_active else retention_ms.get(partition.topic),
        }
        for partition in directory.partitions
        if partition.kind is DirectoryKind.LIVE
        for segment in partition.segments
    ]
    yield pa.Table.from_pylist(rows, LISTED_SCHEMA)
