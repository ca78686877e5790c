"""What a Spark task does: jobs and gates in order. The command line has the same order in `pipeline/cli/run.py`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from expectations import gates
from expectations.replay_gate import check_replayed
from pipeline.errors import PipelineError
from pipeline.jobs import ingest, measure_rules, raise_incidents, recommend, replay, score_health
from pipeline.storage.session import running_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from expectations.gate import GateReport
    from pipeline.runs import JobReport, RunContext

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def ingest_windows(runs: tuple[RunContext, ...]) -> list[str]:
    """Ingest, then the data gates; a line per table written and per note.

    Raises:
        DataGateError: if the tables are not to be trusted.
    """

    def one(spark: SparkSession, run: RunContext) -> list[str]:
        report = ingest.run(spark, run)
        return _say_done(run, report, gates.check_ingested(spark, run))

    return [line for lines in _each_cluster(runs, one) for line in lines]


def replay_windows(runs: tuple[RunContext, ...]) -> list[str]:
    """The replay, then its data gate; a line per table written and per note.

    Raises:
        ConfigError: if a candidate cannot be replayed.
        DataGateError: if the tables are not to be trusted.
    """
    replay.check(runs[0].config)

    def one(spark: SparkSession, run: RunContext) -> list[str]:
        windows = replay.pending_windows(run)
        report = replay.run(spark, run, windows)
        return _say_done(run, report, check_replayed(spark, run, windows))

    return [line for lines in _each_cluster(runs, one) for line in lines]


def judge_health(runs: tuple[RunContext, ...]) -> dict[str, Any]:
    """Measures, health gate, incidents into the outbox; `failed` says whether the gate failed, `summary` where."""

    def one(spark: SparkSession, run: RunContext) -> tuple[bool, str]:
        windows = score_health.pending_windows(run)
        if not windows:
            return True, f"cluster {run.cluster_name}: no trusted window to judge"
        score_health.run(spark, run, windows)
        measure_rules.run(run, windows)
        recommend.run(run, windows)
        health = gates.check_health(spark, run, windows)
        raised = raise_incidents.run(run, health.verdicts)
        return health.success, "\n".join((gates.describe_health(health, run), *(f"  {note}" for note in raised.notes)))

    judged = _each_cluster(runs, one)
    return {"failed": not all(fine for fine, _ in judged), "summary": "\n".join(text for _, text in judged)}


def _say_done(run: RunContext, report: JobReport, checked: tuple[GateReport, ...]) -> list[str]:
    """A line per table written, per note and per check that warns."""
    written = [f"{table} at version {version}" for table, version in report.table_versions.items()]
    warnings = [check.describe() for gate in checked for check in gate.warnings]
    return [f"{run.cluster_name}: {line}" for line in (*written, *report.notes, *warnings)]


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
