"""Means and sums of doubles, whatever the order of the rows. Oracle: `math.fsum`, and one result for every order."""

from __future__ import annotations

import math
import random

from pyspark.sql import functions as F

from pipeline.transforms.exact_sums import exact_mean, exact_sum

VALUES = [0.1, 1e16, -1e16, 3.3, 1e-9, 325.80109463580726, None, 7.7, 1e8, 18.108561698970096]


def test_every_order_gives_the_same_bits(spark):
    rng = random.Random(4)
    rows = [(order, value) for order in range(40) for value in rng.sample(VALUES, len(VALUES))]
    frame = spark.createDataFrame(rows, "shuffled int, value double").repartition(3)
    summed = frame.groupBy("shuffled").agg(exact_mean(F.col("value")), exact_sum(F.col("value"))).collect()
    assert len({tuple(row)[1:] for row in summed}) == 1
    known = [value for value in VALUES if value is not None]
    assert math.isclose(summed[0][1], math.fsum(known) / len(known), rel_tol=1e-7)


def test_nothing_has_no_mean(spark):
    frame = spark.createDataFrame([(None,)], "value double")
    assert frame.agg(exact_mean(F.col("value")), exact_sum(F.col("value"))).collect() == [(None, 0.0)]
