"""The kept cases, and so many mutations of them for every target; a crash ends this process, and so fails too."""

import ctypes
import faulthandler
import itertools
import os
import random
import signal
import time

import numpy as np
import pytest

from tests.lab.fuzz.__main__ import MOST_S, make_case
from tests.lab.fuzz.guarded import GuardedBytes
from tests.lab.fuzz.mutations import SECRET
from tests.lab.fuzz.targets import ARRAYS, Target, load_targets, run

TARGETS = load_targets()
SLOW = {"segment": 400, "hashes": 300, "configuration": 60, "metadata record": 1000}
MUTATIONS = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_kept_cases_and_mutations(name):
    target, rng = TARGETS[name], random.Random(name)
    mutations = (make_case(target, rng) for _ in range(SLOW.get(name, MUTATIONS)))
    for case in itertools.chain(target.cases, mutations):
        assert measure_s(target, case) < MOST_S or measure_s(target, case) < MOST_S  # the first may have compiled


def measure_s(target, case):
    began_s = time.thread_time()
    run(target, case)
    return time.thread_time() - began_s


def raise_key_error(data):
    raise KeyError(data)


def repeat_secret(data):
    class Page:
        bad_lines = (SECRET.decode(),)

    return Page()


@pytest.mark.parametrize("read", [raise_key_error, repeat_secret])
def test_another_error_and_a_repeated_secret_fail(read):
    with pytest.raises((KeyError, AssertionError)):
        run(Target((b"x",), read), b"x")


@pytest.mark.parametrize(("at_end", "at"), [(True, 10), (False, -1)])
def test_a_read_beyond_guarded_bytes_ends_the_process(at_end, at):
    held = GuardedBytes(10).hold(b"0123456789", at_end=at_end)
    first = np.frombuffer(held, np.uint8).ctypes.data
    assert ctypes.string_at(first, 10) == b"0123456789"
    assert_crash(lambda: ctypes.string_at(first + at, 1))


@pytest.mark.parametrize(("at_end", "at"), [(True, 80), (False, -1)])
def test_a_write_beyond_a_guarded_array_ends_the_process(at_end, at):
    with ARRAYS.of_all(at_end=at_end):
        array = np.zeros(10, np.int64)
    array[:] = 7
    assert array.tolist() == [7] * 10
    assert_crash(lambda: ctypes.memset(array.ctypes.data + at, 0, 1))


def assert_crash(access):
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()  # the crash is meant
        access()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGSEGV
