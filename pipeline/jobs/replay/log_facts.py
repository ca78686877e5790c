"""What the tables say of topics' logs in some windows: offsets that are gone, leaders that moved, minutes without a record."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pipeline.model.window import MINUTE_MS, milliseconds_of
from pipeline.replay.concerns import LogFacts
from pipeline.storage.files import iter_file_rows, list_files
from pipeline.storage.rows import load_rows
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.bronze import CLUSTER_STATE
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.jobs.replay.simulation import TopicWindow
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext

_MINUTES = ("window_start", "topic", "topic_id", "minute_start")
_STARTS = ("window_start", "topic", "topic_id", "partition", "log_start_offset")


def load_log_facts(run: RunContext, windows: Sequence[TimeWindow]) -> dict[TopicWindow, LogFacts]:
    """Facts of every topic with traffic.

    Args:
        run: What the run is about.
        windows: Which windows.
    """
    traffic: dict[TopicWindow, list[dict[str, Any]]] = defaultdict(list)
    for row in load_rows(run.warehouse, PARTITION_TRAFFIC, cluster=run.cluster_name, windows=windows).to_pylist():
        traffic[place_of(row)].append(row)
    starts = _load_starts(run, windows)
    minutes = _list_minutes(run, windows)
    expected = run.window_ms // MINUTE_MS
    return {
        place: _sum_up(rows, starts.get(place, {}), max(0, expected - len(minutes[place])) if minutes[place] else 0)
        for place, rows in traffic.items()
    }


def _sum_up(rows: Sequence[Mapping[str, Any]], starts: Mapping[int, int], empty_minute_count: int) -> LogFacts:
    leaders: dict[int, set[tuple[int, int]]] = defaultdict(set)
    first: dict[int, int] = {}
    for row in rows:
        leaders[row["partition"]].add((row["leader_id"], row["leader_epoch"]))
        first[row["partition"]] = min(row["first_offset"], first.get(row["partition"], row["first_offset"]))
    return LogFacts(
        missing_count=sum(row["missing_offset_count"] for row in rows),
        compacted_count=sum(row["compacted_record_count"] for row in rows),
        is_compacted=any(row["is_compacted"] for row in rows),
        crc_error_count=sum(row["crc_error_count"] for row in rows),
        late_starts=tuple(sorted(p for p, offset in first.items() if 0 < offset == starts.get(p))),
        moved=tuple(sorted(p for p, found in leaders.items() if len(found) > 1)),
        empty_minute_count=empty_minute_count,
    )


def _load_starts(run: RunContext, windows: Sequence[TimeWindow]) -> dict[TopicWindow, dict[int, int]]:
    """The least offset that some replica holds, by partition."""
    starts: dict[TopicWindow, dict[int, int]] = defaultdict(dict)
    state = load_rows(run.warehouse, CLUSTER_STATE, cluster=run.cluster_name, windows=windows)
    for row in state.select(list(_STARTS)).to_pylist():
        offset, partitions = row["log_start_offset"], starts[place_of(row)]
        if offset is not None:
            partitions[row["partition"]] = min(offset, partitions.get(row["partition"], offset))
    return starts


def _list_minutes(run: RunContext, windows: Sequence[TimeWindow]) -> dict[TopicWindow, set[int]]:
    """Minutes of the windows that hold records of a topic."""
    span = {window.start_ms: window.end_ms for window in windows}
    minutes: dict[TopicWindow, set[int]] = defaultdict(set)
    for path in list_files(run.warehouse, ARRIVALS, run.cluster_name, windows):
        for row in _iter_rows(path):
            place, minute_ms = place_of(row), milliseconds_of(row["minute_start"])
            if place[0] in span and place[0] <= minute_ms < span[place[0]]:
                minutes[place].add(minute_ms)
    return minutes


def _iter_rows(path: str) -> Iterable[dict[str, Any]]:
    return (row for batch in iter_file_rows(path, _MINUTES) for row in batch.to_pylist())


def place_of(row: Mapping[str, Any]) -> TopicWindow:
    """Which topic in which window a row of a table is about."""
    return milliseconds_of(row["window_start"]), row["topic"], row["topic_id"]
