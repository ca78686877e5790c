"""Which windows are committed, and whether a rerun may replace them. No Spark: `bronze.window_status` is small.

It is written last. Readers leave out windows without a row, or of which a table has fewer commits than the row says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.storage import Folder
from pipeline.model.window import DAY_MS, TimeWindow, Windows, format_instant
from pipeline.storage.durability import find_version, has_table, open_table
from pipeline.storage.predicates import format_datafusion_text
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, read_commit_info, table_path
from pipeline.tables import TABLES
from pipeline.tables.bronze import NOT_AS_HOSTS_SAY, WINDOW_STATUS
from pipeline.tables.values import tuples_of

_BOUNDS = ("window_start", "window_end")
_VERSIONS = "table_versions"
_LOOKED_AT = 100  # commits since a cluster's newest one in which a `RESTORE` is looked for: each is a file
MOST_TRIES = 6
"""Commits of a window, those of Airflow's tries too, after which no run takes it up: what fails each time is left alone."""


class StoredAvailability(NamedTuple):
    expected_count: int | None
    arrived_count: int
    missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWindows:
    windows: frozenset[TimeWindow] = frozenset()
    row_counts: Mapping[tuple[str, TimeWindow], int] = field(default_factory=dict)  # by source and window, as the next
    availability: Mapping[tuple[str, TimeWindow], StoredAvailability] = field(default_factory=dict)
    tries: Mapping[TimeWindow, int] = field(default_factory=dict)  # in vain, by window


def committed_windows(warehouse: Folder, cluster: str, windows: Windows = ()) -> frozenset[TimeWindow]:
    return _windows(_status_rows(warehouse, cluster, windows, _BOUNDS))


def lost_windows(
    warehouse: Folder, cluster: str, before: TimeWindow, most_count: int
) -> tuple[tuple[TimeWindow, ...], ...]:
    """Windows before one, not before the first committed one, that no data gate passed in `MOST_TRIES`, in stretches without a gap."""
    path = table_path(warehouse, WINDOW_STATUS)
    if not has_table(path):
        return ()  # the first run of all
    ensure_tables(warehouse, (WINDOW_STATUS,))  # an older one has no `tries`
    window_ms = before.end_ms - before.start_ms
    starts_ms = range(before.start_ms - most_count * window_ms, before.start_ms, window_ms)
    # whole dates: older ones are partitions
    reach = TimeWindow(max(0, starts_ms.start) // DAY_MS * DAY_MS, before.end_ms)
    rows = _status_rows(warehouse, cluster, (reach,), (*_BOUNDS, "is_trusted", "tries"))
    settled = _windows(rows.filter(pc.field("is_trusted") | (pc.field("tries") >= MOST_TRIES)))
    dates = [str(one["window_date"]) for one in open_table(path).partitions() if one["cluster"] == cluster]
    is_older = min(dates, default="9") < format_instant(reach.start_ms)[:10]
    committed = _windows(rows)
    first_ms = 0 if is_older else min(committed, default=before).start_ms
    others = [other for other in committed if other.duration_ms != window_ms]  # of before `window` was changed
    windows = [
        TimeWindow(start_ms, start_ms + window_ms)
        for start_ms in starts_ms
        if start_ms >= first_ms and not any(o.start_ms < start_ms + window_ms and start_ms < o.end_ms for o in others)
    ]
    stretches = groupby(windows, lambda window: window in settled)
    return tuple(tuple(stretch) for is_settled, stretch in stretches if not is_settled)


def trusted_windows(warehouse: Folder, cluster: str, windows: Windows = ()) -> frozenset[TimeWindow]:
    rows = _status_rows(warehouse, cluster, windows, (*_BOUNDS, "is_trusted"))
    return _windows(rows.filter(rows["is_trusted"]))


def windows_in_doubt(warehouse: Folder, cluster: str, windows: Windows) -> frozenset[TimeWindow]:
    """The windows of which a host, no metrics server, has lost parts or others than it counted: a table may lack some."""
    rows = _status_rows(warehouse, cluster, windows, (*_BOUNDS, "missing", "source"))
    own = rows.filter(pc.field("source") == "collected")
    return _windows(own.filter(pc.match_substring(own["missing"], NOT_AS_HOSTS_SAY)))


def trust_windows(warehouse: Folder, cluster: str, windows: Windows, *, run_id: str = "") -> None:
    """Notes that the data gate passed over these windows, or over those of them that a run committed last."""
    is_own = f"run_id = {format_datafusion_text(run_id)}" if run_id else ""
    rows = load_rows(warehouse, WINDOW_STATUS, cluster=cluster, windows=windows, columns=_BOUNDS, where=is_own)
    if own := sorted(_windows(rows) & set(windows)):
        _mark(warehouse, cluster, own, is_trusted=True)


def withdraw_trust(warehouse: Folder, cluster: str, windows: Windows) -> None:
    """Notes that windows are about to be replaced: a run that dies half-way leaves none of them trusted."""
    trusted = sorted(trusted_windows(warehouse, cluster, windows) & set(windows))
    if trusted:  # else no commit is made
        _mark(warehouse, cluster, trusted, is_trusted=None)


def withdraw_lost(warehouse: Folder, cluster: str, span: TimeWindow) -> None:
    """Notes for good that a table was restored to before some windows: commits to come take the numbers of those that are gone."""
    columns = (*_BOUNDS, _VERSIONS)
    rows = load_rows(warehouse, WINDOW_STATUS, cluster=cluster, windows=(span,), columns=columns, where="is_trusted")
    if lost := sorted(_windows(rows) - _windows(_keep_vouched(warehouse, rows, _find_restored))):
        _mark(warehouse, cluster, lost, is_trusted=None)


def _find_restored(path: Folder, vouched: int) -> int:
    """The newest version of a table, or the one before `vouched` to which one of the newest commits restored it."""
    newest = find_version(path)
    infos = [read_commit_info(path, version) for version in range(max(vouched, newest - _LOOKED_AT) + 1, newest + 1)]
    to = [info.get("operationParameters") or {} for info in infos if info.get("operation") == "RESTORE"]
    return min([newest, *(int(one.get("version") or 0) for one in to)])  # by a time: to any


def _mark(warehouse: Folder, cluster: str, windows: Windows, *, is_trusted: bool | None) -> None:
    rows = load_rows(warehouse, WINDOW_STATUS, cluster=cluster, windows=windows)
    index = rows.schema.get_field_index("is_trusted")
    marked = rows.set_column(index, rows.schema.field(index), pa.array([is_trusted] * rows.num_rows, pa.bool_()))
    replace_rows(marked, warehouse, WINDOW_STATUS, cluster=cluster, windows=windows)


def load_stored_windows(warehouse: Folder, cluster: str, windows: Windows) -> StoredWindows:
    columns = ("window_start_ms", "window_end_ms", "source", "row_count", "expected_count", "arrived_count", "missing")
    rows = _status_rows(warehouse, cluster, windows)
    status = list(tuples_of(rows, *columns))
    tried = tuples_of(rows, "window_start_ms", "window_end_ms", "is_trusted", "tries")
    return StoredWindows(
        windows=frozenset(TimeWindow(*row[:2]) for row in status),
        row_counts={(source, TimeWindow(*span)): count for *span, source, count, _, _, _ in status},
        availability={(row[2], TimeWindow(*row[:2])): StoredAvailability(*row[4:]) for row in status},
        tries={TimeWindow(*span): 0 if is_trusted else tries or 0 for *span, is_trusted, tries in tried},
    )


def _status_rows(warehouse: Folder, cluster: str, windows: Windows, columns: Sequence[str] = ()) -> pa.Table:
    """Rows whose tables still hold what they vouch for; some columns, all by default."""
    wanted = (*columns, _VERSIONS) if columns else ()
    rows = load_rows(warehouse, WINDOW_STATUS, cluster=cluster, windows=windows, columns=wanted)
    rows = _keep_vouched(warehouse, rows, lambda path, _: find_version(path))
    return rows.drop_columns([_VERSIONS]) if columns else rows


def _keep_vouched(warehouse: Folder, rows: pa.Table, find_kept: Callable[[Folder, int], int]) -> pa.Table:
    versions = rows[_VERSIONS].combine_chunks()
    by_table = pa.table({"table": versions.keys, "version": versions.items}).group_by("table")
    newest = by_table.aggregate([("version", "max")])
    vouched = dict(zip(newest["table"].to_pylist(), newest["version_max"].to_pylist(), strict=True))
    for table in TABLES:  # each row only where a table lost commits: a filter copies the versions of all rows
        wanted = vouched.get(table.name, 0)
        version = find_kept(table_path(warehouse, table), wanted) if table.name in vouched else 0
        if wanted > version:
            of_rows = pc.map_lookup(rows[_VERSIONS], pa.scalar(table.name), "first")
            rows = rows.filter(pc.fill_null(pc.less_equal(of_rows, version), fill_value=True))
    return rows


def _windows(rows: pa.Table) -> frozenset[TimeWindow]:
    """The windows of some rows; as numbers, since a date each would cost more than all else of a run over a month's."""
    bounds = rows.group_by(_BOUNDS).aggregate([]).select(_BOUNDS)  # a window has a row per source
    numbers = (column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() for column in bounds.columns)
    return frozenset(TimeWindow(start_ms, end_ms) for start_ms, end_ms in zip(*numbers, strict=True))
