"""Processes of Spark killed while they work: an executor, a worker of Python, the JVM of the driver; then a run left alone."""

from __future__ import annotations

import contextlib
import random
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import psutil

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts
from pipeline.steps import STEPS, take_steps
from tests.integration.standalone_cluster import standalone_cluster
from tests.lab.faults.bed import CONFIG, Child
from tests.spark.capture_runs import plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.faults.bed import Bed, Outcome

VICTIMS = {
    "executor lost": "CoarseGrainedExecutorBackend",
    "Python worker killed": "spark_daemon",
    "driver's JVM killed": "SparkSubmit",
}
"""What the command line of each holds."""
_LOOK_S = 0.02


def kill_spark(bed: Bed, count: int, seed: int, *, fault: str) -> Iterator[tuple[str, Outcome]]:
    """Runs in which Spark does all work of ingest and replay, and loses a process of it at a drawn moment."""
    rng, killed = random.Random(seed), 0
    with ExitStack() as stack:
        master = "local[2]"
        if fault == "executor lost":
            (bed.folder / "cluster").mkdir(exist_ok=True)
            master = stack.enter_context(standalone_cluster(bed.folder / "cluster")).address
        settings = Spark(master=master, driver_memory="1g", conf={"spark.executor.memory": "1g"})
        lasts_s = _run(bed, settings, VICTIMS[fault], None)[1]
        while killed < count:
            arrived = len(bed.post.list_arrived())
            child, _ = _run(bed, settings, VICTIMS[fault], rng.random() * lasts_s)
            if child is None:
                continue  # it was over before
            killed += 1
            code, answer = child.wait()
            outcome = bed.recover(arrived, faults=1)
            if code and (not answer[0] or "\n" in answer[1]):
                outcome.lost.append(f"no error of one line: {answer[1][:300]}")
            outcome.said.append(answer[1] if code else "it went on by itself")
            yield "run", outcome


def _run(bed: Bed, settings: Spark, victim: str, after_s: float | None) -> tuple[Child | None, float]:
    """A run that loses the processes that are there so long after the first of them came; none without `after_s`.

    Returns the child, None where it ended before; and the seconds from the first of these processes to its end.
    """
    folder = bed.restore("ingest")
    child = Child(partial(_take_steps, bed, folder, settings), folder)
    while not (found := _find(victim)) and not child.poll():
        time.sleep(_LOOK_S)
    began_s = time.monotonic()
    while not child.poll():
        found = _find(victim) if after_s is not None and time.monotonic() > began_s + after_s else []
        if found:
            for process in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            return child, after_s or 0.0
        time.sleep(_LOOK_S)
    assert after_s is not None or child.code == 0, (folder / "output.txt").read_text()
    return None, time.monotonic() - began_s


def _find(victim: str) -> list[psutil.Process]:
    """Processes below this one whose command line holds a text."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any(victim in word for word in process.cmdline()):
                found.append(process)
    return found


def _take_steps(bed: Bed, folder: Path, settings: Spark) -> None:
    """As the command `run` does."""
    config = load_config(folder / CONFIG).model_copy(update={"spark": settings})
    context = plan(config, bed.span, now_ms=bed.span.end_ms + 60_000)
    _, errors = take_steps((context,), STEPS, lambda *_: None)
    deliver_alerts.run(config, config.mail.smtp, now_ms=context.now_ms).check()
    if errors:
        raise errors[0]
