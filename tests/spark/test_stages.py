"""Stages that run beside each other, as their tasks are counted for people."""

import subprocess
import sys

import pyarrow as pa

from pipeline.stages import count_tasks, map_tasks
from tests.engines import sail

NUMBER = pa.schema([("number", pa.int64())])


def show(number):
    yield pa.table({"number": [number]}, NUMBER)


def count_after_two_stages():
    first, second = (map_tasks(sail(), range(count), show, NUMBER) for count in (3, 2))
    for stage in (first, second):
        stage.toArrow()
    return count_tasks()


def test_of_two_stages_the_newest_is_counted():
    """In a process of its own: where classic Spark runs, too, its own tasks are counted."""
    program = "from tests.spark.test_stages import count_after_two_stages as count; print(count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "(2, 2)"
