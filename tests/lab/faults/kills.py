"""SIGKILL at drawn moments of drawn jobs, twelve in a row, then a run left alone."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from tests.lab.faults.bed import JOBS, STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.faults.bed import Bed, Outcome

KILLS_OF_A_TRY = 12


def kill_runs(bed: Bed, count: int, seed: int) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """Tries until so many runs were killed: the jobs that died, and what it cost."""
    rng, killed = random.Random(seed), 0
    while killed < count:
        aimed_at = JOBS[killed // KILLS_OF_A_TRY % len(JOBS)]
        jobs, outcome = kill_once(bed, aimed_at, rng)
        killed += len(jobs)
        if jobs:
            yield jobs, outcome


def kill_once(bed: Bed, aimed_at: str, rng: random.Random) -> tuple[tuple[str, ...], Outcome]:
    """A try that begins before a job; its runs are killed in it, or in what comes next."""
    step = "health" if aimed_at == "raise" else aimed_at
    folder, arrived = bed.restore(step), len(bed.post.list_arrived())
    jobs: list[str] = []
    steps = STEPS[STEPS.index(step) :]
    for hours in range(KILLS_OF_A_TRY):
        marks = folder / "marks.txt"
        marks.unlink(missing_ok=True)
        since_s, child = time.time(), bed.start(folder, steps, hours=hours)
        while not (marks.exists() and marks.read_text()) and not child.poll():
            time.sleep(0.001)
        while aimed_at == "raise" and bed.find_job(folder, since_s) == "health" and not child.poll():
            time.sleep(0.001)
        ends_s = time.monotonic() + rng.uniform(0.0, 0.5 if aimed_at == "raise" else 1.0) * bed.durations_s[step]
        while time.monotonic() < ends_s and not child.poll():
            time.sleep(0.001)
        if child.kill():
            jobs.append(bed.find_job(folder, since_s))
    return tuple(jobs), bed.recover(arrived, faults=len(jobs), hours=KILLS_OF_A_TRY)
