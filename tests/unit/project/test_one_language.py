"""The pipeline speaks PySpark's DataFrames, the part that Spark Connect has; a JVM is named where a classic session is started."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = re.compile(r"\bRDD\b|\.rdd\b|sparkContext|SparkContext|parallelize|\b_jvm\b|\b_jsparkSession\b|py4j")
CLASSIC = {
    "pipeline/storage/session.py",  # starts and ends the JVM, tells its errors
    "pipeline/cli/sql_guard.py",  # its parser says what a statement does
    "pipeline/cli/sql.py",  # tells what it says of one
}


def named_in(text):
    return [line for line in text.splitlines() if NAMES.search(line)]


@pytest.mark.parametrize(
    "line",
    ["rows = spark.sparkContext.parallelize([1])", "frame.rdd.map(f)", "from pyspark import RDD", "spark._jvm.x()"],
)
def test_what_is_looked_for_is_found(line):
    assert named_in(f"import os\n{line}\n") == [line]


@pytest.mark.parametrize("folder", ["pipeline", "dags", "expectations"])
def test_nothing_else_names_an_rdd_or_a_jvm(folder):
    found = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / folder).rglob("*.py")
        if (lines := named_in(path.read_text()))
    }
    assert found.keys() <= CLASSIC, {name: lines for name, lines in found.items() if name not in CLASSIC}
