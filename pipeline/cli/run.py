"""Runs the whole pipeline without Airflow: the same steps in the same order."""

import argparse
import os
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from pipeline.cli.terminal import add_config_option, add_json_option, paint, print_answer, print_error
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config_file import load_config
from pipeline.environment import count_steps_at_once
from pipeline.errors import HealthGateError, PipelineError
from pipeline.jobs import deliver_alerts, replay
from pipeline.jobs.deliver_alerts import DeliveryReport
from pipeline.model.number_text import escape_hidden, format_span
from pipeline.model.window import DAY_MS, TimeWindow, milliseconds_of
from pipeline.progress import Progress
from pipeline.runs import RunContext, plan_runs
from pipeline.steps import STEPS, Step, StepReport, replay_windows, take_steps
from pipeline.storage.tables_on_disk import count_rows

_END_S = 10  # one that the system does not end, as where a disk of a network is away, is left
Ended = tuple[RunContext, list[StepReport] | None, list[tuple[Step, PipelineError]]]
"""A run, its reports where it came to the last step, and its errors with the step of each."""


def take_steps_apart(
    runs: Sequence[RunContext], steps: tuple[Step, ...], *, at_once: int | None = None
) -> Iterator[Ended]:
    """Takes steps for several clusters, `at_once` at a time, and ends one that takes too long; yields each run as it ends."""
    limit_ms = milliseconds_of(runs[0].config.late_after) * len(steps) * max(len(run.windows) for run in runs)
    with _Workers(steps, count_at_once(runs, at_once), limit_ms) as workers:
        waiting, ended = deque(runs), 0
        with Progress().step("clusters", lambda: (ended, len(runs)), unit="clusters"):
            while ended < len(runs):
                while waiting and workers.are_free:
                    workers.begin(waiting.popleft())
                for done in workers.wait():
                    ended += 1
                    yield done


def count_at_once(runs: Sequence[RunContext], most: int | None = None) -> int:
    """How many clusters at a time: what the machine holds; one where Spark runs elsewhere: it takes all cores there."""
    return most or (count_steps_at_once(len(runs)) if runs[0].config.spark.is_local else 1)


class _Workers(AbstractContextManager["_Workers"]):
    def __init__(self, steps: tuple[Step, ...], most: int, limit_ms: int) -> None:
        self._steps, self._most, self._limit_ms = steps, most, limit_ms
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["pipeline.steps"])
        self._idle: list[tuple[Connection, ForkServerProcess]] = []
        self._busy: dict[Connection, tuple[RunContext, ForkServerProcess]] = {}
        self._until_s: dict[Connection, float] = {}

    def __exit__(self, *_error: object) -> None:
        """Lets idle ones end by themselves, so that they stop their Spark; stops the others."""
        stopped = [process for _, process in self._busy.values()]
        for ours, process in self._idle:
            ours.close()
            stopped.append(process)
        for _, process in self._busy.values():
            process.terminate()
        for process in stopped:
            process.join()

    @property
    def are_free(self) -> bool:
        return len(self._busy) < self._most

    def begin(self, run: RunContext) -> None:
        if self._idle:
            ours, process = self._idle.pop()
        else:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_work, args=(theirs, self._steps), daemon=True)
            process.start()
            theirs.close()  # so that its end is seen
        with suppress(BrokenPipeError):  # it died idle: `wait` finds out
            ours.send(run)
        self._busy[ours], self._until_s[ours] = (run, process), time.monotonic() + self._limit_ms / 1000

    def wait(self) -> Iterator[Ended]:
        first_s = min(self._until_s[ours] for ours in self._busy)
        for ours in cast("list[Connection]", wait(list(self._busy), max(0.0, first_s - time.monotonic()))):
            run, process = self._busy.pop(ours)
            try:
                reports, errors = ours.recv()
            except (EOFError, ConnectionResetError):
                process.join()
                code = process.exitcode or 0
                reason = f"its process ended with exit code {code}; the lines above say why"
                if code < 0:
                    reason = f"its process was killed by signal {-code}, perhaps for lack of memory; run again"
                yield run, None, [(self._steps[-1], PipelineError(reason))]
                continue
            self._idle.append((ours, process))
            yield run, reports, [(self._steps[at], _error_of(*error)) for at, *error in errors]
        for ours in [one for one in self._busy if self._until_s[one] <= time.monotonic()]:
            run, process = self._busy.pop(ours)
            process.kill()
            process.join(_END_S)
            hint = "was ended, as others may wait for it: `late_after` for each step and window; a run of it alone has no limit"
            late = PipelineError(f"it took longer than {format_span(self._limit_ms)} and {hint}")
            yield run, None, [(self._steps[-1], late)]


def _error_of(text: str, exit_code: int) -> PipelineError:
    error = PipelineError(text)
    error.exit_code = exit_code
    return error


def _work(theirs: Connection, steps: tuple[Step, ...]) -> None:
    """In a process of its own: takes steps for each run that comes; answers with reports, and errors as plain values."""
    from pipeline.storage.engines import running_engine

    spark: SparkSession | None = None
    with Path(os.devnull).open("w") as nowhere, ExitStack() as stack:  # the parent shows how far it is
        while True:
            try:
                run: RunContext = theirs.recv()
            except EOFError:
                return
            try:
                spark = spark or stack.enter_context(running_engine(run.config.spark, app_name=run.run_id))
            except PipelineError as error:
                theirs.send((None, [(0, str(error), error.exit_code)]))
                continue
            errors: list[tuple[int, str, int]] = []

            def keep(
                _: RunContext, step: Step, error: PipelineError, errors: list[tuple[int, str, int]] = errors
            ) -> None:
                errors.append((steps.index(step), str(error), error.exit_code))

            done, _ = take_steps((run,), steps, keep, progress=Progress(nowhere), session=spark)
            theirs.send((done.get(run.cluster_name), errors))


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_config_option(parser)
    add(
        "--window",
        metavar="START/DURATION",
        help="the windows to run, such as 2026-11-21T09:00:00Z/PT6H; else the newest one that has ended",
    )
    add("--cluster", metavar="NAME", help="only this cluster of the configuration")
    add("--force", action="store_true", help="replace stored windows even if the source now has fewer records")
    add(
        "--notify",
        action=argparse.BooleanOptionalAction,
        help="notify for all incidents or none (default: those of recent windows, mail.tell_within)",
    )
    add("--verbose", action="store_true", help="also print the number of rows of each table")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    now_ms = time.time_ns() // 1_000_000  # the command line is where the clock is read
    config = load_config(args.config)
    span = TimeWindow.parse(args.window) if args.window else last_window(config, now_ms)
    options = {"cluster": args.cluster, "force": args.force, "notify": args.notify}
    runs = plan_runs(config, span, run_id=f"cli-{uuid.uuid4()}", now_ms=now_ms, **options)
    done: dict[str, list[StepReport]] = {}
    errors: list[PipelineError] = []
    delivered: list[DeliveryReport] = []
    for run, reports, failed in _take_all(runs):
        for step, error in failed:
            errors.append(error)
            if len(runs) > 1 or step is replay_windows:  # else it is the command's own error
                cluster = f"cluster {run.cluster_name}: "
                print_error(f"{cluster}{str(error).removeprefix(cluster)}")
        if reports is not None:
            done[run.cluster_name] = reports
        try:
            delivered.append(deliver_alerts.run(config, config.mail.smtp, now_ms=now_ms))  # its mails wait for no other
        except PipelineError as error:  # no cluster waits for an outbox
            delivered.append(DeliveryReport(failure=str(error)))
    clusters = [_describe(run, done[run.cluster_name]) for run in runs if run.cluster_name in done]
    document = {
        "window": str(span),
        "clusters": clusters,
        "mails": [address for report in delivered for _, address in report.deliveries],
        "row_counts": count_rows(config.warehouse) if args.json or args.verbose else {},
    }
    print_answer(args, document, lambda: _as_text(document, with_counts=args.verbose))
    for report in delivered:
        report.check()
    if errors and len(runs) > 1:
        raise _sum_up(errors, [run.cluster_name for run in runs if run.cluster_name not in done], len(runs))
    if errors:
        raise errors[0]
    if unhealthy := [entry["verdict"] for entry in clusters if not entry["is_healthy"]]:
        raise HealthGateError("\n".join(verdict.partition("\n")[0] for verdict in unhealthy))  # all of it is above
    return 0


def _sum_up(errors: list[PipelineError], missing: list[str], count: int) -> PipelineError:
    lost = f"{len(missing)} of {count} clusters failed: {', '.join(missing)}; see their errors above"
    return _error_of(lost if missing else "a replay failed; see its error above", errors[0].exit_code)


def _take_all(runs: tuple[RunContext, ...]) -> Iterator[Ended]:
    if len(runs) > 1:
        replay.check(runs[0].config)
        yield from take_steps_apart(runs, STEPS)
        return
    failed: list[tuple[Step, PipelineError]] = []
    done, _ = take_steps(runs, STEPS, lambda _, step, error: failed.append((step, error)))
    yield runs[0], done.get(runs[0].cluster_name), failed


def _describe(run: RunContext, reports: list[StepReport]) -> dict[str, Any]:
    return {
        "cluster": run.cluster_name,
        "is_healthy": all(report.is_healthy for report in reports),
        "verdict": reports[-1].verdict,
        "warnings": [warning for report in reports for warning in report.warnings],
        "notes": [*(note for report in reports for note in report.notes), *list_undone(run)],
    }


def list_undone(run: RunContext) -> tuple[str, ...]:
    """Says which windows of the day before the run's no run has ingested and trusted, and the command that does them."""
    lost = run.over_lost_windows(DAY_MS // run.window_ms)
    if not lost:
        return ()
    count, span = sum(len(one.windows) for one in lost), TimeWindow(lost[0].span.start_ms, lost[-1].span.end_ms)
    windows = f"{count} window{'' if count == 1 else 's'}"
    command = run.config.command(f"run --window {span}")
    return (f"{windows} before it, {span}, {'was' if count == 1 else 'were'} not ingested: `{command}` does so",)


def last_window(config: PipelineConfig, now_ms: int) -> TimeWindow:
    window_ms = milliseconds_of(config.window)
    end_ms = now_ms - milliseconds_of(config.grace)
    end_ms -= end_ms % window_ms
    return TimeWindow(end_ms - window_ms, end_ms)


def _as_text(document: dict[str, Any], *, with_counts: bool) -> str:
    lines = [f"windows {document['window']}"]
    for entry in document["clusters"]:
        said = [entry["verdict"], *(f"  note: {note}" for note in entry["notes"])]
        said += [f"  warning: {warning}" for warning in entry["warnings"]]
        verdict, *others = (escape_hidden(line, keep="\n") for line in said)
        lines += ["", paint(verdict, "ok" if entry["is_healthy"] else "fail"), *others]
    if document["mails"]:
        lines += ["", *(f"mail: {address}" for address in document["mails"])]
    if with_counts:
        lines += ["", *(f"{count:>12,}  {name}" for name, count in document["row_counts"].items())]
    return "\n".join(lines) + "\n"
