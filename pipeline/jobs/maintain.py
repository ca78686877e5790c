"""Keeps the tables small and fast: compacts closed dates, removes unused files. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.window import milliseconds_of
from pipeline.runs import JobReport
from pipeline.storage.maintenance import drop_expired_keys, maintain_tables

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import PipelineConfig


def run(config: PipelineConfig, *, now_ms: int) -> JobReport:
    """Drops hashes of keys that are past their retention, then compacts and vacuums every table."""
    expired = drop_expired_keys(config.warehouse, as_of_ms=now_ms, retention_ms=milliseconds_of(config.keys.retention))
    notes = tuple(
        f"{upkeep.table}: {upkeep.files_before_count} files, now {upkeep.files_after_count}; "
        f"{upkeep.deleted_file_count} old ones deleted"
        for upkeep in maintain_tables(config.warehouse, as_of_ms=now_ms)
    )
    return JobReport(notes=(*expired, *notes))
