"""SIGKILL at drawn moments after the Action that queues incidents has begun: before, during and after the outbox's commit."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from expectations.actions import QueueIncidents
from pipeline.jobs import raise_incidents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.faults.bed import Bed, Outcome

KILLS_OF_A_TRY = 6
FAULT = "SIGKILL around `QueueIncidents`"
PLACES = ("before the outbox's commit", "during it", "after it")
"""Where a kill fell: by the last mark that the process left."""


def kill_around_action(bed: Bed, count: int, seed: int) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """Tries whose runs are killed once `QueueIncidents` has begun: where each kill fell, and what it cost."""
    rng, killed = random.Random(seed), 0
    marks = bed.folder / "action.txt"
    length_s = _time_action(bed, marks)
    while killed < count:
        bed.restore("health")
        arrived, places = len(bed.post.list_arrived()), []
        for hours in range(KILLS_OF_A_TRY):
            marks.unlink(missing_ok=True)
            child = bed.start(bed.work, ("health", "deliver"), hours=hours, prepare=partial(_mark_action, marks))
            while not marks.exists() and not child.poll():
                time.sleep(0.001)
            ends_s = time.monotonic() + rng.uniform(0.0, 1.5) * length_s
            while time.monotonic() < ends_s and not child.poll():
                time.sleep(0.001)
            if child.kill() and marks.exists():
                places.append(f"{FAULT}, {PLACES[len(marks.read_text().split()) - 1]}")
        killed += len(places)
        outcome = bed.recover(arrived, faults=len(places), hours=KILLS_OF_A_TRY)
        if places:
            yield tuple(places), outcome


def _mark_action(marks: Path) -> None:
    """In a child: has the Action leave a word when it begins, and the outbox one before and one after its commit."""
    run, write = QueueIncidents.run, raise_incidents.insert_rows

    def mark(word: str) -> None:
        with marks.open("a") as file:
            file.write(f"{word}\n")

    def run_marked(action: QueueIncidents, *args: Any, **others: Any) -> Any:
        mark("begun")
        return run(action, *args, **others)

    def write_marked(*args: Any, **others: Any) -> int:
        mark("committing")
        version = write(*args, **others)
        mark("outbox")
        return version

    QueueIncidents.run = run_marked  # type: ignore[method-assign]
    raise_incidents.insert_rows = write_marked


def _time_action(bed: Bed, marks: Path) -> float:
    """Seconds from the Action's begin to the outbox's commit, undisturbed."""
    bed.restore("health")
    marks.unlink(missing_ok=True)
    child = bed.start(bed.work, ("health",), prepare=partial(_mark_action, marks))
    while not marks.exists() and not child.poll():
        time.sleep(0.001)
    began_s = time.monotonic()
    while len(marks.read_text().split()) < len(PLACES) and not child.poll():
        time.sleep(0.001)
    length_s = time.monotonic() - began_s
    child.wait()
    return length_s
