"""This process in place of Spark: what our tasks use of an RDD."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark import SparkContext

from pipeline.config.pipeline_config import Spark
from pipeline.engine import HeldValues, InProcess, choose_engine, count_held
from pipeline.sources.records.pieces import Kind, Piece
from pipeline.sources.records.scan import read_few, scan
from pipeline.sources.records.summary_rows import SUMMARY_SCHEMA
from pipeline.storage.on_demand import SparkOnDemand

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


def test_what_is_done_is_counted():
    counted = []
    HeldValues([3, 1]).flatMap(lambda n: [counted.append(count_held())])
    assert counted == [(0, 2), (1, 2)]
    assert count_held() == (0, 0)


@pytest.mark.parametrize(
    ("settings", "seconds", "is_here"),
    [
        ({}, 30, True),
        ({}, 31, False),
        ({"always": True}, 0, False),
        ({"master": "spark://host:7077"}, 0, False),
        ({"master": "local-cluster[2,1,1024]"}, 0, False),
    ],
)
def test_small_work_of_a_local_master_needs_no_spark(monkeypatch, settings, seconds, is_here):
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    spark = SparkOnDemand(Spark(**settings), app_name="test")
    assert isinstance(choose_engine(spark, seconds), InProcess) is is_here


def test_a_session_that_is_handed_over_does_all_work():
    session = object()
    assert choose_engine(session, 0) is session


class Rows:
    """Reads so many rows, a piece at a time."""

    def __init__(self, *counts):
        self.counts = counts

    def run(self):
        for count in self.counts:
            yield Piece(Kind.SUMMARIES, pa.Table.from_pylist([{}] * count, schema=SUMMARY_SCHEMA))


def test_few_rows_are_read_here():
    found = scan(InProcess(), lambda least: [Rows(2, 1), Rows(4)] * least, few=1)
    assert found.counts == {Kind.SUMMARIES: 7}
    assert found.small(Kind.SUMMARIES).num_rows == 7


@pytest.mark.parametrize(("most_rows", "is_few"), [(7, True), (6, False)])
def test_too_many_rows_are_left_to_spark(most_rows, is_few):
    assert (read_few([Rows(2, 1), Rows(4)], most_rows) is not None) is is_few
