"""Locks between processes. Oracle: real processes, one of them killed."""

import signal
import subprocess
import sys

import pytest

from pipeline.errors import StorageError
from pipeline.storage.locks import holding

HOLDER = """
import sys
from pathlib import Path
from pipeline.storage.locks import holding
with holding(Path(sys.argv[1]), sys.argv[2], wait=True) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""


def start(folder, name):
    arguments = [sys.executable, "-c", HOLDER, str(folder), name]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_one_process_holds_a_lock_and_a_kill_frees_it_for_the_next(tmp_path):
    first = start(tmp_path, "judging-demo")
    assert first.stdout.readline() == "True\n"
    second = start(tmp_path, "judging-demo")
    with holding(tmp_path, "judging-demo", wait=False) as is_ours:
        assert not is_ours
    with holding(tmp_path, "judging-other", wait=False) as is_ours:
        assert is_ours
    assert second.poll() is None
    first.send_signal(signal.SIGKILL)
    assert second.stdout.readline() == "True\n"
    for process in (first, second):
        process.communicate()


def test_a_folder_that_cannot_hold_a_lock_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match=r"file: .*free space or repair the folder"),
        holding(tmp_path / "file", "lock", wait=True),
    ):
        pass
