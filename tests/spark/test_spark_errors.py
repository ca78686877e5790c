"""What Spark raises, as people read it. Oracle: real failures of a real session."""

import pytest

from pipeline.errors import SparkFailedError
from pipeline.storage.spark_errors import SparkErrors


@pytest.fixture(scope="module")
def spark(classic):
    """Errors of a JVM."""
    return classic


def fail_in_a_task(spark):
    def fail(_value):
        raise ValueError("offset 7 of payments-3")

    spark.sparkContext.parallelize([1]).foreach(fail)


FAILURES = {
    "a value that overflows": (
        lambda spark: spark.sql("SELECT timestamp_millis(4611686018427387904L)").toArrow(),
        "overflow",
    ),
    "a task": (fail_in_a_task, r"offset 7 of payments-3"),
    "a statement": (lambda spark: spark.sql("SELECT nothing FROM nowhere"), "nowhere"),
    "a file that is gone": (lambda spark: spark.read.parquet("/nowhere/at/all"), "/nowhere/at/all"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_of_spark_is_one_line_that_names_its_cause(spark, failure):
    fail, words = FAILURES[failure]
    with pytest.raises(SparkFailedError, match=words) as raised, SparkErrors():
        fail(spark)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700
    assert "at org.apache" not in str(raised.value)
