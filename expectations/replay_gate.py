"""The data gate after `replay`: was every recorded record replayed once, by every candidate?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from expectations.gate import NOTHING, Asked, Batches, Versions, run_gate, same_columns
from expectations.gates import load_named
from expectations.reports import SuiteReport, raise_for_data_gate
from pipeline.model.verdict import HISTORY_FACTOR
from pipeline.model.window import TimeWindow
from pipeline.tables.replay import BACK_TESTS, REPLAY_RESULTS
from pipeline.tables.silver import PRODUCER_SESSIONS, SERVICE_MODELS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

HISTORY_WINDOWS = 24
LEAST_HISTORY = 3
MEDIANS_DIFFER = 0.02  # of a topic's bytes: how far a broker's median may leave the ranges of its partitions
_KEY = ("window_start", "topic", "topic_id")
_TOPIC = ", ".join(_KEY)
_SCENARIO = f"{_TOPIC}, candidate"


def check_replayed(
    spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...], versions: Versions = NOTHING
) -> tuple[SuiteReport, ...]:
    """The data gate of `replay`, over the windows that were replayed; raises as `check_ingested`."""
    if not windows:
        return ()
    reports = run_gate(spark, "replay", run, list_replayed(run, windows), versions=versions)
    raise_for_data_gate(reports)
    return reports


def list_replayed(run: RunContext, windows: tuple[TimeWindow, ...]) -> Batches:
    return {
        "replay_results_gate": load_named(REPLAY_RESULTS, windows),
        "replay_brokers_gate": Asked(_BROKERS, windows, is_few=True),
        "scenario_comparison_gate": compare_sums(run, windows),
        "hash_verdicts_gate": Asked(_TRAFFIC, windows, is_few=True),
        "back_tests_gate": Asked(_TESTS, windows, is_few=True, add=partial(_add_tests, run, windows)),
        "producer_sessions_gate": load_named(PRODUCER_SESSIONS, windows),
        "session_counts_gate": Asked(_SESSIONS, windows),
        "service_models_gate": load_named(SERVICE_MODELS, windows),
    }


def compare_sums(run: RunContext, windows: tuple[TimeWindow, ...]) -> Asked:
    """Rows of the comparison with what they have to agree with: results, brokers, traffic, the configured candidates."""
    scenario = ", ".join(f"brokers.{name}" for name in _SCENARIO.split(", "))
    sql = f"""
        SELECT comparison.*, {run.config.replay.seeds} AS expected_seed_count, replayed_record_count, replayed_size_bytes,
               recorded_size_bytes, open_leader_count, broker_size_bytes, candidate_count, back_test_count,
               coalesce(uneven_broker_count, 0) AS uneven_broker_count, coalesce(batch_record_count, 0) AS batch_record_count,
               comparison.partition_count * largest_size_bytes / nullif(replayed_size_bytes, 0) AS replayed_peak_to_mean,
               comparison.partition_count * largest_size_bytes_high / nullif(replayed_size_bytes, 0) AS replayed_peak_to_mean_high,
               comparison.baseline_partition_count * largest_recorded_size_bytes / nullif(recorded_size_bytes, 0) AS recorded_peak_to_mean
        FROM gold.scenario_comparison AS comparison
        LEFT JOIN (
            SELECT {_SCENARIO}, sum(record_count) AS replayed_record_count, sum(size_bytes) AS replayed_size_bytes,
                   sum(CASE WHEN leader_id < 0 AND partition < partition_count THEN 1 ELSE 0 END) AS open_leader_count,
                   sum(recorded_size_bytes) AS recorded_size_bytes,
                   cast(max(size_bytes) AS double) AS largest_size_bytes, cast(max(size_bytes_high) AS double) AS largest_size_bytes_high,
                   cast(max(recorded_size_bytes) AS double) AS largest_recorded_size_bytes
            FROM gold.replay_results GROUP BY {_SCENARIO}
        ) AS replayed ON {same_columns("replayed", _SCENARIO, "comparison")}
        LEFT JOIN (SELECT {_SCENARIO}, sum(size_bytes) AS broker_size_bytes FROM gold.replay_brokers GROUP BY {_SCENARIO}) AS shares
        ON {same_columns("shares", _SCENARIO, "comparison")}
        LEFT JOIN (
            SELECT {_SCENARIO}, count(*) AS uneven_broker_count FROM (
                SELECT brokers.*, led_low, led_high, sum(size_bytes) OVER (PARTITION BY {scenario}) AS topic_bytes
                FROM gold.replay_brokers AS brokers
                LEFT JOIN (SELECT {_SCENARIO}, leader_id, sum(size_bytes_low) AS led_low, sum(size_bytes_high) AS led_high
                           FROM gold.replay_results GROUP BY {_SCENARIO}, leader_id) AS led
                ON {same_columns("led", _SCENARIO, "brokers")} AND led.leader_id = brokers.broker_id
                WHERE placement = 'known'
            ) AS led_brokers
            WHERE size_bytes < coalesce(led_low, 0) - {MEDIANS_DIFFER} * topic_bytes
                  OR size_bytes > coalesce(led_high, 0) + {MEDIANS_DIFFER} * topic_bytes
            GROUP BY {_SCENARIO}
        ) AS uneven ON {same_columns("uneven", _SCENARIO, "comparison")}
        LEFT JOIN (SELECT {_TOPIC}, sum(record_count) AS batch_record_count FROM silver.partition_traffic GROUP BY {_TOPIC}) AS recorded
        ON {same_columns("recorded", _TOPIC, "comparison")}
        LEFT JOIN (SELECT {_TOPIC}, 1 AS back_test_count FROM gold.back_tests) AS tested ON {same_columns("tested", _TOPIC, "comparison")}
        LEFT JOIN (SELECT {_TOPIC}, count(DISTINCT candidate) AS candidate_count FROM gold.scenario_comparison GROUP BY {_TOPIC}) AS present
        ON {same_columns("present", _TOPIC, "comparison")}
        """
    return Asked(sql, windows, is_few=True, add=partial(_add_expected, run))


def _add_expected(run: RunContext, rows: pa.Table) -> pa.Table:
    import pyarrow as pa

    topics = rows["topic"].to_pylist()
    # and the current setup
    counts = {topic: 1 + sum(candidate.fits(topic) for candidate in run.config.candidates) for topic in set(topics)}
    return rows.append_column("expected_candidate_count", pa.array([counts[topic] for topic in topics], pa.int64()))


# Rows of `gold.replay_brokers` with the sums of their topics' partitions, and with what the log says of each leader
_BROKERS = f"""
    SELECT brokers.*, partition_bytes, recorded_partition_bytes, partition_log_bytes, recorded_partition_log_bytes,
           recorded_open_count,
           coalesce(led_size_bytes, 0) AS led_size_bytes, coalesce(led_record_count, 0) AS led_record_count,
           coalesce(leader_log_bytes, 0) AS leader_log_bytes, is_exact
    FROM gold.replay_brokers AS brokers
    LEFT JOIN (
        SELECT {_SCENARIO}, cast(sum(size_bytes) AS double) AS partition_bytes,
               cast(sum(recorded_size_bytes) AS double) AS recorded_partition_bytes,
               cast(sum(log_size_bytes) AS double) AS partition_log_bytes,
               cast(sum(recorded_log_size_bytes) AS double) AS recorded_partition_log_bytes,
               sum(CASE WHEN leader_id < 0 AND recorded_size_bytes > 0 THEN 1 ELSE 0 END) AS recorded_open_count
        FROM gold.replay_results GROUP BY {_SCENARIO}
    ) AS sums ON {same_columns("sums", _SCENARIO, "brokers")}
    LEFT JOIN (
        SELECT {_SCENARIO}, leader_id, sum(recorded_size_bytes) AS led_size_bytes,
               sum(recorded_record_count) AS led_record_count
        FROM gold.replay_results GROUP BY {_SCENARIO}, leader_id
    ) AS led ON {same_columns("led", _SCENARIO, "brokers")} AND led.leader_id = brokers.broker_id
    LEFT JOIN (
        SELECT {_TOPIC}, leader_id, sum(size_bytes) AS leader_log_bytes,
               max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' AND control_record_count = 0 THEN 0 ELSE 1 END) = 0
                   AS is_exact
        FROM silver.partition_traffic GROUP BY {_TOPIC}, leader_id
    ) AS logged ON {same_columns("logged", _TOPIC, "brokers")} AND logged.leader_id = brokers.broker_id"""

# Data records and batches of each topic and window, as its producer sessions have them and as its traffic does
_SESSIONS = f"""
    SELECT window_start, topic, topic_id, session_record_count, session_batch_count, record_count, batch_count
    FROM (
        SELECT {_TOPIC}, sum(record_count) AS session_record_count, sum(batch_count) AS session_batch_count
        FROM silver.producer_sessions GROUP BY {_TOPIC}
    ) AS told
    LEFT JOIN (
        SELECT {_TOPIC}, sum(record_count) AS record_count, sum(batch_count) AS batch_count,
               max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 0 ELSE 1 END) AS is_estimated
        FROM silver.partition_traffic GROUP BY {_TOPIC}
    ) AS counted USING (window_start, topic, topic_id)
    WHERE coalesce(is_estimated, 0) = 0"""

# Rows of `gold.hash_verdicts` with the records of their topic, and the extremes of the counts in their maps
_TRAFFIC = f"""
    SELECT verdicts.*, traffic_record_count,
           least(array_min(map_values(explained_key_counts)), array_min(map_values(explained_record_counts)))
               AS least_explained_count,
           array_max(map_values(explained_key_counts)) AS most_explained_key_count,
           array_max(map_values(explained_record_counts)) AS most_explained_record_count
    FROM gold.hash_verdicts AS verdicts
    LEFT JOIN (
        SELECT {_TOPIC}, sum(record_count) AS traffic_record_count FROM silver.partition_traffic GROUP BY {_TOPIC}
    ) AS sums ON {same_columns("sums", _TOPIC, "verdicts")}"""

# Rows of `gold.back_tests` with their history, and with what the replay of the current setup says beside them
_TESTS = f"""
    SELECT tests.window_start, tests.topic, tests.topic_id, replayed_trust, comparison_count, log_share AS replayed_share,
           recorded_log_share AS recorded_share, range_points
    FROM gold.back_tests AS tests
    LEFT JOIN (
        SELECT {_TOPIC}, CASE WHEN seed_count IS NOT NULL THEN trust END AS replayed_trust, 1 AS comparison_count
        FROM gold.scenario_comparison WHERE is_baseline
    ) AS comparison ON {same_columns("comparison", _TOPIC, "tests")}
    LEFT JOIN (SELECT {_TOPIC}, broker_id, log_share, recorded_log_share FROM gold.replay_brokers WHERE is_baseline) AS brokers
    ON {same_columns("brokers", _TOPIC, "tests")} AND brokers.broker_id = tests.broker_id
    LEFT JOIN (
        SELECT {_TOPIC}, 100 * max(log_share_high - log_share_low) AS range_points FROM gold.replay_brokers WHERE is_baseline
        GROUP BY {_TOPIC}
    ) AS widest ON {same_columns("widest", _TOPIC, "tests")}"""


def _add_tests(run: RunContext, windows: tuple[TimeWindow, ...], found: pa.Table) -> pa.Table:
    import pyarrow as pa

    rows = add_history(run, windows)
    told = (
        ("replayed_trust", pa.string()),
        ("comparison_count", pa.int64()),
        *((name, pa.float64()) for name in ("replayed_share", "recorded_share", "range_points")),
    )
    return rows.join(found.cast(pa.schema([*map(rows.schema.field, _KEY), *told])), _KEY)


def add_history(run: RunContext, windows: tuple[TimeWindow, ...]) -> pa.Table:
    """Rows of `gold.back_tests` with the median error of their topic in the windows before; NULL with too few of them."""
    import polars as pl
    import pyarrow as pa

    first_ms, end_ms = min(window.start_ms for window in windows), max(window.end_ms for window in windows)
    reach = TimeWindow(max(0, first_ms - HISTORY_FACTOR * HISTORY_WINDOWS * run.window_ms), end_ms)
    history = pl.DataFrame(run.load(BACK_TESTS, (reach,), (*_KEY, "share_error_points"))).sort("window_start")
    before = pl.col("share_error_points").shift(1)
    median = before.rolling_quantile(0.5, "lower", HISTORY_WINDOWS, min_samples=LEAST_HISTORY)
    medians = history.select(*_KEY, history_share_error_points=median.over("topic", "topic_id")).to_arrow()
    rows = run.load(BACK_TESTS, windows).drop_columns(["settings"])  # which no join of Arrow takes
    kinds = [*map(rows.schema.field, _KEY), ("history_share_error_points", pa.float64())]
    return rows.join(medians.cast(pa.schema(kinds)), _KEY)
