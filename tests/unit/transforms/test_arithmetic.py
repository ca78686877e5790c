"""Sums and quotients of doubles. Oracle: `math.fsum`, Python's own division, and one result for every order."""

import math
import random

import polars as pl
import pytest
from pyspark.sql import functions as F

from pipeline.transforms.arithmetic import (
    HALF,
    divide,
    divide_by,
    join_squares,
    mean_sorted,
    sum_in_order,
    sum_sorted,
    sum_squares,
)
from pipeline.transforms.traffic import quotient, square_sum

VALUES = [0.1, 1e16, -1e16, 3.3, 1e-9, 325.80109463580726, None, 7.7, 1e8, 18.108561698970096]


def test_every_order_gives_the_same_bits():
    rng = random.Random(4)
    rows = [(order, value) for order in range(40) for value in rng.sample(VALUES, len(VALUES))]
    frame = pl.DataFrame(rows, {"shuffled": pl.Int64, "value": pl.Float64}, orient="row")
    value = pl.col("value")
    summed = frame.group_by("shuffled").agg(mean_sorted(value).alias("mean"), sum_sorted(value).alias("sum")).rows()
    assert len({row[1:] for row in summed}) == 1
    known = [value for value in VALUES if value is not None]
    assert math.isclose(summed[0][1], math.fsum(known) / len(known), rel_tol=1e-7)


def test_nothing_has_no_mean():
    frame, value = pl.DataFrame({"value": [None]}, {"value": pl.Float64}), pl.col("value")
    found = frame.select(mean_sorted(value).alias("a"), sum_sorted(value).alias("b"), sum_in_order(value).alias("c"))
    assert found.row(0) == (None, 0.0, None)


@pytest.mark.parametrize("number", [1000, 1e9, 0.3])
@pytest.mark.parametrize("kind", [int, float])
def test_a_constant_divides_exactly(number, kind):
    values = [kind(value) for value in random.Random(1).sample(range(10**9), 2000)]
    frame = pl.DataFrame({"group": range(2000), "value": values})
    expected = [value / number for value in values]
    assert frame.select(divide_by(pl.col("value"), number)).to_series().to_list() == expected
    grouped = frame.group_by("group", maintain_order=True).agg(divide_by(pl.col("value").sum(), number))
    assert grouped["value"].to_list() == expected


def test_a_quotient_by_zero_is_null():
    frame = pl.DataFrame({"part": [1, 0, 4], "whole": [0, 0, 3]})
    assert frame.select(divide(pl.col("part"), pl.col("whole"))).to_series().to_list() == [None, None, 4 / 3]


def test_squares_are_summed_exactly_and_rounded_once(spark):
    sizes = [2**31 - 1 - number for number in range(3000)]
    frame, exact = pl.DataFrame({"size": sizes}), float(sum(size * size for size in sizes))
    size = pl.col("size")
    parts = pl.concat(
        frame[part].select(upper=(size * size // HALF).sum(), lower=(size * size % HALF).sum())
        for part in (slice(0, 1000), slice(1000, None))
    )
    joined = parts.select(join_squares(pl.col("upper").sum(), pl.col("lower").sum())).item()
    rows = spark.createDataFrame(frame.to_arrow()).repartition(3)
    (found,) = rows.agg(square_sum(F.col("size")).cast("double").alias("sum")).toArrow()["sum"].to_pylist()
    assert joined == found == frame.select(sum_squares(size)).item() == exact


def test_a_quotient_of_columns_by_zero_is_null(spark):
    rows = spark.createDataFrame(pl.DataFrame({"part": [1, 0, 4], "whole": [0, 0, 3]}).to_arrow())
    found = rows.select(quotient(F.col("part"), F.col("whole")).alias("q")).toArrow()["q"].to_pylist()
    assert found == [None, None, 4 / 3]
