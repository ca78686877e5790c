"""Keys beside what they have to agree with: the rows of the gate `ingest` about hashes, answers and sums over keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.gate import Asked, Batches, same_columns
from expectations.suite_files import OF_STRATEGIES
from pipeline.model.window import TimeWindow, milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.runs import RunContext

_TOPIC = "window_start, topic, topic_id"
_PARTITION = f"{_TOPIC}, partition"
_QUESTION = "strategy, strategy_version, partition_count"
_NUMBER = " + ".join(f"{16**at} * (strpos('0123456789abcdef', substr(key_id, {6 - at}, 1)) - 1)" for at in range(6))
DIGEST_OF_KEY = f"({_NUMBER}) * (partition + 1) * (record_count + size_bytes)"  # adds to `arrivals.key_digest`


def list_key_batches(run: RunContext, hashed: Sequence[TimeWindow], asked: Sequence[TimeWindow]) -> Batches:
    """The rows of the suites about single keys of windows whose hashes and answers this run vouches for, until they expire."""
    kept_from_ms = run.now_ms - milliseconds_of(run.config.keys.retention)
    kept = [window for window in hashed if window.start_ms >= kept_from_ms]
    batches = {"key_hashes_gate": Asked(_HASHES, kept)}
    if run.config.keys.strategies:
        batches |= zip(OF_STRATEGIES, (Asked(_ANSWERS, kept), Asked(_CELLS, asked)), strict=True)
    return batches


# Keys of the windows with their hashes, those without a row too
_HASHES = """
    SELECT used.window_date, used.key_id, is_empty, murmur2, crc32, fnv1a, murmur3, java_string, kafkajs_legacy
    FROM (SELECT DISTINCT cast(window_start AS date) AS window_date, key_id FROM silver.key_traffic WHERE kind = 'key') AS used
    LEFT JOIN silver.key_hashes AS hashes ON hashes.window_date = used.window_date AND hashes.key_id = used.key_id"""

# Data records of each topic-partition, as its batches have them and as its keys do, of windows whose keys were read
KEY_RECORDS = f"""
    SELECT {_PARTITION}, sum(stored) AS record_count, sum(keyed) AS key_record_count,
           sum(unreadable) AS unreadable_record_count
    FROM (
        SELECT {_PARTITION}, record_count AS stored, 0 AS keyed, 0 AS unreadable FROM silver.partition_traffic
        UNION ALL
        SELECT {_PARTITION}, 0 AS stored, record_count AS keyed,
               CASE WHEN kind = 'unreadable' THEN record_count ELSE 0 END AS unreadable
        FROM silver.key_traffic
    ) AS counted
    GROUP BY {_PARTITION}"""

# Answers of the windows' dates, and whether their key has hashes
_ANSWERS = f"""
    SELECT answers.window_date, answers.key_id, {_QUESTION}, chosen_partition, hashes.key_id AS hashed_key_id
    FROM silver.key_answers AS answers
    LEFT JOIN silver.key_hashes AS hashes ON {same_columns("hashes", "window_date, key_id", "answers")}"""

_ASKED = f"{_PARTITION}, {_QUESTION}"
_NAMES = ", ".join(f"coalesce(cells.{name}, keyed.{name}) AS {name}" for name in _ASKED.split(", "))
# Sums over keys, and a row for each partition that lacks what another of its topic has, with its keyed records
_CELLS = f"""
    SELECT {_NAMES}, chosen_partition, key_count, record_count, coalesce(asked_record_count, 0) AS asked_record_count,
           keyed_record_count
    FROM (SELECT *, sum(record_count) OVER (PARTITION BY {_ASKED}) AS asked_record_count FROM silver.key_matrices AS sums) AS cells
    FULL JOIN (
        SELECT sums.window_start, sums.topic, sums.topic_id, partition, {_QUESTION}, keyed_record_count
        FROM (
            SELECT {_PARTITION}, sum(record_count) AS keyed_record_count
            FROM silver.key_traffic WHERE kind IN ('key', 'other_keys') GROUP BY {_PARTITION}
        ) AS sums
        JOIN (SELECT DISTINCT {_TOPIC}, {_QUESTION} FROM silver.key_matrices) AS questions
        ON {same_columns("questions", _TOPIC, "sums")}
    ) AS keyed ON {same_columns("keyed", _ASKED, "cells")}"""
