"""DAG files name the gate: importing it must cost next to nothing."""

import subprocess
import sys

HEAVY = {"great_expectations", "pyspark", "pandas", "numpy", "scipy"}


def test_importing_the_gate_brings_in_no_framework():
    code = "import sys, expectations.gate, expectations.gates; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert HEAVY & set(loaded) == set()
