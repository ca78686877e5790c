"""Spark session of a run, started on first use."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pyspark.sql import SparkSession

from pipeline.config.pipeline_config import Spark
from pipeline.engine import OnDemand, count_held
from pipeline.storage.session import count_spark_tasks, is_lost, is_running, running_session


class SparkOnDemand(OnDemand):
    """A `SparkSession` that starts on first use; `choose_engine` avoids it for small work."""

    def __init__(self, config: Spark, *, app_name: str) -> None:
        self._config, self._app_name = config, app_name
        self._session: SparkSession | None = None
        self._running = ExitStack()

    @property
    def is_wanted(self) -> bool:
        """Whether Spark takes all work: it runs already, has a cluster, or is configured so."""
        return is_running() or self._config.always or not self._config.master.startswith("local[")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a session has
        if self._session is not None and is_lost():  # it failed the cluster before, not this one
            self.close()
        if self._session is None:
            self._session = self._running.enter_context(running_session(self._config, app_name=self._app_name))
        return getattr(self._session, name)

    def close(self) -> None:
        """Stops the session, unless it ran before."""
        self._running.close()
        self._session = None


def count_tasks() -> tuple[int, int]:
    """Counts the tasks done and the tasks in all, of this process or its session."""
    return count_held() if any(count_held()) else count_spark_tasks()
