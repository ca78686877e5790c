"""Two runs at one time, over the same windows and over neighbours; clocks that jump between runs."""

from __future__ import annotations

import random
import shutil
import signal
import time
from typing import TYPE_CHECKING

from tests.lab.faults.bed import CONFIG, STEPS
from tests.lab.faults.kills import judge_end, recover, wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pipeline.model.window import TimeWindow
    from tests.lab.faults.bed import Bed, Child, Outcome

_PAIRS_OF_A_TRY = 6
_SAME = 0.5  # chance that both runs take the same windows
_JUMPS_H = (-24 * 3, -2, 0, 24, 24 * 40)


def run_side_by_side(bed: Bed, count: int, seed: int, *, same: bool) -> Iterator[tuple[str, Outcome]]:
    """Two runs that begin within a second of each other, then one that is left alone."""
    rng = random.Random(seed)
    for _ in range(count):
        folder, arrived = bed.restore("ingest"), len(bed.post.list_arrived())
        children = []
        for own, span in zip(make_rivals(folder), draw_spans(bed, rng, same=same), strict=True):
            children.append(bed.start(own, span=span))
            time.sleep(rng.random())
        said = [answer[1] for code, answer in (child.wait() for child in children) if code]
        outcome = bed.recover(arrived, faults=0)
        outcome.said += said
        yield "run", outcome


def draw_spans(bed: Bed, rng: random.Random, *, same: bool) -> tuple[TimeWindow, ...]:
    """Windows of two runs: the same, or neighbours in any order."""
    return (bed.span, bed.span) if same else tuple(rng.sample(bed.halves, 2))


def make_rivals(folder: Path) -> tuple[Path, ...]:
    """Folders of two runs, for what each says; the warehouse is one."""
    made = []
    for number in range(2):
        own = folder / f"run-{number}"
        shutil.copytree(folder, own, ignore=shutil.ignore_patterns("run-*", "warehouse"))
        text = (own / CONFIG).read_text()
        for name in ("warehouse", "outbox"):
            text = text.replace(f"{name}: {name}", f"{name}: {folder / name}")
        (own / CONFIG).write_text(text)
        made.append(own)
    return tuple(made)


def kill_side_by_side(bed: Bed, count: int, seed: int) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """Pairs of runs on one warehouse, of which one or both are killed at drawn moments, up to six pairs in a row, until so many died.

    The pairs of a try begin before the same drawn step. Of most pairs both die: a run that survives takes as long as many kills.
    """
    rng, killed = random.Random(seed), 0
    while killed < count:
        steps = STEPS[rng.randrange(len(STEPS) - 1) :]
        folder, arrived = bed.restore(steps[0]), len(bed.post.list_arrived())
        jobs: list[str] = []
        wrong: list[str] = []
        folders = make_rivals(folder)
        for hours in range(_PAIRS_OF_A_TRY):
            children = _start_pair(bed, folders, steps, rng, hours)
            jobs += _kill_some(bed, children, folders, steps, rng)
            for child in children:
                if child.wait()[0] != -signal.SIGKILL:
                    wrong += judge_end(child)
            if any(child.code == 0 for child in children):
                break  # little is left to disturb
        killed += len(jobs)
        if jobs:
            outcome = recover(bed, arrived, jobs)
            outcome.lost += wrong
            yield tuple(f"on Spark: two runs, SIGKILL in {job}" for job in jobs), outcome


def _start_pair(bed: Bed, folders: Sequence[Path], steps: Sequence[str], rng: random.Random, hours: int) -> list[Child]:
    """Two runs within a second of each other, over the same windows or over neighbours."""
    spans, children = draw_spans(bed, rng, same=rng.random() < _SAME), []
    for own, span in zip(folders, spans, strict=True):
        (own / "marks.txt").unlink(missing_ok=True)
        children.append(bed.start(own, steps, span=span, hours=hours))
        time.sleep(rng.random())
    for child, own in zip(children, folders, strict=True):
        bed.wait_for_step(child, own)
    return children


def _kill_some(
    bed: Bed, children: Sequence[Child], folders: Sequence[Path], steps: Sequence[str], rng: random.Random
) -> list[str]:
    """Kills one of two runs, or both, at drawn moments; the steps that died."""
    lasts_s = sum(bed.durations_s[step] for step in steps)
    ends_s = sorted(rng.random() * lasts_s for _ in range(rng.choice((1, 2, 2, 2))))
    began_s, jobs = time.monotonic(), []
    for end_s, victim in zip(ends_s, rng.sample((0, 1), 2), strict=False):
        wait(children[victim], began_s + end_s - time.monotonic())
        if children[victim].kill():
            jobs.append((folders[victim] / "marks.txt").read_text().split()[-1])
    return jobs


def jump_clocks(bed: Bed, count: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """A run killed while it delivers, then runs whose clocks are days behind and weeks ahead, in any order."""
    rng = random.Random(seed)
    for _ in range(count):
        folder, arrived = bed.restore("deliver"), len(bed.post.list_arrived())
        child = bed.start(folder, ("deliver",))
        ends_s = time.monotonic() + rng.random() * bed.durations_s["deliver"]
        while time.monotonic() < ends_s and not child.poll():
            time.sleep(0.001)
        faults = int(child.kill())
        for hours in rng.sample(_JUMPS_H, 3):
            bed.start(folder, STEPS[STEPS.index("health") :], hours=hours).wait()
        yield "run", bed.recover(arrived, faults=faults, hours=24 * 41)
