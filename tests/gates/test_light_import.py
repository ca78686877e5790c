"""Great Expectations and what it brings take seconds: a run that fails before its gate does not pay for them."""

import subprocess
import sys

HEAVY = {"great_expectations", "scipy"}


def test_importing_the_gates_does_not_bring_in_great_expectations():
    code = "import sys, expectations.gate, expectations.gates; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert HEAVY & set(loaded) == set()


def test_statistics_are_loaded_when_a_check_asks_for_them():
    code = """
import sys
from expectations.gate import load_statistics_later
load_statistics_later()
from great_expectations.expectations.core import expect_column_kl_divergence_to_be_less_than as check
print("scipy.stats" in sys.modules, check.stats.entropy([0.5, 0.5], [0.5, 0.5]), "scipy.stats" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "0.0", "True"]


def test_a_command_does_not_look_for_dead_objects_at_its_end():
    code = """
import gc
from pipeline.environment import collect_seldom
collect_seldom()
class Circle:
    def __del__(self):
        print("looked")
one = Circle()
one.self = one
"""
    done = subprocess.run([sys.executable, "-c", code + "del one"], check=True, capture_output=True, text=True)
    assert done.stdout == ""
