"""The data gate after `replay`: was every recorded record replayed once, by every candidate?

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median_low
from typing import TYPE_CHECKING

from expectations.gate import GateReport, check_table, raise_for_data_gate, run_suite
from pipeline.model.verdict import HISTORY_FACTOR
from pipeline.model.window import TimeWindow
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS, REPLAY_BROKERS, REPLAY_RESULTS, SCENARIO_COMPARISON
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

HISTORY_WINDOWS = 24
LEAST_HISTORY = 3
MEDIANS_DIFFER = 0.02
"""Part of a topic's bytes by which the median of a broker's load may leave the ranges of its partitions."""
_TOPIC = "window_start, topic, topic_id"
_SCENARIO = f"{_TOPIC}, candidate"


def check_replayed(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> tuple[GateReport, ...]:
    """The data gate of `replay`, over the windows that were replayed.

    Raises:
        DataGateError: A critical check failed; all suites had their turn before.
        GateBrokenError: A check raised.
    """
    if not windows:
        return ()
    from expectations.data_docs import write_data_docs  # loads Great Expectations

    reports = (
        check_table(spark, run, REPLAY_RESULTS, windows),
        run_suite("scenario_comparison_gate", compare_sums(run, windows), {"key": list(SCENARIO_COMPARISON.key)}),
        run_suite("hash_verdicts_gate", add_extremes(run.load(HASH_VERDICTS, windows))),
        run_suite("back_tests_gate", add_history(run, windows), {"key": list(BACK_TESTS.key)}),
    )
    write_data_docs(run, reports)
    raise_for_data_gate(reports)
    return reports


def compare_sums(run: RunContext, windows: tuple[TimeWindow, ...]) -> pa.Table:
    """Rows of the comparison with what they have to agree with: results, brokers, traffic, the configured candidates."""
    import pyarrow as pa

    rows = run.query(
        f"""
        SELECT comparison.*, replayed_record_count, replayed_size_bytes, open_leader_count, broker_size_bytes,
               coalesce(uneven_broker_count, 0) AS uneven_broker_count,
               coalesce(batch_record_count, 0) AS batch_record_count, candidate_count
        FROM comparison
        LEFT JOIN (
            SELECT {_SCENARIO}, sum(record_count) AS replayed_record_count, sum(size_bytes) AS replayed_size_bytes,
                   sum(CASE WHEN leader_id < 0 AND partition < partition_count THEN 1 ELSE 0 END) AS open_leader_count
            FROM results GROUP BY {_SCENARIO}
        ) AS replayed ON {_same("replayed", _SCENARIO)}
        LEFT JOIN (
            SELECT {_SCENARIO}, sum(size_bytes) AS broker_size_bytes FROM brokers GROUP BY {_SCENARIO}
        ) AS shares ON {_same("shares", _SCENARIO)}
        LEFT JOIN (
            {_count_uneven_brokers()}
        ) AS uneven ON {_same("uneven", _SCENARIO)}
        LEFT JOIN (
            SELECT {_TOPIC}, sum(record_count) AS batch_record_count FROM traffic GROUP BY {_TOPIC}
        ) AS recorded ON {_same("recorded", _TOPIC)}
        LEFT JOIN (
            SELECT {_TOPIC}, count(DISTINCT candidate) AS candidate_count FROM comparison GROUP BY {_TOPIC}
        ) AS present ON {_same("present", _TOPIC)}
        """,
        windows,
        comparison=SCENARIO_COMPARISON,
        results=REPLAY_RESULTS,
        brokers=REPLAY_BROKERS,
        traffic=PARTITION_TRAFFIC,
    )
    topics = rows["topic"].to_pylist()
    # and the current setup
    counts = {topic: 1 + sum(candidate.fits(topic) for candidate in run.config.candidates) for topic in set(topics)}
    expected = pa.array([counts[topic] for topic in topics], pa.int64())
    seeds = pa.array([run.config.replay.seeds] * len(topics), pa.int64())
    return rows.append_column("expected_candidate_count", expected).append_column("expected_seed_count", seeds)


def _count_uneven_brokers() -> str:
    """A query for brokers whose bytes are not those of the partitions they lead, by scenario."""
    scenario = ", ".join(f"brokers.{name}" for name in _SCENARIO.split(", "))
    return f"""
        SELECT {_SCENARIO}, count(*) AS uneven_broker_count
        FROM (
            SELECT brokers.*, led_low, led_high, sum(brokers.size_bytes) OVER (PARTITION BY {scenario}) AS topic_bytes
            FROM brokers
            LEFT JOIN (
                SELECT {_SCENARIO}, leader_id, sum(size_bytes_low) AS led_low, sum(size_bytes_high) AS led_high
                FROM results GROUP BY {_SCENARIO}, leader_id
            ) AS led ON {_same("led", _SCENARIO, "brokers")} AND led.leader_id = brokers.broker_id
            WHERE placement = 'known'
        ) AS led_brokers
        WHERE size_bytes NOT BETWEEN coalesce(led_low, 0) - {MEDIANS_DIFFER} * topic_bytes
              AND coalesce(led_high, 0) + {MEDIANS_DIFFER} * topic_bytes
        GROUP BY {_SCENARIO}
    """


def _same(joined: str, columns: str, to: str = "comparison") -> str:
    return " AND ".join(f"{joined}.{name} = {to}.{name}" for name in columns.split(", "))


def add_extremes(rows: pa.Table) -> pa.Table:
    """Rows of `gold.hash_verdicts` with the extremes of the counts in their maps; NULL where these are empty."""
    import pyarrow as pa

    keys, records = (
        [[count for _, count in pairs] for pairs in rows[name].to_pylist()]
        for name in ("explained_key_counts", "explained_record_counts")
    )
    found = {
        "least_explained_count": [min((*k, *r), default=None) for k, r in zip(keys, records, strict=True)],
        "most_explained_key_count": [max(counts, default=None) for counts in keys],
        "most_explained_record_count": [max(counts, default=None) for counts in records],
    }
    for name, values in found.items():
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    return rows


def add_history(run: RunContext, windows: tuple[TimeWindow, ...]) -> pa.Table:
    """Rows of `gold.back_tests` with the median error of their topic in the windows before; NULL with too few of them."""
    import pyarrow as pa

    first_ms, end_ms = min(window.start_ms for window in windows), max(window.end_ms for window in windows)
    reach = TimeWindow(max(0, first_ms - HISTORY_FACTOR * HISTORY_WINDOWS * run.window_ms), end_ms)

    def list_keys(rows: pa.Table) -> list[tuple[int, str, str]]:
        starts = rows["window_start"].cast(pa.int64())  # microseconds: a date for each would cost most of the time
        return list(zip(*(column.to_pylist() for column in (starts, rows["topic"], rows["topic_id"])), strict=True))

    columns = ("window_start", "topic", "topic_id", "share_error_points")
    history = run.load(BACK_TESTS, (reach,), columns).sort_by("window_start")
    errors: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    medians: dict[tuple[int, str, str], float | None] = {}
    for key, error in zip(list_keys(history), history["share_error_points"].to_pylist(), strict=True):
        before = errors[key[1:]]
        if key[0] >= 1000 * first_ms:
            known = [value for value in before[-HISTORY_WINDOWS:] if value is not None]
            medians[key] = median_low(known) if len(known) >= LEAST_HISTORY else None
        before.append(error)
    rows = run.load(BACK_TESTS, windows).sort_by("window_start")
    own = [medians[key] for key in list_keys(rows)]
    return rows.append_column("history_share_error_points", pa.array(own, pa.float64()))
