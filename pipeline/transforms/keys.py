"""From the rows of a scan about keys to the tables of keys: sums over logs, whatever order they come in."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_MOST_PROBLEMS = 1000
_PARTITION = ("window_start_ms", "topic", "topic_id", "partition")
_SUMS = ("record_count", "size_bytes", "count_error", "size_error_bytes")
_OF_A_KEY = (*("is_empty", "murmur2", "crc32", "fnv1a", "murmur3", "java_string", "kafkajs_legacy"), "clear_key")
_TRAFFIC_KINDS = ("no_key", "other_keys", "unreadable")
Questions = Sequence[tuple[str, str, int]]
"""Strategies, versions and partition counts, by the place at which a scan's rows name them."""


def sum_keys(keys: DataFrame, others: DataFrame) -> DataFrame:
    """Sums by key, partition and window to `silver.key_traffic`; a key may have been dropped from a log's rows."""
    of_keys = keys.groupBy(*_PARTITION, "key_id").agg(*_sums_of(_SUMS))
    dropped = others.where(F.col("kind") == "other_keys").groupBy(*_PARTITION)
    unnamed = dropped.agg(F.sum("count_error").alias("unnamed_count"), F.sum("size_error_bytes").alias("unnamed_bytes"))
    named = of_keys.join(unnamed, on=list(_PARTITION), how="left").select(
        *_PARTITION,
        F.lit("key").alias("kind"),
        *("key_id", "record_count", "size_bytes"),
        (F.col("count_error") + F.coalesce("unnamed_count", F.lit(0))).alias("count_error"),
        (F.col("size_error_bytes") + F.coalesce("unnamed_bytes", F.lit(0))).alias("size_error_bytes"),
    )
    by_kind = others.where(F.col("kind").isin(*_TRAFFIC_KINDS)).groupBy(*_PARTITION, "kind").agg(*_sums_of(_SUMS))
    rest = by_kind.select(*_PARTITION, "kind", F.lit("").alias("key_id"), *_SUMS)
    return _with_window(named.unionByName(rest))


def list_key_hashes(keys: DataFrame) -> DataFrame:
    return keys.select(_date().alias("window_date"), "key_id", *_OF_A_KEY).dropDuplicates(["window_date", "key_id"])


def answer_keys(keys: DataFrame, questions: Questions) -> DataFrame:
    """Answers of user-defined strategies by key and date, the smallest as `chosen_partition`, and the `greatest`."""
    answered = keys.where(F.col("answers").isNotNull()).select(
        _date().alias("window_date"), "key_id", F.posexplode("answers").alias("question", "answer")
    )
    asked = answered.where(F.col("answer") >= 0).select("window_date", "key_id", *_name_questions(questions), "answer")
    return asked.groupBy(*(name for name in asked.columns if name != "answer")).agg(  # a question may stand twice
        F.min("answer").alias("chosen_partition"), F.max("answer").alias("greatest")
    )


def count_contradictions(answers: DataFrame) -> DataFrame:
    differing = answers.where(F.col("chosen_partition") != F.col("greatest"))
    by_strategy = differing.groupBy("strategy", "strategy_version", "partition_count")
    return by_strategy.agg(F.count_distinct("key_id").alias("key_count"))


def describe_contradictions(counted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        _problem(
            row["strategy"],
            f"version {row['strategy_version']} answered differently about {row['key_count']} keys in different segments, "
            f"for {row['partition_count']} partitions; expected a function of the key: these keys go without an answer",
        )
        for row in sorted(counted, key=lambda row: (row["strategy"], row["partition_count"]))
    ]


def key_problem_rows(others: DataFrame) -> list[dict[str, Any]]:
    problems = others.where(F.col("kind") == "problem").select("path", "reason").distinct()
    rows = problems.orderBy("path", "reason").limit(_MOST_PROBLEMS).toArrow().to_pylist()
    return [_problem(row["path"], row["reason"]) for row in rows]


def sum_key_matrices(others: DataFrame, questions: Questions) -> DataFrame:
    counted = ("key_count", "record_count", "size_bytes")
    cells = others.where(F.col("kind") == "cell").groupBy(*_PARTITION, "question", "chosen_partition")
    sums = cells.agg(*_sums_of(counted))
    return _with_window(sums.select(*_PARTITION, *_name_questions(questions), "chosen_partition", *counted))


def _sums_of(names: Sequence[str]) -> list[Column]:
    return [F.sum(name).alias(name) for name in names]


def _with_window(rows: DataFrame) -> DataFrame:
    return rows.withColumn("window_start", F.timestamp_millis("window_start_ms")).drop("window_start_ms")


def _date() -> Column:
    return F.to_date(F.timestamp_millis("window_start_ms"))


def _name_questions(questions: Questions) -> tuple[Column, ...]:
    names = ("strategy", "strategy_version", "partition_count")
    if not questions:
        kinds = ("string", "string", "bigint")
        return tuple(F.lit(None).cast(kind).alias(name) for name, kind in zip(names, kinds, strict=True))
    parts = zip(*questions, strict=True)
    return tuple(
        F.element_at(F.array(*map(F.lit, values)), F.col("question").cast("int") + 1).alias(name)
        for name, values in zip(names, parts, strict=True)
    )


def _problem(path: str, reason: str) -> dict[str, Any]:
    return {"path": path, "position": None, "reason": reason, "severity": "suspect", "first_bytes_hex": ""}
