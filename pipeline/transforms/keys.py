"""From the rows of `kafka_key_counts` to the tables of keys: sums over segments, whatever order they come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST_PROBLEMS = 1000
_PARTITION = ("window_start", "topic", "topic_id", "partition")
_HASHES = ("murmur2", "crc32", "fnv1a", "murmur3", "java_string", "kafkajs_legacy")


def with_key_window(rows: DataFrame) -> DataFrame:
    """Adds `window_start`."""
    return rows.withColumn("window_start", F.timestamp_millis("window_start_ms"))


def summarise_key_traffic(rows: DataFrame, cluster: str) -> DataFrame:
    """Sums records and bytes per key, topic-partition and window: `silver.key_traffic`.

    A key that a segment's rows do not hold may have been dropped there, as often as the segment's `other_keys` row says:
    the errors of a key are those of all the partition's segments, corrected by what its own rows know better.

    Args:
        rows: With `window_start`.
        cluster: Cluster name in the configuration.
    """
    counted = rows.where("kind IN ('key', 'no_key', 'other_keys', 'unreadable')")
    sums = counted.groupBy(*_PARTITION, "kind", "key_id").agg(
        *(F.sum(name).alias(name) for name in ("record_count", "size_bytes", "count_error", "size_error_bytes"))
    )
    unnamed = (
        rows.where("kind = 'other_keys'")
        .groupBy(*_PARTITION)
        .agg(F.sum("count_error").alias("unnamed_count"), F.sum("size_error_bytes").alias("unnamed_bytes"))
    )
    return sums.join(F.broadcast(unnamed), [*_PARTITION], "left").select(
        F.lit(cluster).alias("cluster"),
        *(*_PARTITION, "kind", "key_id", "record_count", "size_bytes"),
        _error("count_error", "unnamed_count").alias("count_error"),
        _error("size_error_bytes", "unnamed_bytes").alias("size_error_bytes"),
    )


def _error(of_rows: str, of_partition: str) -> Column:
    of_key = F.col(of_rows) + F.coalesce(F.col(of_partition), F.lit(0))
    return F.when(F.col("kind") == "key", of_key).otherwise(F.col(of_rows))


def collect_key_hashes(rows: DataFrame, cluster: str) -> DataFrame:
    """Every key once per date: `silver.key_hashes`. All rows of an id hold the same hashes.

    Args:
        rows: With `window_start`.
        cluster: Cluster name in the configuration.
    """
    # distinct, not first(): an aggregate over binary values would have to sort
    return (
        rows.where("kind = 'key'")
        .select(F.to_date("window_start").alias("window_date"), "key_id", "is_empty", *_HASHES, "clear_key")
        .distinct()
        .withColumn("cluster", F.lit(cluster))
    )


def collect_key_answers(rows: DataFrame, questions: DataFrame, cluster: str) -> DataFrame:
    """What user-defined strategies answered, once per key and date: `silver.key_answers`.

    A key about which two processes got different answers has none: see `describe_contradictions`.

    Args:
        rows: With `window_start`.
        questions: By `question`, the place in `answers`.
        cluster: Cluster name in the configuration.
    """
    answered = _answers(rows, questions).where("least_partition = greatest_partition")
    return answered.select(
        F.lit(cluster).alias("cluster"),
        *("window_date", "key_id", "strategy", "strategy_version", "partition_count"),
        F.col("least_partition").alias("chosen_partition"),
    )


def key_problem_rows(rows: DataFrame) -> list[dict[str, Any]]:
    """What went wrong with strategies, as rows of kind `problem`.

    Args:
        rows: Of the data source.
    """
    found = rows.where("kind = 'problem'").select("path", "reason").distinct().orderBy("path", "reason")
    return [_problem(row["path"], row["reason"]) for row in found.limit(_MOST_PROBLEMS).collect()]


def describe_contradictions(rows: DataFrame, questions: DataFrame) -> list[dict[str, Any]]:
    """Strategies that answered differently about one key in different segments, as rows of kind `problem`.

    Args:
        rows: With `window_start`.
        questions: By `question`.
    """
    different = _answers(rows, questions).where("least_partition <> greatest_partition")
    counted = different.groupBy("strategy", "strategy_version", "partition_count").agg(
        F.count_distinct("key_id").alias("key_count")
    )
    return [
        _problem(
            row["strategy"],
            f"version {row['strategy_version']} answered differently about {row['key_count']} keys in different segments, "
            f"for {row['partition_count']} partitions; expected a function of the key: these keys go without an answer",
        )
        for row in counted.orderBy("strategy", "partition_count").collect()
    ]


def _problem(path: str, reason: str) -> dict[str, Any]:
    return {"path": path, "position": None, "reason": reason, "severity": "suspect", "first_bytes_hex": ""}


def _answers(rows: DataFrame, questions: DataFrame) -> DataFrame:
    said = rows.where("kind = 'key' AND answers IS NOT NULL").select(
        F.to_date("window_start").alias("window_date"),
        "key_id",
        F.posexplode("answers").alias("question", "answer"),
    )
    return (
        said.where("answer >= 0")
        .join(F.broadcast(questions), "question")
        .groupBy("window_date", "key_id", "strategy", "strategy_version", "partition_count")
        .agg(F.min("answer").alias("least_partition"), F.max("answer").alias("greatest_partition"))
    )


def summarise_key_matrices(rows: DataFrame, questions: DataFrame, cluster: str) -> DataFrame:
    """Sums over keys per partition they are in and partition they would be in: `silver.key_matrices`.

    Args:
        rows: With `window_start`.
        questions: By `question`.
        cluster: Cluster name in the configuration.
    """
    cells = rows.where("kind = 'cell'").join(F.broadcast(questions), "question")
    return (
        cells.groupBy(*_PARTITION, "strategy", "strategy_version", "partition_count", "chosen_partition")
        .agg(*(F.sum(name).alias(name) for name in ("key_count", "record_count", "size_bytes")))
        .withColumn("cluster", F.lit(cluster))
    )
