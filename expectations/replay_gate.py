"""The data gate after `replay`: was every recorded record replayed once, by every candidate?

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.gate import GateReport, raise_for_data_gate, run_suite
from expectations.record_sums import rows_of_windows
from pipeline.tables.back_tests import BACK_TESTS
from pipeline.tables.replay import HASH_VERDICTS, REPLAY_BROKERS, REPLAY_RESULTS
from pipeline.tables.scenario_comparison import SCENARIO_COMPARISON
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext

HISTORY_WINDOWS = 24
LEAST_HISTORY = 3
_TOPIC = ("window_start", "topic", "topic_id")
_SCENARIO = ("window_start", "candidate", "topic", "topic_id")


def check_replayed(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> tuple[GateReport, ...]:
    """The data gate of `replay`.

    Args:
        spark: Session.
        run: The run.
        windows: Windows that were replayed.

    Returns:
        What every suite found, warnings included.

    Raises:
        DataGateError: A critical check failed; all suites had their turn before.
        GateBrokenError: A check raised.
    """
    if not windows:
        return ()
    results = rows_of_windows(spark, run, REPLAY_RESULTS, windows)
    brokers = rows_of_windows(spark, run, REPLAY_BROKERS, windows)
    comparison = rows_of_windows(spark, run, SCENARIO_COMPARISON, windows)
    traffic = rows_of_windows(spark, run, PARTITION_TRAFFIC, windows)
    sums = with_sums(comparison, results, brokers, traffic, run)
    reports = (
        run_suite("replay_results_gate", results),
        run_suite("scenario_comparison_gate", sums, {"key": list(SCENARIO_COMPARISON.key)}),
        run_suite("hash_verdicts_gate", rows_of_windows(spark, run, HASH_VERDICTS, windows)),
        run_suite("back_tests_gate", with_history(spark, run, windows), {"key": list(BACK_TESTS.key)}),
    )
    raise_for_data_gate(reports)
    return reports


def with_sums(
    comparison: DataFrame, results: DataFrame, brokers: DataFrame, traffic: DataFrame, run: RunContext
) -> DataFrame:
    """Rows of the comparison beside what they have to agree with.

    Args:
        comparison: `gold.scenario_comparison`.
        results: `gold.replay_results` of the same windows.
        brokers: `gold.replay_brokers` of the same windows.
        traffic: `silver.partition_traffic` of the same windows.
        run: Its configuration names the candidates.
    """
    from pyspark.sql import functions as F

    replayed = results.groupBy(*_SCENARIO).agg(
        F.sum("record_count").alias("replayed_record_count"),
        F.sum("size_bytes").alias("replayed_size_bytes"),
        F.count_if((F.col("leader_id") < 0) & (F.col("partition") < F.col("partition_count"))).alias(
            "open_leader_count"
        ),
    )
    shares = brokers.groupBy(*_SCENARIO).agg(F.sum("size_bytes").alias("broker_size_bytes"))
    recorded = traffic.groupBy(*_TOPIC).agg(F.sum("record_count").alias("batch_record_count"))
    present = comparison.groupBy(*_TOPIC).agg(F.count_distinct("candidate").alias("candidate_count"))
    topics = [row["topic"] for row in comparison.select("topic").distinct().collect()]
    expected = F.lit(0)
    for topic in topics:
        count = 1 + sum(candidate.fits(topic) for candidate in run.config.candidates)  # and the one in use
        expected = F.when(F.col("topic") == topic, F.lit(count)).otherwise(expected)
    return (
        comparison.join(replayed, [*_SCENARIO], "left")
        .join(shares, [*_SCENARIO], "left")
        .join(recorded, [*_TOPIC], "left")
        .join(present, [*_TOPIC], "left")
        .withColumn("batch_record_count", F.coalesce("batch_record_count", F.lit(0)))
        .withColumn("expected_candidate_count", expected)
        .withColumn("expected_seed_count", F.lit(run.config.replay.seeds))
    )


def with_history(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> DataFrame:
    """Rows of `gold.back_tests` beside the median error of their topic in the windows before.

    Args:
        spark: Session.
        run: The run.
        windows: Windows that were replayed.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from pipeline.storage.delta import load

    before = Window.partitionBy("topic", "topic_id").orderBy("window_start").rowsBetween(-HISTORY_WINDOWS, -1)
    errors = F.filter(F.collect_list("share_error_points").over(before), lambda error: error.isNotNull())
    ordered = F.array_sort(errors)
    middle = F.get(ordered, ((F.size(ordered) - 1) / 2).cast("int"))
    known = load(spark, run.warehouse, BACK_TESTS).where(F.col("cluster") == run.cluster_name)
    told = F.when(F.size(ordered) >= LEAST_HISTORY, middle)
    starts = [F.timestamp_millis(F.lit(window.start_ms)) for window in windows]
    return known.withColumn("history_share_error_points", told).where(F.col("window_start").isin(starts))
