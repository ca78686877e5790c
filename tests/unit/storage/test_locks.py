"""Locks between processes. Oracle: real processes, one of them killed."""

import logging
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
with holding(Path(sys.argv[1]), sys.argv[2]) as is_ours:
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
    with holding(tmp_path, "judging-demo", wait_s=0) as is_ours:
        assert not is_ours
    with holding(tmp_path, "judging-other", wait_s=0) as is_ours:
        assert is_ours
    assert second.poll() is None
    first.send_signal(signal.SIGKILL)
    assert second.stdout.readline() == "True\n"
    for process in (first, second):
        process.communicate()


class EndAtFirstWord(logging.Handler):
    def __init__(self, process):
        super().__init__()
        self.process, self.said = process, []

    def emit(self, record):
        self.said.append(record.getMessage())
        self.process.communicate()


def test_no_other_user_may_open_a_lock_and_who_waits_says_so(tmp_path):
    lock = tmp_path / ".judging-demo"
    lock.touch(0o644)  # as an earlier version left it
    holder = start(tmp_path, "judging-demo")
    assert holder.stdout.readline() == "True\n"
    assert lock.stat().st_mode & 0o777 == 0o600
    handler = EndAtFirstWord(holder)
    logging.getLogger("pipeline.storage.locks").addHandler(handler)
    with holding(tmp_path, "judging-demo") as is_ours:
        assert is_ours
    logging.getLogger("pipeline.storage.locks").removeHandler(handler)
    assert handler.said == [f"{lock} is held by another process: waiting until it ends"]


def test_a_folder_that_cannot_hold_a_lock_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match=r"file: .*free space or repair the folder"),
        holding(tmp_path / "file", "lock"),
    ):
        pass
