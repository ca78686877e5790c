"""Two runs at one time, over the same windows and over neighbours; clocks that jump between runs."""

from __future__ import annotations

import random
import shutil
import time
from typing import TYPE_CHECKING

from tests.lab.faults.bed import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.faults.bed import Bed, Outcome

_JUMPS_H = (-24 * 3, -2, 0, 24, 24 * 40)


def run_side_by_side(bed: Bed, count: int, seed: int, *, same: bool) -> Iterator[tuple[str, Outcome]]:
    """Two runs that begin within a second of each other, then one that is left alone."""
    rng = random.Random(seed)
    for _ in range(count):
        folder, arrived = bed.restore("ingest"), len(bed.post.list_arrived())
        spans = (bed.span, bed.span) if same else rng.sample(bed.halves, 2)
        children = []
        for number, span in enumerate(spans):
            own = folder / f"run-{number}"  # of what a run says; the warehouse is one
            shutil.copytree(folder, own, ignore=shutil.ignore_patterns("run-*", "warehouse"))
            text = (own / "partition-health.yaml").read_text()
            for name in ("warehouse", "outbox"):
                text = text.replace(f"{name}: {name}", f"{name}: {folder / name}")
            (own / "partition-health.yaml").write_text(text)
            children.append(bed.start(own, span=span))
            time.sleep(rng.random())
        said = [answer[1] for code, answer in (child.wait() for child in children) if code]
        outcome = bed.recover(arrived, faults=0)
        outcome.said += said
        yield "run", outcome


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
