"""Power cuts: what was written and not synced is gone. One run notes every fsync; any of them can be the last.

Of what was not synced nobody knows what survives. So each cut is tried in several ways: names that no sync of their folder
vouches for are gone; or they are there and their files are empty; or only the data are, and the commits survive in full.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.lab.faults.bed import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.faults.bed import Bed, Outcome

_DELETE = re.compile(r"(/\S+\.json): the last commit is empty or cut, or its data are")
_MOST_REPAIRS = 40


class Sync(NamedTuple):
    """One fsync: of which path, a file's content or a folder's names; all paths there were, and the mails sent by then."""

    path: Path
    content: bytes | None
    names: frozenset[str]
    present: frozenset[Path]
    mail_count: int


def cut_power(bed: Bed, count: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Tries that begin with what a cut leaves; the run after it follows what errors advise."""
    rng = random.Random(seed)
    for step in ("ingest", "deliver"):
        folder, arrived = bed.restore(step), len(bed.post.list_arrived())
        noted = bed.folder / "syncs.pickle"
        bed.start(folder, STEPS[STEPS.index(step) :], prepare=partial(_note_syncs, bed, folder, noted, arrived)).wait()
        syncs: list[Sync] = []
        with noted.open("rb") as file:
            while file.peek(1):
                syncs.append(pickle.load(file))
        noted.unlink()
        moments = sorted(
            rng.sample(range(len(syncs)), min(len(syncs), max(1, count // 6)))
        )  # by step and by what is kept
        for last in moments:
            for kept in ("synced", "names", "commits"):
                restored = bed.restore(step)
                _leave_synced(restored, syncs, last, kept)
                sent = syncs[min(last + 1, len(syncs) - 1)].mail_count  # by the time of the next sync
                yield step, _recover(bed, arrived, sent)


def _note_syncs(bed: Bed, folder: Path, noted: Path, arrived: int) -> None:
    """Has `os.fsync`, through which all of the product's syncs go, note what it syncs."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        is_folder = path.is_dir()
        sync = Sync(
            path.relative_to(folder),
            None if is_folder else path.read_bytes(),
            frozenset(one.name for one in path.iterdir()) if is_folder else frozenset(),
            frozenset(one.relative_to(folder) for one in folder.rglob("*")),
            len(bed.post.list_arrived()) - arrived,
        )
        with noted.open("ab") as file:
            pickle.dump(sync, file)

    os.fsync = fsync


def _leave_synced(folder: Path, syncs: list[Sync], last: int, kept: str) -> None:
    """Makes of a folder as it was before a run what is left where one sync was the last."""
    before = {path.relative_to(folder) for path in folder.rglob("*")}
    done, present = syncs[: last + 1], syncs[last].present
    contents = {sync.path: sync.content for sync in done if sync.content is not None}
    names = {sync.path: sync.names for sync in done if sync.content is None}
    if kept == "commits":
        later = {sync.path: sync.content for sync in syncs if sync.content is not None and sync.path.suffix == ".json"}
        contents = later | contents
    for path in sorted(present - before):
        is_named = path.name in names.get(path.parent, ())
        if (kept == "synced" and not is_named) or not (folder / path.parent).is_dir():
            continue
        if any(other.parent == path for other in present):
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(contents.get(path, b""))
    for path in before & {sync.path for sync in done if sync.content is not None}:
        (folder / path).write_bytes(contents[path] or b"")


def _recover(bed: Bed, arrived: int, sent: int) -> Outcome:
    """Runs again, deleting the files that errors say to delete."""
    mails = bed.post.list_arrived()[arrived:][:sent]
    already = len(bed.post.list_arrived())
    repairs = []
    while True:
        outcome = bed.recover(already, faults=1, force=bool(repairs), earlier=mails)
        wanted = _DELETE.search(" ".join(outcome.lost))
        if wanted is None or len(repairs) == _MOST_REPAIRS:
            outcome.said += repairs
            return outcome
        repairs.append(wanted[1])
        Path(wanted[1]).unlink()
        shutil.rmtree(bed.work / "spare", ignore_errors=True)
