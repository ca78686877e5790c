"""Stages that run beside each other, as their tasks are counted for people."""

import pyarrow as pa

from pipeline.stages import count_tasks, map_tasks
from tests.engines import sail

NUMBER = pa.schema([("number", pa.int64())])


def show(number):
    yield pa.table({"number": [number]}, NUMBER)


def test_of_two_stages_the_newest_is_counted():
    first, second = (map_tasks(sail(), range(count), show, NUMBER) for count in (3, 2))
    for stage in (first, second):
        stage.toArrow()
    assert count_tasks() == (2, 2)
