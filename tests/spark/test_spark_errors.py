"""What Spark raises, as people read it. Oracle: real failures of a real session."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from pipeline.errors import SparkFailedError
from pipeline.storage.session import SparkErrors


def fail_in_a_task(classic):
    def fail(_value):
        raise ValueError("offset 7 of payments-3")

    classic.sparkContext.parallelize([1]).foreach(fail)


FAILURES = {
    "a value that overflows": (
        lambda classic: classic.sql("SELECT timestamp_millis(4611686018427387904L)").toArrow(),
        "overflow",
    ),
    "a task": (fail_in_a_task, r"offset 7 of payments-3"),
    "a statement": (lambda classic: classic.sql("SELECT nothing FROM nowhere"), "nowhere"),
    "a file that is gone": (lambda classic: classic.read.parquet("/nowhere/at/all"), "/nowhere/at/all"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_of_spark_is_one_line_that_names_its_cause(classic, failure):
    fail, words = FAILURES[failure]
    with pytest.raises(SparkFailedError, match=words) as raised, SparkErrors():
        fail(classic)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700
    assert "at org.apache" not in str(raised.value)


def test_an_error_of_a_jvm_that_is_gone_by_then_is_told_by_its_own_words():
    def refuse():
        raise ConnectionRefusedError

    error = Py4JJavaError(
        "An error occurred while calling o7.collect.\n", SimpleNamespace(_target_id="o8", toString=refuse)
    )
    with (
        pytest.raises(SparkFailedError, match=r"^Spark failed: An error occurred while calling o7.collect") as raised,
        SparkErrors(),
    ):
        raise error
    assert "\n" not in str(raised.value)
