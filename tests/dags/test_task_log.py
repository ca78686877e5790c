"""The end of a task's log in a failure mail. Oracle: lines in the form of Airflow's file handler, by hand."""

import json

import pytest

from dags.notifiers import LOG_LINES, read_tail


@pytest.fixture
def log(tmp_path):
    def write(*lines):
        path = tmp_path / "attempt=1.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_structured_lines_become_readable_and_only_the_last_are_kept(log):
    entries = [
        {"timestamp": f"2026-11-21T09:00:{n:02}.123456Z", "level": "info", "event": f"step\n{n}"} for n in range(50)
    ]
    told = read_tail(log(*(json.dumps(entry) for entry in entries)))

    assert len(told) == LOG_LINES
    assert told[-1] == "2026-11-21T09:00:49 info step 49"


def test_other_lines_stay_as_they_are_and_long_ones_are_cut(log):
    assert read_tail(log("Killed", "x" * 10_000, "[1, 2]")) == ("Killed", "x" * 300, "[1, 2]")


def test_a_log_that_lies_elsewhere_is_left_out(tmp_path):
    assert read_tail(tmp_path / "nowhere.log") == ()
