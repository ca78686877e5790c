"""Keeps the tables small and fast: drops expired rows, compacts closed dates, removes unused files. No Spark."""

from contextlib import suppress

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.sections import SUMMED_UP, retention_of
from pipeline.errors import PipelineError, StorageConflictError, StorageError
from pipeline.model.window import DAY_MS, END_OF_TIME_MS, TimeWindow, milliseconds_of
from pipeline.runs import CATCH_UP_MS, JobReport
from pipeline.storage.durability import has_table
from pipeline.storage.maintenance import drop_expired, find_newest_ms, maintain_tables
from pipeline.storage.outbox import empty_delivered
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.storage.window_status import withdraw_lost
from pipeline.tables import TABLES
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.incidents import ALERT_OUTBOX
from pipeline.tables.keys import EXPIRING

_MESSAGE_DAYS = 31  # for which the text of a message stays after it was delivered


def run(config: PipelineConfig, *, now_ms: int) -> JobReport:
    """Drops expired rows, compacts and vacuums, table by table; `StorageError` names those that could not be maintained."""
    kept = {table: retention_of(config.retention, table) for table in TABLES}
    kept |= dict.fromkeys(EXPIRING, config.keys.retention)
    passing = (*SUMMED_UP, *EXPIRING) if config.sums_only else ()
    newest_ms = 0
    with suppress(PipelineError):  # a damaged table is named below
        newest_ms = find_newest_ms(config.warehouse)
    notes: list[str] = []
    errors: list[PipelineError] = []
    for table in TABLES:
        try:
            if table is WINDOW_STATUS and has_table(table_path(config.warehouse, table)):
                ensure_tables(config.warehouse, (table,))  # an older one lacks columns
                for name in config.cluster_names:
                    withdraw_lost(config.warehouse, name, TimeWindow(max(0, now_ms - CATCH_UP_MS), END_OF_TIME_MS))
            if retention := kept[table]:
                kept_ms = milliseconds_of(retention)
                # a clock that is years ahead drops nothing but what can be reversed into keys
                as_of_ms = now_ms if table in EXPIRING else min(now_ms, newest_ms)
                notes += drop_expired(config.warehouse, table, as_of_ms=as_of_ms, kept_ms=kept_ms)
            before_ms = now_ms - _MESSAGE_DAYS * DAY_MS
            if table is ALERT_OUTBOX and (emptied := empty_delivered(config.warehouse, before_ms)):
                notes.append(f"{table.name}: {emptied:,} messages emptied, delivered {_MESSAGE_DAYS} days ago")
            for upkeep in maintain_tables(config.warehouse, as_of_ms=now_ms, tables=(table,), passing=passing):
                files = f"{upkeep.files_before_count} files, now {upkeep.files_after_count}"
                notes.append(f"{upkeep.table}: {files}; {upkeep.deleted_file_count} old ones deleted")
        except PipelineError as error:
            errors.append(error)
    if errors:
        kind = StorageConflictError if {*map(type, errors)} == {StorageConflictError} else StorageError
        count = f"{len(errors)} table{'' if len(errors) == 1 else 's'}"
        raise kind(f"{count} not maintained, all others were: {'; '.join(map(str, errors))}")
    return JobReport(notes=tuple(notes))
