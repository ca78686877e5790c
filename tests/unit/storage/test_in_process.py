"""This process in place of Spark: what our tasks use of an RDD."""

from __future__ import annotations

import pytest

from pipeline.storage.in_process import InProcess

STEPS = [
    (lambda values: values.map(lambda n: 2 * n), [6, 2, 4]),
    (lambda values: values.filter(lambda n: n > 1), [3, 2]),
    (lambda values: values.flatMap(range), [0, 1, 2, 0, 0, 1]),
    (lambda values: values.persist("disk").flatMap(lambda n: [n, n]), [3, 3, 1, 1, 2, 2]),
    (lambda values: values.map(lambda n: (n % 2, n)).groupByKey(4), [(1, [3, 1]), (0, [2])]),
]


@pytest.mark.parametrize(("step", "expected"), STEPS)
def test_steps_are_those_of_an_rdd(step, expected):
    assert step(InProcess().parallelize([3, 1, 2], 2)).collect() == expected


def test_values_are_let_go():
    values = InProcess().parallelize([3, 1, 2], 2)
    values.unpersist()
    assert values.collect() == []
