"""Keeps the tables small and fast: drops expired rows, compacts closed dates, removes unused files. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.config.sections import SUMMED_UP, retention_of
from pipeline.model.window import milliseconds_of
from pipeline.runs import JobReport
from pipeline.storage.maintenance import drop_expired, maintain_tables
from pipeline.tables import TABLES
from pipeline.tables.keys import EXPIRING

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import PipelineConfig


def run(config: PipelineConfig, *, now_ms: int) -> JobReport:
    """Drops rows that are past their retention, then compacts and vacuums every table."""
    of_tables = {table: milliseconds_of(kept) for table in TABLES if (kept := retention_of(config.retention, table))}
    of_keys = dict.fromkeys(EXPIRING, milliseconds_of(config.keys.retention))
    expired = drop_expired(config.warehouse, as_of_ms=now_ms, retention_ms=of_tables | of_keys)
    notes = tuple(
        f"{upkeep.table}: {upkeep.files_before_count} files, now {upkeep.files_after_count}; "
        f"{upkeep.deleted_file_count} old ones deleted"
        for upkeep in maintain_tables(
            config.warehouse, as_of_ms=now_ms, passing=(*SUMMED_UP, *EXPIRING) if config.sums_only else ()
        )
    )
    return JobReport(notes=(*expired, *notes))
