"""Spark's session for a run, started when work comes that is worth it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pyspark.sql import SparkSession

from pipeline.config.pipeline_config import Spark
from pipeline.engine import OnDemand, count_held
from pipeline.storage.session import count_spark_tasks, is_running, running_session


class SparkOnDemand(OnDemand):
    """A `SparkSession` that starts when something of it is first used; `choose_engine` does without it where it can."""

    def __init__(self, config: Spark, *, app_name: str) -> None:
        self._config, self._app_name = config, app_name
        self._session: SparkSession | None = None
        self._running = ExitStack()

    @property
    def is_wanted(self) -> bool:
        """Spark runs in this process already, or all work is for it: by configuration, or because it has a cluster."""
        return is_running() or self._config.always or not self._config.master.startswith("local[")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a session has
        if self._session is None:
            self._session = self._running.enter_context(running_session(self._config, app_name=self._app_name))
        return getattr(self._session, name)

    def close(self) -> None:
        """Stops the session, unless it ran before."""
        self._running.close()
        self._session = None


def count_tasks() -> tuple[int, int]:
    """How many of the tasks that this process or its session works on are done, and of how many."""
    return count_held() if any(count_held()) else count_spark_tasks()
