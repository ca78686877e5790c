"""A warehouse on a small file system of its own: full after so many bytes, or read-only."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from pipeline.storage import data_files, maintenance, rows
from tests.lab.faults.bed import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.faults.bed import Bed, Outcome

AT_A_COMMIT = "disk full when a commit begins"
_PAGE_BYTES = 4096
_LARGE = "256m"


def may_mount(folder: Path) -> bool:
    """Whether this process may mount file systems."""
    with contextlib.suppress(subprocess.CalledProcessError, FileNotFoundError), mounted(folder / "probe", "64k"):
        return True
    return False


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own in a folder."""
    folder.mkdir(exist_ok=True)
    run_tool("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield
    finally:
        run_tool("umount", folder)


def run_tool(*command: object) -> None:
    """Runs `mount` or `umount`."""
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def fill_disks(bed: Bed, tries: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Runs from each step on whose disk is full after a drawn number of pages."""
    rng = random.Random(seed)
    for number in range(tries):
        step = STEPS[number % len(STEPS)]
        yield _try(bed, step, room=rng.randrange(_count_pages(bed, step)), then=f"remount,size={_LARGE}")


def forbid_writing(bed: Bed) -> Iterator[tuple[str, Outcome]]:
    """Runs from each step on whose warehouse is read-only."""
    for step in STEPS:
        yield _try(bed, step, room=None, then=f"remount,rw,size={_LARGE}")


def fill_at_commits(bed: Bed) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """Runs of each step whose disk is full when the first commit begins, then the second and so on; at last one that is left alone."""
    for step in STEPS:
        arrived, wrong, said = len(bed.post.list_arrived()), [], []
        shutil.rmtree(bed.work, ignore_errors=True)
        with mounted(bed.work, _LARGE):
            shutil.copytree(bed.folder / "before" / step, bed.work, dirs_exist_ok=True)
            filler = bed.work / "filler"
            while True:
                prepare = partial(_fill_at_commit, len(said), filler)
                code, answer = bed.start(bed.work, (step,), hours=len(said), prepare=prepare, log=bed.folder).wait()
                if not filler.exists():
                    break
                filler.unlink()
                is_ours, words = answer if code else (True, "")
                wrong += [] if is_ours and "\n" not in words else [f"no error of one line: {words[:300]}"]
                said.append(words)
            outcome = bed.recover(arrived, faults=len(said), hours=len(said) + 1)
        outcome.lost += wrong
        outcome.said += said
        yield (AT_A_COMMIT,) * len(said), outcome


def _fill_at_commit(number: int, filler: Path) -> None:
    """In a child: fills the disk when the commit of a number, counted from 0, begins."""
    begun, commit = count(), rows.commit

    def commit_on_full_disk(*args: Any, **others: Any) -> int:
        if next(begun) == number:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(_PAGE_BYTES)):
                    pass
        return commit(*args, **others)

    for module in (rows, data_files, maintenance):
        module.commit = commit_on_full_disk


def _try(bed: Bed, step: str, *, room: int | None, then: str) -> tuple[str, Outcome]:
    """A run that fails for want of `room` pages, or of leave to write (None); then one that is left alone."""
    source, arrived = bed.folder / "before" / step, len(bed.post.list_arrived())
    shutil.rmtree(bed.work, ignore_errors=True)
    with mounted(bed.work, _LARGE):
        shutil.copytree(source, bed.work, dirs_exist_ok=True)
        (bed.work / "output.txt").write_bytes(bytes(_PAGE_BYTES))  # what a child says needs room, too
        limit = "remount,ro" if room is None else f"remount,size={_used_bytes(bed.work) + room * _PAGE_BYTES}"
        run_tool("mount", "-o", limit, bed.work)
        code, answer = bed.start(bed.work, STEPS[STEPS.index(step) :], log=bed.folder).wait()
        run_tool("mount", "-o", then, bed.work)
        outcome = bed.recover(arrived, faults=int(room is not None))
        is_ours, words = answer if code else (True, "")
        if not is_ours or "\n" in words:
            outcome.lost.append(f"no error of one line: {words[:300]}")
        outcome.said.append(words)
    return step, outcome


def _count_pages(bed: Bed, step: str) -> int:
    """Pages that the rest of the run adds."""
    after = _used_bytes(bed.folder / "undisturbed")
    return (after - _used_bytes(bed.folder / "before" / step)) // _PAGE_BYTES


def _used_bytes(folder: Path) -> int:
    """Bytes of the pages that hold the files."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // _PAGE_BYTES) * _PAGE_BYTES for size in sizes)
