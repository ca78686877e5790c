"""Upkeep of the tables through delta-rs: small files joined, unused files deleted. No Spark.

Readers of older versions need replaced files: a vacuum below 168 h breaks them. Files of killed writers only a full vacuum finds.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import methodcaller

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties

from pipeline.config.storage import Folder
from pipeline.model.window import DAY_MS, milliseconds_of, parse_instant
from pipeline.storage.durability import StorageErrors, has_table, open_table, sync_commits, take_table
from pipeline.storage.frames import count_group_rows
from pipeline.storage.rows import FEW_ROWS, commit, query_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES, Table
from pipeline.tables.bronze import LOG_SEGMENTS
from pipeline.tables.silver import PARTITION_TRAFFIC

TARGET_FILE_BYTES = 128 * 1024 * 1024
SAFE_RETENTION_HOURS = 168
PASSING_HOURS = 24
"""For tables whose rows are dropped within hours, which only the pipeline reads: no run of it takes a day."""
_GROUP_ROWS = 8192
"""Most rows of a row group: who asks for a few windows of a file of months reads the groups of those only."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    table: str
    files_before_count: int
    files_after_count: int
    deleted_file_count: int  # files deleted because no version within the retention needs them


def maintain_tables(
    warehouse: Folder, *, as_of_ms: int, tables: Iterable[Table] = TABLES, passing: Collection[Table] = ()
) -> tuple[Upkeep, ...]:
    """Joins small files of dates closed by `as_of_ms`, all of tables without one, and deletes files no version of the last 168 h needs.

    `passing`: tables whose replaced files are kept a day only. `StorageConflictError` if others came first each time, as below.
    """
    today = datetime.fromtimestamp(as_of_ms / 1000, UTC).date().isoformat()
    return tuple(
        _maintain(warehouse, table, today, PASSING_HOURS if table in passing else SAFE_RETENTION_HOURS)
        for table in tables
        if has_table(table_path(warehouse, table))
    )


def _maintain(warehouse: Folder, table: Table, today: str, retention_hours: int) -> Upkeep:
    path = table_path(warehouse, table)
    before_count = len(open_table(path).file_uris())
    closed = [("window_date", "<", today)] if "window_date" in table.partitioned_by else None

    def compact(on_disk: DeltaTable) -> None:
        files = pa.table(on_disk.get_add_actions())
        stored = count_group_rows(*(pc.sum(files[name]).as_py() or 0 for name in ("num_records", "size_bytes")))
        properties = WriterProperties(max_row_group_size=min(stored, _GROUP_ROWS))
        on_disk.optimize.compact(partition_filters=closed, target_size=TARGET_FILE_BYTES, writer_properties=properties)

    commit(warehouse, table, compact)
    on_disk = take_table(path)
    with StorageErrors(path, "free space or repair the folder, then run again"):
        is_safe = retention_hours >= SAFE_RETENTION_HOURS
        deleted = on_disk.vacuum(retention_hours, dry_run=False, full=True, enforce_retention_duration=is_safe)
        on_disk.update_incremental()
        on_disk.create_checkpoint()
        sync_commits(path, after=on_disk.version() - 1, to=on_disk.version())
        on_disk.cleanup_metadata()  # commits older than a week that a checkpoint sums up
    return Upkeep(table.name, before_count, len(on_disk.file_uris()), len(deleted))


def find_newest_ms(warehouse: Folder) -> int:
    """End of the newest date of which records are stored; 0 where there is none."""
    path = table_path(warehouse, PARTITION_TRAFFIC)
    dates = [str(one["window_date"]) for one in open_table(path).partitions()] if has_table(path) else []
    return milliseconds_of(parse_instant(max(dates))) + DAY_MS if dates else 0


def drop_expired(warehouse: Folder, table: Table, *, as_of_ms: int, kept_ms: int) -> tuple[str, ...]:
    """Drops rows whose date ended longer ago than they are kept, and says so; later vacuums remove the files."""
    last = datetime.fromtimestamp((as_of_ms - kept_ms) / 1000, UTC).date().isoformat()
    if not has_table(table_path(warehouse, table)):
        return ()
    dates = drop_dates(warehouse, table, last)
    told = [f"{table.name}: rows of {dates} dates before {last} dropped"] if dates else []
    if table is LOG_SEGMENTS and (count := _drop_unread(warehouse)):
        told.append(f"{table.name}: {count:,} rows without a date dropped, of files before all that have one")
    return tuple(told)


def _drop_unread(warehouse: Folder) -> int:
    """Drops rows of closed files that nobody read, before all of the partition that have a date; the next run lists those still there."""
    of_log, columns = "cluster, topic, topic_id, partition", ", ".join(LOG_SEGMENTS.key)
    sql = (
        f"SELECT {columns} FROM segments LEFT JOIN (SELECT {of_log}, min(base_offset) AS dated_from FROM segments "  # noqa: S608 - declared names
        f"WHERE max_timestamp IS NOT NULL GROUP BY {of_log}) AS dated USING ({of_log}) "
        "WHERE max_timestamp IS NULL AND NOT is_active AND (dated_from IS NULL OR base_offset < dated_from) "
        f"ORDER BY base_offset LIMIT {FEW_ROWS}"  # more of them go the next time
    )
    gone = query_rows(warehouse, sql, {"segments": LOG_SEGMENTS})
    same_key = " AND ".join(f"stored.{name} = gone.{name}" for name in LOG_SEGMENTS.key)

    def drop(on_disk: DeltaTable) -> None:
        on_disk.merge(gone, same_key, source_alias="gone", target_alias="stored").when_matched_delete().execute()

    count: int = gone.num_rows
    if count:
        commit(warehouse, LOG_SEGMENTS, drop)
    return count


def drop_dates(warehouse: Folder, table: Table, last: str, *, where: str = "true") -> int:
    """Drops rows before a date, `2026-11-21`, for which `where` holds; gives of how many dates, no commit for none."""
    is_expired = f"{table.dated_by} < '{last}' AND {where}"
    dates = f"SELECT DISTINCT CAST({table.dated_by} AS DATE) FROM dated WHERE {is_expired}"  # noqa: S608 - declared names
    count: int = query_rows(warehouse, dates, {"dated": table}).num_rows
    if count:
        commit(warehouse, table, methodcaller("delete", is_expired))
    return count
