"""Clusters side by side in a few processes: one that fails, crashes, hangs or runs out of memory is replaced, and stops no other."""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from pipeline.environment import count_steps_at_once
from pipeline.errors import PipelineError
from pipeline.model.number_text import format_span
from pipeline.model.window import milliseconds_of
from pipeline.progress import Progress
from pipeline.runs import RunContext
from pipeline.steps import Step, StepReport, take_steps

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
                    reason = f"its process was killed by signal {-code}, perhaps as memory was short; run again"
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
