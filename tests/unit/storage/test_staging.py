"""Folders of runs' parts. Oracle: processes that live, end and are killed."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from pyarrow import fs

from pipeline.config.storage import RemoteFolder, Storage
from pipeline.environment import private_temporary_folder
from pipeline.errors import StorageError
from pipeline.storage.locks import FOLDER, open_staging_folder

ROOT = Path(__file__).parents[3]
TWO_DAYS_S = 2 * 86_400
HOLD = """
import sys
from pathlib import Path
from pipeline.storage.locks import open_staging_folder
with open_staging_folder(Path(sys.argv[1])) as folder:
    (folder / "part.parquet").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


class OfAStore(RemoteFolder):
    """As in an object store, on this machine's disk."""

    def file_system(self):
        return fs.LocalFileSystem()


def age(path, seconds=TWO_DAYS_S):
    then = time.time() - seconds
    os.utime(path, (then, then))


def list_folders(warehouse):
    return sorted(path.name for path in (warehouse / FOLDER).iterdir())


@pytest.fixture
def other(tmp_path):
    """Another process that runs, and its folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        yield process, Path(process.stdout.readline().strip())
        if process.poll() is None:
            process.stdin.close()


def test_only_its_owner_reads_it_and_it_is_gone_after(tmp_path):
    with open_staging_folder(tmp_path) as folder:
        (folder / "part.parquet").touch()
        assert folder.parent == tmp_path / FOLDER
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)] == [stat.S_IRWXU] * 2
    assert list_folders(tmp_path) == []


def test_a_temporary_folder_is_of_its_user_alone_even_where_its_name_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = private_temporary_folder()
    assert private_temporary_folder() == first
    first.chmod(0o777)
    other = private_temporary_folder()
    assert other != first
    assert stat.S_IMODE(other.stat().st_mode) == stat.S_IRWXU


def test_it_is_gone_after_an_error(tmp_path):
    with contextlib.suppress(KeyError), open_staging_folder(tmp_path) as folder:
        (folder / "part.parquet").touch()
        raise KeyError("of a job")
    assert list_folders(tmp_path) == []


def test_the_folder_of_a_run_that_lives_stays_however_old(tmp_path, other):
    _, theirs = other
    age(theirs)
    with open_staging_folder(tmp_path) as ours:
        assert list_folders(tmp_path) == sorted([ours.name, theirs.name])
    assert list_folders(tmp_path) == [theirs.name]
    assert (theirs / "part.parquet").exists()


def test_the_folder_of_a_run_that_was_killed_goes_with_the_next_run(tmp_path, other):
    process, theirs = other
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list_folders(tmp_path) == [theirs.name]
    with open_staging_folder(tmp_path) as ours:
        assert list_folders(tmp_path) == [ours.name]


@pytest.mark.parametrize(("seconds", "stays"), [(0, True), (TWO_DAYS_S, False)])
def test_a_folder_without_a_lock_stays_while_it_may_be_a_run_that_begins(tmp_path, seconds, stays):
    begun = tmp_path / FOLDER / ("be" * 16)
    begun.mkdir(parents=True)
    age(begun, seconds)
    with open_staging_folder(tmp_path):
        pass
    assert begun.exists() == stays
    assert not stays or list(begun.iterdir()) == []


def test_what_no_run_made_stays(tmp_path):
    """`_staging` may be a link to a larger disk that others use too."""
    theirs = tmp_path / "disk/photos"
    theirs.mkdir(parents=True)
    (tmp_path / FOLDER).symlink_to(theirs.parent)
    link = theirs.with_name("ab" * 16)
    link.symlink_to(theirs)
    age(theirs)
    with open_staging_folder(tmp_path) as ours:
        assert list_folders(tmp_path) == sorted([ours.name, theirs.name, link.name])
    assert list_folders(tmp_path) == sorted([theirs.name, link.name])


@pytest.mark.parametrize(("seconds", "stays"), [(0, True), (TWO_DAYS_S, False)])
def test_in_a_store_age_tells_what_was_left(tmp_path, seconds, stays):
    left = tmp_path / FOLDER / "left/part.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    age(left, seconds)
    with open_staging_folder(OfAStore(f"file://{tmp_path}", Storage())) as folder:
        ours = Path(folder.location.removeprefix("file://"))
        ours.mkdir()
        (ours / "part.parquet").touch()
    assert not ours.exists()
    assert left.exists() == stays


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / FOLDER).touch()
    with pytest.raises(StorageError, match=f"{FOLDER}.*free space or repair the folder"), open_staging_folder(tmp_path):
        pass
