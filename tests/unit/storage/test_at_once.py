"""Tables written side by side: what one job's threads leave behind."""

import threading

import pytest

from pipeline.storage.data_files import write_at_once

WAIT_S = 600


def test_versions_come_in_the_order_of_the_functions_however_they_end():
    ended = threading.Event()

    def first():
        assert ended.wait(WAIT_S), "the second was not run beside the first"
        return {"a": 1, "b": 2}

    def second():
        ended.set()
        return {"c": 3}

    assert list(write_at_once([first, second]).items()) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_failure_is_raised_when_the_others_have_ended():
    failed, left = threading.Event(), []

    def fail():
        failed.set()
        raise OSError("disk full")

    def write():
        assert failed.wait(WAIT_S)
        left.append("written")
        return {"a": 1}

    with pytest.raises(OSError, match="disk full"):
        write_at_once([fail, write])
    assert left == ["written"]


def test_nothing_to_write():
    assert write_at_once([]) == {}
