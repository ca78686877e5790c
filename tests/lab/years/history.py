"""Earlier hours of a warehouse, as commits of their own: the rows of one real hour, moved back in time, over 50 topics."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from pipeline.model.window import DAY_MS, HOUR_MS
from pipeline.storage.maintenance import maintain_tables
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import TABLES, Table
from pipeline.tables.bronze import LOG_SEGMENTS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = 50
MOST_ROWS, MOST_BYTES = 1_000, 1_000_000  # of a table and an hour: what is measured is the number of hours
HOURS_A_DAY = 24
WEEK = 7 * HOURS_A_DAY
_ONCE_A_DAY = (INCIDENTS, ALERT_OUTBOX, LOG_SEGMENTS)  # an incident opens and ends, segments are rolled
_NAMED_BY_TIME = ("incident_id", "message_id", "tells", "path")


@dataclass(frozen=True)
class History:
    """Hours before a real one.

    `source` is the warehouse with the real hour, `start_ms` its start; `hours` is how many come before it in all.
    """

    source: Path
    cluster: str
    start_ms: int
    hours: int

    def write(self, warehouse: Path) -> None:
        """Writes all tables, with the daily maintenance, and ages the files."""
        ensure_tables(warehouse)
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:  # delta-rs's threads survive no fork
            list(pool.map(partial(self._write_table, warehouse), TABLES, chunksize=1))

    def _write_table(self, warehouse: Path, table: Table) -> None:
        rows = _spread(load_rows(self.source, table, cluster=self.cluster), table)
        if rows.num_rows == 0:
            return
        on_disk = DeltaTable(table_path(warehouse, table))
        for hour in range(self.hours):
            if table not in _ONCE_A_DAY or hour % HOURS_A_DAY == 0:
                self._write_hour(warehouse, table, on_disk, rows, hour)
            if (hour + 1) % HOURS_A_DAY == 0:
                self._age(warehouse, table, hour)
                on_disk = DeltaTable(table_path(warehouse, table))

    def _write_hour(self, warehouse: Path, table: Table, on_disk: DeltaTable, rows: pa.Table, hour: int) -> None:
        back_ms = (self.hours - hour) * HOUR_MS
        moved = _moved(rows, table, back_ms, hour)
        if table.write_mode == "merge":
            insert_rows(moved, warehouse, table)
            on_disk.update_incremental()
        else:  # what a run leaves that replaces a window of which nothing is stored: one file, one commit
            write_deltalake(on_disk, moved, mode="append")

    def _age(self, warehouse: Path, table: Table, hour: int) -> None:
        """Gives what was written the times it would have, then maintains the table as each night does."""
        now_ms = self.start_ms - (self.hours - hour - 1) * HOUR_MS
        path = table_path(warehouse, table)
        ages = {file.name: file.stat().st_mtime for file in (path / "_delta_log").iterdir()}
        newest_s = max(ages.values())
        for file in (path / "_delta_log").iterdir():
            if newest_s - file.stat().st_mtime < DAY_MS / 1000 and file.stat().st_mtime > self.start_ms / 1000:
                os.utime(file, (now_ms / 1000,) * 2)
        maintain_tables(warehouse, as_of_ms=now_ms, tables=(table,))
        if (hour + 1) % WEEK == 0:  # files wait a week by the real clock, here a week of the history's
            DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


def _spread(rows: pa.Table, table: Table) -> pa.Table:
    """Rows over 50 topics where they name a topic; of many some."""
    if "topic" not in table.column_names or rows.num_rows == 0:
        return rows.slice(0, MOST_ROWS)
    named = rows.filter(pc.not_equal(pc.fill_null(rows["topic"], ""), ""))
    of_topic = min(MOST_ROWS, MOST_BYTES * named.num_rows // max(1, named.nbytes)) // TOPICS
    kept = named.slice(0, max(1, of_topic))
    place = rows.schema.get_field_index("topic")
    copies = [
        kept.set_column(
            place, rows.schema.field(place), pc.binary_join_element_wise(kept["topic"], f"{number:02d}", "-")
        )
        for number in range(TOPICS)
    ]
    return pa.concat_tables(copies).combine_chunks()


def _moved(rows: pa.Table, table: Table, back_ms: int, hour: int) -> pa.Table:
    """Rows as they were some time before: every instant and date, and ids that time goes into."""
    back = pa.scalar(dt.timedelta(milliseconds=back_ms), pa.duration("us"))
    for place, column in enumerate(rows.schema):
        values = rows[column.name]
        if pa.types.is_timestamp(column.type):
            values = pc.subtract(values, back)
        elif column.name == "window_date" and "window_start" not in rows.column_names:
            values = pc.cast(pc.subtract(pc.cast(values, pa.timestamp("us")), back), pa.date32())
        elif column.name in _NAMED_BY_TIME:
            values = pc.binary_join_element_wise(values, f"{hour:04d}", "-")
        elif column.name == "base_offset" and table is LOG_SEGMENTS:
            values = pc.add(values, (hour + 1) * 1_000_000)
        rows = rows.set_column(place, column, values)
    if "window_date" in rows.column_names and "window_start" in rows.column_names:
        place = rows.schema.get_field_index("window_date")
        rows = rows.set_column(place, rows.schema.field(place), rows["window_start"].cast(pa.date32()))
    return rows
