"""From the rows of a scan about keys to the tables of keys: sums over logs, whatever order they come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from pipeline.model.window import DAY_MS
from pipeline.transforms.arithmetic import instant

_MOST_PROBLEMS = 1000
_PARTITION = ("window_start_ms", "topic", "topic_id", "partition")
_SUMS = ("record_count", "size_bytes", "count_error", "size_error_bytes")
_OF_A_KEY = (
    *("window_date", "key_id", "is_empty"),
    *("murmur2", "crc32", "fnv1a", "murmur3", "java_string", "kafkajs_legacy"),
    "clear_key",
)
_TRAFFIC_KINDS = ("no_key", "other_keys", "unreadable")


def sum_keys(keys: pa.Table, others: pa.Table) -> pa.Table:
    """Sums records and bytes per key, topic-partition and window: rows of `silver.key_traffic` of kind `key`.

    A key that a log's rows do not hold may have been dropped there, as often as the log's `other_keys` row says: the
    errors of a key are those of all the partition's logs, corrected by what its own rows know better.

    Args:
        keys: A row per key of a log and window: all rows of some keys.
        others: Rows that are not about one key: all of them.
    """
    sums = pl.DataFrame(keys.select([*_PARTITION, "key_id", *_SUMS])).group_by(*_PARTITION, "key_id").agg(
        pl.col(name).sum() for name in _SUMS
    )  # fmt: skip  # a chain on one line, its sums one a line
    unnamed = (
        pl.DataFrame(others)
        .filter(pl.col("kind") == "other_keys")
        .group_by(_PARTITION)
        .agg(
            pl.col("count_error").sum().alias("unnamed_count"), pl.col("size_error_bytes").sum().alias("unnamed_bytes")
        )
    )
    return (
        sums.join(unnamed, on=_PARTITION, how="left")
        .select(
            instant(pl.col("window_start_ms")).alias("window_start"),
            *("topic", "topic_id", "partition"),
            pl.lit("key").alias("kind"),
            *("key_id", "record_count", "size_bytes"),
            pl.col("count_error") + pl.col("unnamed_count").fill_null(0),
            pl.col("size_error_bytes") + pl.col("unnamed_bytes").fill_null(0),
        )
        .to_arrow()
    )


def sum_others(others: pa.Table) -> pa.Table:
    """The rows of `silver.key_traffic` that are not about one key."""
    return (
        pl.DataFrame(others)
        .filter(pl.col("kind").is_in(_TRAFFIC_KINDS))
        .group_by(*_PARTITION, "kind")
        .agg(pl.col(name).sum() for name in _SUMS)
        .select(
            instant(pl.col("window_start_ms")).alias("window_start"),
            *("topic", "topic_id", "partition", "kind"),
            pl.lit("").alias("key_id"),
            *_SUMS,
        )
        .to_arrow()
    )


def list_key_hashes(keys: pa.Table) -> pa.Table:
    """Every key once per date: rows of `silver.key_hashes`. All rows of an id hold the same hashes."""
    hashed = _dated(keys).unique(["window_date", "key_id"], keep="any")
    return hashed.select(_OF_A_KEY).to_arrow()


def list_key_answers(keys: pa.Table, questions: Sequence[tuple[str, str, int]]) -> pa.Table:
    """Lists the answers of user-defined strategies, once per key and date: rows of `silver.key_answers`.

    A key about which two processes got different answers has none: see `describe_contradictions`. `questions` are
    strategies, versions and partition counts, by place in `answers`.
    """
    answered = _answers(keys, questions).filter(pl.col("chosen_partition") == pl.col("greatest"))
    return answered.drop("greatest").to_arrow()


def list_contradictions(keys: pa.Table, questions: Sequence[tuple[str, str, int]]) -> pa.Table:
    """Keys about which a strategy answered differently in different logs."""
    different = _answers(keys, questions).filter(pl.col("chosen_partition") != pl.col("greatest"))
    return different.select("strategy", "strategy_version", "partition_count", "key_id").to_arrow()


def describe_contradictions(different: pa.Table) -> list[dict[str, Any]]:
    """Strategies that answered differently about one key in different logs, as rows of kind `problem`."""
    counted = (
        pl.DataFrame(different)
        .group_by("strategy", "strategy_version", "partition_count")
        .agg(pl.col("key_id").n_unique().alias("key_count"))
        .sort("strategy", "partition_count")
    )
    return [
        _problem(
            row["strategy"],
            f"version {row['strategy_version']} answered differently about {row['key_count']} keys in different segments, "
            f"for {row['partition_count']} partitions; expected a function of the key: these keys go without an answer",
        )
        for row in counted.to_dicts()
    ]


def key_problem_rows(others: pa.Table) -> list[dict[str, Any]]:
    """Returns the problems of strategies, as rows of kind `problem`."""
    found = pl.DataFrame(others).filter(pl.col("kind") == "problem").select("path", "reason").unique()
    rows = found.sort("path", "reason").head(_MOST_PROBLEMS).to_dicts()
    return [_problem(row["path"], row["reason"]) for row in rows]


def sum_key_matrices(others: pa.Table, questions: Sequence[tuple[str, str, int]]) -> pa.Table:
    """Sums over keys per partition they are in and partition they would be in: rows of `silver.key_matrices`.

    `questions` are strategies, versions and partition counts, by the place that a row of kind `cell` names.
    """
    cells = pl.DataFrame(others).filter(pl.col("kind") == "cell").join(_frame(questions), on="question")
    return (
        cells.group_by(*_PARTITION, "strategy", "strategy_version", "partition_count", "chosen_partition")
        .agg(pl.col(name).sum() for name in ("key_count", "record_count", "size_bytes"))
        .with_columns(instant(pl.col("window_start_ms")).alias("window_start"))
        .drop("window_start_ms")
        .to_arrow()
    )


def _problem(path: str, reason: str) -> dict[str, Any]:
    return {"path": path, "position": None, "reason": reason, "severity": "suspect", "first_bytes_hex": ""}


def _dated(keys: pa.Table) -> pl.DataFrame:
    day = (pl.col("window_start_ms") // DAY_MS).cast(pl.Int32).cast(pl.Date)
    return pl.DataFrame(keys).with_columns(day.alias("window_date"))


def _frame(questions: Sequence[tuple[str, str, int]]) -> pl.DataFrame:
    rows = [(place, *question) for place, question in enumerate(questions)]
    schema = {"question": pl.Int64, "strategy": pl.String, "strategy_version": pl.String, "partition_count": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def _answers(keys: pa.Table, questions: Sequence[tuple[str, str, int]]) -> pl.DataFrame:
    """The smallest answer about each key, as `chosen_partition`, and the greatest."""
    said = _dated(keys).filter(pl.col("answers").is_not_null()).select("window_date", "key_id", "answers")
    places = pl.int_ranges(pl.col("answers").list.len(), dtype=pl.Int64).alias("question")
    return (
        said.with_columns(places)
        .explode("answers", "question")
        .filter(pl.col("answers") >= 0)
        .join(_frame(questions), on="question")
        .group_by("window_date", "key_id", "strategy", "strategy_version", "partition_count")
        .agg(pl.col("answers").min().alias("chosen_partition"), pl.col("answers").max().alias("greatest"))
    )
