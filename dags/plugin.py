"""Airflow plugin: creates the one-writer pool when Airflow starts, because tasks of a missing pool wait forever."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

WRITER_POOL = "partition_health_writer"


@hookimpl
def on_starting(component: Any) -> None:  # a Job in scheduler and dag processor, a marker in tasks
    """Called by Airflow's components as they start; only the long-running ones (a `Job`) may touch its database."""
    if type(component).__name__ == "Job":
        ensure_writer_pool()


def ensure_writer_pool() -> None:
    """Creates the pool with one slot; a pool that is there keeps its slots."""
    from airflow.models.pool import Pool  # the database side of Airflow
    from sqlalchemy.exc import IntegrityError

    if Pool.get_pool(WRITER_POOL) is not None:
        return
    with contextlib.suppress(IntegrityError):  # scheduler and dag processor start at the same time
        Pool.create_or_update_pool(
            name=WRITER_POOL,
            slots=1,
            description="One writer of the Delta tables at a time.",
            include_deferred=False,
        )


class PartitionHealthPlugin(AirflowPlugin):
    """Registered as an entry point of the package."""

    name = "partition_health"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - as Airflow declares it
