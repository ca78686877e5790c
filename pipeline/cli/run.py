"""`partition-health run`: the whole pipeline without Airflow, the same jobs and gates in the same order."""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from expectations import gates
from expectations.replay_gate import check_replayed
from pipeline.cli.options import add_config_option, add_json_option
from pipeline.config.pipeline_config import load_config
from pipeline.errors import HealthGateError, PipelineError
from pipeline.jobs import deliver_alerts, ingest, measure_rules, raise_incidents, recommend, replay, score_health
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.runs import plan_runs
from pipeline.storage.row_counts import count_rows
from pipeline.storage.session import running_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.config.pipeline_config import PipelineConfig
    from pipeline.runs import RunContext


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.description = __doc__
    add_config_option(parser)
    parser.add_argument(
        "--window",
        metavar="START/DURATION",
        help="the windows to run, such as 2026-11-21T09:00:00Z/PT6H; else the last one that is over",
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster of the configuration")
    parser.add_argument(
        "--force", action="store_true", help="replace stored windows of which the source now holds less"
    )
    parser.add_argument(
        "--notify",
        action=argparse.BooleanOptionalAction,
        help="tell people of all incidents, or of none; else of those in windows that are news (mail.tell_within)",
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        args: See `add_options`.

    Returns:
        0.

    Raises:
        ConfigError: A configuration or window that cannot be used.
        DataGateError: What was ingested is not to be trusted.
        HealthGateError: A broker carries more than its share; the mails are out.
        DeliveryError: A mail could not be delivered; it stays in the outbox.
    """
    now_ms = time.time_ns() // 1_000_000  # the command line is where the clock is read
    config = load_config(args.config)
    span = TimeWindow.parse(args.window) if args.window else _last_window(config, now_ms)
    runs = plan_runs(
        config,
        span,
        run_id=f"cli-{uuid.uuid4()}",
        now_ms=now_ms,
        cluster=args.cluster,
        force=args.force,
        notify=args.notify,
    )
    replay.check(config)
    with running_session(config.spark) as spark:
        judged, errors = _run_each(spark, runs)
    delivered = deliver_alerts.run(config, config.mail.smtp, now_ms=now_ms)
    document = {
        "window": str(span),
        "clusters": judged,
        "mails": [delivery.delivered_to for delivery in delivered.deliveries],
        "row_counts": count_rows(config.warehouse),
    }
    sys.stdout.write(json.dumps(document, indent=2) + "\n" if args.json else _as_text(document))
    if errors:
        raise errors[0]
    unhealthy = [entry["verdict"] for entry in judged if not entry["is_healthy"]]
    if unhealthy:
        raise HealthGateError("\n".join(unhealthy))
    return 0


def _run_each(spark: SparkSession, runs: tuple[RunContext, ...]) -> tuple[list[dict[str, Any]], list[PipelineError]]:
    """One cluster after the other, each failing alone; the first error is raised when all had their turn."""
    judged: list[dict[str, Any]] = []
    errors: list[PipelineError] = []
    for run in runs:
        try:
            judged.append(_run_cluster(spark, run, errors))
        except PipelineError as error:
            errors.append(error)
            if len(runs) > 1:
                sys.stderr.write(f"cluster {run.cluster_name}: {error}\n")
    return judged, errors


def _run_cluster(spark: SparkSession, run: RunContext, errors: list[PipelineError]) -> dict[str, Any]:
    """Jobs and gates in order; the DAGs have the same order in `dags/steps.py`. A failed replay keeps nobody waiting."""
    ingested = ingest.run(spark, run)
    warnings = [check for report in gates.check_ingested(spark, run) for check in report.warnings]
    replayed: tuple[str, ...] = ()
    try:
        replayed_windows = replay.pending_windows(run)
        replayed = replay.run(spark, run, replayed_windows).notes
        warnings += [check for report in check_replayed(spark, run, replayed_windows) for check in report.warnings]
    except PipelineError as error:
        errors.append(error)
        sys.stderr.write(f"cluster {run.cluster_name}: the replay failed: {error}\n")
    windows = score_health.pending_windows(run)
    scored = score_health.run(spark, run, windows)
    measure_rules.run(run, windows)
    recommend.run(run, windows)
    health = gates.check_health(spark, run, windows)
    raised = raise_incidents.run(run, health.verdicts)
    return {
        "cluster": run.cluster_name,
        "is_healthy": health.success,
        "verdict": gates.describe_health(health, run),
        "warnings": [check.describe() for check in warnings],
        "notes": [*ingested.notes, *replayed, *scored.notes, *raised.notes],
    }


def _last_window(config: PipelineConfig, now_ms: int) -> TimeWindow:
    """The newest window that ended at least the grace time ago."""
    window_ms = milliseconds_of(config.window)
    end_ms = now_ms - milliseconds_of(config.grace)
    end_ms -= end_ms % window_ms
    return TimeWindow(end_ms - window_ms, end_ms)


def _as_text(document: dict[str, Any]) -> str:
    lines = [f"windows {document['window']}", ""]
    lines += [f"{count:>12,}  {name}" for name, count in document["row_counts"].items()]
    for entry in document["clusters"]:
        lines += ["", entry["verdict"], *(f"  note: {note}" for note in entry["notes"])]
        lines += [f"  warning: {warning}" for warning in entry["warnings"]]
    lines += ["", *(f"mail: {place}" for place in document["mails"])]
    return "\n".join(lines) + "\n"
