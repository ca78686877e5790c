"""Asks the accumulator and the partitioner of kafka-clients 4.4.0, and writes `tests/golden/rack_aware.txt`.

`python -m tests.lab.rack_aware`; a minute, and Java with its compiler.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lab.artifacts import NEWER_BROKER_VERSION, broker_artifacts, class_path, java_program
from tests.lab.rack_aware.states import draw_states

PROGRAM = Path(__file__).with_name("RackAware.java")
MAIN = "org.apache.kafka.clients.producer.internals.RackAware"
ANSWERS = Path(__file__).parents[2] / "golden" / "rack_aware.txt"


def ask_kafka() -> str:
    """The partitions that Kafka draws, a line for each state.

    The program is of the partitioner's package, and so must be loaded beside it: as a class, not from source.
    """
    jars = class_path(broker_artifacts(NEWER_BROKER_VERSION))
    states = "".join(f"{state.format()}\n" for state in draw_states())
    with tempfile.TemporaryDirectory() as folder:
        compile_it = (java_program(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", folder, "-cp", jars, PROGRAM)
        subprocess.run(compile_it, check=True)
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        run_it = (java_program(), "-Xmx256m", quiet, "-cp", os.pathsep.join((folder, jars)), MAIN)
        return subprocess.run(run_it, input=states, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    ANSWERS.write_text(ask_kafka(), encoding="ascii")
    sys.stdout.write(f"{ANSWERS}\n")
