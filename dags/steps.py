"""What a Spark task does: jobs and gates in order. The command line has the same order in `pipeline/cli/run.py`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from expectations import gates
from pipeline.config import load_config
from pipeline.errors import PipelineError
from pipeline.jobs import ingest, maintain, raise_incidents, score_health
from pipeline.storage.session import running_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def ingest_windows(runs: tuple[RunContext, ...]) -> list[str]:
    """Ingest, then the data gates; the windows are committed when both are through.

    Raises:
        DataGateError: if the tables are not to be trusted.
    """

    def one(spark: SparkSession, run: RunContext) -> list[str]:
        report = ingest.run(spark, run)
        gates.check_ingested(spark, run)
        return report.lines()

    return [line for lines in _each_cluster(runs, one) for line in lines]


def judge_health(runs: tuple[RunContext, ...]) -> dict[str, Any]:
    """Measures, health gate, incidents into the outbox; `failed` says whether the gate failed."""

    def one(spark: SparkSession, run: RunContext) -> tuple[bool, str]:
        windows = score_health.pending_windows(spark, run)
        score_health.run(spark, run, windows)
        report = gates.check_health(spark, run, windows)
        raise_incidents.run(spark, run, windows, report.verdicts)
        return report.success, report.summary(run)

    judged = _each_cluster(runs, one)
    return {"failed": not all(ok for ok, _ in judged), "summary": "\n".join(text for _, text in judged)}


def maintain_tables(now_ms: int) -> list[str]:
    """Compaction of closed dates, then vacuum."""
    config = load_config()
    with running_session(config.spark, app_name="maintenance") as spark:
        return maintain.run(spark, config, now_ms=now_ms).lines()


def _each_cluster(runs: tuple[RunContext, ...], one: Callable[[SparkSession, RunContext], _T]) -> list[_T]:
    """One cluster's bad data does not keep the others waiting; the first error is raised when all had their turn."""
    done: list[_T] = []
    errors: list[PipelineError] = []
    with running_session(runs[0].config.spark, app_name=runs[0].run_id) as spark:
        for run in runs:
            try:
                done.append(one(spark, run))
            except PipelineError as error:
                _log.exception("cluster %s", run.cluster_name)
                errors.append(error)
    if errors:
        raise errors[0]
    return done
