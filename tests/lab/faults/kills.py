"""SIGKILL at drawn moments of drawn jobs, many in a row, then a run left alone."""

from __future__ import annotations

import random
import time
from itertools import count as count_from
from typing import TYPE_CHECKING

import psutil

from tests.lab.faults.bed import JOBS, STEPS, kill_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.faults.bed import Bed, Child, Outcome

KILLS_OF_A_TRY = 12
WHOLE_KILLS_OF_A_TRY = 16
VICTIMS = {"JVM": "SparkSubmit", "Python worker": "spark_daemon"}
"""What the command line of each holds."""
AIMS = ("ingest", "a mail", "replay", "health", "raise", "gate")
"""What tries begin before, in turn."""
_AT_A_MAIL_S = 0.02
_AFTER_INCIDENTS_S = 0.5
_LOOK_S = 0.001


def kill_runs(bed: Bed, count: int, seed: int) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """Tries until so many runs were killed: the jobs that died, and what it cost."""
    rng, killed = random.Random(seed), 0
    while killed < count:
        aimed_at = JOBS[killed // KILLS_OF_A_TRY % len(JOBS)]
        jobs, outcome = kill_once(bed, aimed_at, rng)
        killed += len(jobs)
        if jobs:
            yield tuple(f"SIGKILL in {job}" for job in jobs), outcome


def kill_once(bed: Bed, aimed_at: str, rng: random.Random) -> tuple[tuple[str, ...], Outcome]:
    """A try that begins before a job; its runs are killed in it, or in what comes next."""
    step = "health" if aimed_at == "raise" else aimed_at
    folder, arrived = bed.restore(step), len(bed.post.list_arrived())
    jobs: list[str] = []
    steps = STEPS[STEPS.index(step) :]
    for hours in range(KILLS_OF_A_TRY):
        (folder / "marks.txt").unlink(missing_ok=True)
        since_s, child = time.time(), bed.start(folder, steps, hours=hours)
        bed.wait_for_step(child, folder)
        if aimed_at == "raise":
            wait_for_incidents(bed, child, folder, since_s)
        wait(child, rng.uniform(0.0, 0.5 if aimed_at == "raise" else 1.0) * bed.durations_s[step])
        if child.kill():
            jobs.append(bed.find_job(folder, since_s))
    return tuple(jobs), recover(bed, arrived, jobs)


def kill_whole_runs(bed: Bed, count: int, seed: int) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """As `kill_runs`, of an engine with a JVM, until so many runs died with it and its workers; some lose only a part besides."""
    rng, killed = random.Random(seed), 0
    for number in count_from(rng.randrange(len(AIMS))):
        if killed >= count:
            return
        aimed_at = AIMS[number % len(AIMS)]
        step = "health" if aimed_at in {"a mail", "raise"} else aimed_at
        folder, arrived = bed.restore(step), len(bed.post.list_arrived())
        jobs: list[str] = []
        wrong: list[str] = []
        for hours in range(WHOLE_KILLS_OF_A_TRY):
            (folder / "marks.txt").unlink(missing_ok=True)
            since_s, child = time.time(), bed.start(folder, STEPS[STEPS.index(step) :], hours=hours)
            bed.wait_for_step(child, folder)
            victim = "run" if aimed_at in {"a mail", "raise"} else rng.choice(("run",) * 6 + (*VICTIMS,))
            if aimed_at == "a mail":
                wait_for_mail(bed, child)
                wait(child, rng.uniform(0.0, _AT_A_MAIL_S))
            elif aimed_at == "raise":
                wait_for_incidents(bed, child, folder, since_s)
                wait(child, rng.uniform(0.0, _AFTER_INCIDENTS_S))
            else:
                wait(child, rng.random() * bed.durations_s[step])
            job = bed.find_job(folder, since_s)
            if victim != "run" and kill_part(child, VICTIMS[victim]):
                jobs.append(f"{victim} killed in {job}")
                wrong += judge_end(child)
            elif child.kill():
                killed += 1
                jobs.append(f"as a mail arrives, {job}" if aimed_at == "a mail" else job)
            if child.code == 0:
                break  # nothing is left to disturb
        if jobs:
            outcome = recover(bed, arrived, jobs)
            outcome.lost += wrong
            yield tuple(_name_row(job) for job in jobs), outcome


def _name_row(job: str) -> str:
    part = next((victim for victim in VICTIMS if job.startswith(victim)), "")
    where = "as a mail arrives" if job.startswith("as a mail") else f"in {job}"
    return f"on Spark: {part} killed" if part else f"on Spark: SIGKILL {where}"


def wait(child: Child, seconds: float) -> None:
    """Waits so long, or until it ends."""
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s and not child.poll():
        time.sleep(_LOOK_S)


def wait_for_mail(bed: Bed, child: Child) -> None:
    """Waits until one more mail has arrived, or it ends."""
    have = len(bed.post.list_arrived())
    while len(bed.post.list_arrived()) == have and not child.poll():
        time.sleep(_LOOK_S)


def wait_for_incidents(bed: Bed, child: Child, folder: Path, since_s: float) -> None:
    """Waits until incidents are written, or it ends."""
    while bed.find_job(folder, since_s) != "raise" and not child.poll():
        time.sleep(_LOOK_S)


def kill_part(child: Child, holds: str) -> bool:
    """Kills the processes of a run whose command line holds a text; False where there are none."""
    if child.poll():
        return False
    found = [one for one in psutil.Process(child.pid).children(recursive=True) if _is(one, holds)]
    kill_all(found)
    return bool(found)


def _is(process: psutil.Process, holds: str) -> bool:
    try:
        return any(holds in word for word in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def judge_end(child: Child) -> list[str]:
    """What is wrong with the end of a run that lost a process: it may go on, or end by one line."""
    code, answer = child.wait()
    is_right = code == 0 or (code > 0 and answer is not None and answer[0] and "\n" not in answer[1])
    return [] if is_right else [f"no error of one line: exit code {code}, {str(answer)[:300]}"]


def recover(bed: Bed, arrived: int, jobs: list[str]) -> Outcome:
    """A run left alone; a kill that hits a delivery may repeat one mail once."""
    hits = sum(job.endswith("deliver") and "killed" not in job for job in jobs)
    outcome = bed.recover(arrived, faults=hits, hours=WHOLE_KILLS_OF_A_TRY)
    if outcome.repeats > hits:
        outcome.doubled.append(f"{outcome.repeats} repeats, and {hits} kills of deliveries")
    return outcome
