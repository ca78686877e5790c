"""Which windows a run replaces, which it keeps, and the rows that vouch for them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.model.window import instant_of
from pipeline.sources.availability import iter_availability
from pipeline.storage.window_status import collect_coverage, windows_to_keep
from pipeline.tables.bronze import WINDOW_STATUS

if TYPE_CHECKING:
    from pipeline.jobs.ingest.found import Found
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.storage.window_status import StoredWindows


def list_expired_windows(run: RunContext, found: Found, stored: StoredWindows) -> dict[str, set[TimeWindow]]:
    """Per source, the committed windows it now gives less for than is stored."""
    expired: dict[str, set[TimeWindow]] = defaultdict(set)
    rows = ({**row, "window_start": instant_of(row["window_start_ms"])} for row in found.window_rows())
    coverage = collect_coverage(rows, run.windows)
    record_source = found.reading.record_source
    expired[record_source] = windows_to_keep(stored.traffic, coverage, stored.windows)
    for (source, window), row_count in stored.row_counts.items():
        if source != record_source and found.row_counts[source, window] < row_count:
            expired[source].add(window)
    return expired


def fresh_windows(run: RunContext, stale: set[TimeWindow]) -> tuple[TimeWindow, ...]:
    """The run's windows that are replaced."""
    return tuple(window for window in run.windows if window not in stale)


def commit_windows(
    run: RunContext,
    found: Found,
    stored: StoredWindows,
    expired: dict[str, set[TimeWindow]],
    versions: dict[str, int],
) -> int:
    """Writes `bronze.window_status`, last: from here on readers see the windows."""
    newest_ms = max((row["max_timestamp_ms"] for row in found.window_rows()), default=None)
    rows = []
    for window, source, available in iter_availability(
        run.cluster, found.reading, run.windows, newest_ms, listed=found.metrics.listed, samples=found.arrivals
    ):
        is_expired = window in expired.get(source, set())
        counts = stored.row_counts if is_expired else found.row_counts
        # A kept window's row goes on to vouch for what had arrived when its rows were stored.
        arrived_before = stored.arrivals.get((source, window)) if is_expired else None
        rows.append(
            {
                "window_start": instant_of(window.start_ms),
                "window_end": instant_of(window.end_ms),
                "row_count": counts.get((source, window), 0),
                "problem_count": len(found.problems.get(source, ())),
                "as_of": instant_of(run.as_of_ms),
                "source_expired": is_expired,
                "table_versions": versions,
                "committed_at": instant_of(run.now_ms),
                "source": source,
                "expected_count": available.expected_count,
                "arrived_count": available.arrived_count,
                "missing": available.missing or None,
                "newest_at": None if available.newest_ms is None else instant_of(available.newest_ms),
                **(arrived_before._asdict() if arrived_before else {}),
            }
        )
    return run.replace(WINDOW_STATUS, rows, run.windows)


def describe_kept(expired: dict[str, set[TimeWindow]]) -> tuple[str, ...]:
    """What a run says of windows it kept."""
    return tuple(
        f"{source}: {len(windows)} stored windows kept, the source now holds less (--force replaces them)"
        for source, windows in expired.items()
        if windows
    )
