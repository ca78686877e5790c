"""The data gate after `replay`: was every recorded record replayed once, by every candidate?

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING

from expectations.gate import Asked, Batches, run_gate, same_columns
from expectations.gates import load_named
from expectations.reports import SuiteReport, raise_for_data_gate
from pipeline.model.verdict import HISTORY_FACTOR
from pipeline.model.window import TimeWindow
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS, REPLAY_BROKERS, REPLAY_RESULTS, SCENARIO_COMPARISON
from pipeline.tables.sessions import PRODUCER_SESSIONS, SERVICE_MODELS
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


def check_replayed(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> tuple[SuiteReport, ...]:
    """The data gate of `replay`, over the windows that were replayed.

    Raises:
        DataGateError: A critical check failed; all suites had their turn before.
        GateBrokenError: A check raised.
    """
    if not windows:
        return ()
    reports = run_gate(spark, "replay", run, list_replayed(run, windows))
    raise_for_data_gate(reports)
    return reports


def list_replayed(run: RunContext, windows: tuple[TimeWindow, ...]) -> Batches:
    """The rows of each suite of the gate."""
    return {
        "replay_results_gate": load_named(REPLAY_RESULTS, windows),
        "replay_brokers_gate": join_brokers(run, windows),
        "scenario_comparison_gate": compare_sums(run, windows),
        "hash_verdicts_gate": join_traffic(run, windows),
        "back_tests_gate": join_back_tests(run, windows),
        "producer_sessions_gate": load_named(PRODUCER_SESSIONS, windows),
        "session_counts_gate": sum_sessions(run, windows),
        "service_models_gate": load_named(SERVICE_MODELS, windows),
    }


def compare_sums(run: RunContext, windows: tuple[TimeWindow, ...]) -> Asked:
    """Rows of the comparison with what they have to agree with: results, brokers, traffic, the configured candidates."""
    return Asked(
        sql=f"""
        SELECT comparison.window_start, comparison.topic, comparison.topic_id, comparison.candidate,
               comparison.is_baseline, comparison.partitioner, comparison.record_count, comparison.size_bytes,
               comparison.lost_record_count, comparison.lost_record_count_high, comparison.seed_count,
               comparison.replayed_record_count_low, comparison.replayed_record_count_high,
               comparison.moved_record_count, comparison.keyed_record_count, comparison.trust,
               comparison.peak_to_mean_low, comparison.peak_to_mean, comparison.peak_to_mean_high, comparison.baseline_peak_to_mean,
               comparison.baseline_partition_count, replayed_record_count, replayed_size_bytes, recorded_size_bytes, open_leader_count, broker_size_bytes,
               coalesce(uneven_broker_count, 0) AS uneven_broker_count,
               coalesce(batch_record_count, 0) AS batch_record_count, candidate_count, back_test_count,
               comparison.partition_count * largest_size_bytes / nullif(replayed_size_bytes, 0) AS replayed_peak_to_mean,
               comparison.partition_count * largest_size_bytes_high / nullif(replayed_size_bytes, 0) AS replayed_peak_to_mean_high,
               comparison.baseline_partition_count * largest_recorded_size_bytes / nullif(recorded_size_bytes, 0)
                   AS recorded_peak_to_mean
        FROM {{comparison}} AS comparison
        LEFT JOIN (
            SELECT {_SCENARIO}, sum(record_count) AS replayed_record_count, sum(size_bytes) AS replayed_size_bytes,
                   sum(CASE WHEN leader_id < 0 AND partition < partition_count THEN 1 ELSE 0 END) AS open_leader_count,
                   sum(recorded_size_bytes) AS recorded_size_bytes,
                   cast(max(size_bytes) AS double) AS largest_size_bytes, cast(max(size_bytes_high) AS double) AS largest_size_bytes_high,
                   cast(max(recorded_size_bytes) AS double) AS largest_recorded_size_bytes
            FROM {{results}} GROUP BY {_SCENARIO}
        ) AS replayed ON {same_columns("replayed", _SCENARIO, "comparison")}
        LEFT JOIN (
            SELECT {_SCENARIO}, sum(size_bytes) AS broker_size_bytes FROM {{brokers}} GROUP BY {_SCENARIO}
        ) AS shares ON {same_columns("shares", _SCENARIO, "comparison")}
        LEFT JOIN (
            {_count_uneven_brokers()}
        ) AS uneven ON {same_columns("uneven", _SCENARIO, "comparison")}
        LEFT JOIN (
            SELECT {_TOPIC}, sum(record_count) AS batch_record_count FROM {{traffic}} GROUP BY {_TOPIC}
        ) AS recorded ON {same_columns("recorded", _TOPIC, "comparison")}
        LEFT JOIN (SELECT {_TOPIC}, 1 AS back_test_count FROM {{tests}}) AS tested ON {same_columns("tested", _TOPIC, "comparison")}
        LEFT JOIN (
            SELECT {_TOPIC}, count(DISTINCT candidate) AS candidate_count FROM {{comparison}} GROUP BY {_TOPIC}
        ) AS present ON {same_columns("present", _TOPIC, "comparison")}
        """,
        windows=tuple(windows),
        tables={
            "comparison": SCENARIO_COMPARISON,
            "results": REPLAY_RESULTS,
            "brokers": REPLAY_BROKERS,
            "traffic": PARTITION_TRAFFIC,
            "tests": BACK_TESTS,
        },
        is_few=True,
        add=partial(_add_expected, run),
    )


def _add_expected(run: RunContext, rows: pa.Table) -> pa.Table:
    """Rows of the comparison with what is configured."""
    import pyarrow as pa

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
            SELECT {scenario}, size_bytes, led_low, led_high, sum(size_bytes) OVER (PARTITION BY {scenario}) AS topic_bytes
            FROM {{brokers}} AS brokers
            LEFT JOIN (
                SELECT {_SCENARIO}, leader_id, sum(size_bytes_low) AS led_low, sum(size_bytes_high) AS led_high
                FROM {{results}} GROUP BY {_SCENARIO}, leader_id
            ) AS led ON {same_columns("led", _SCENARIO, "brokers")} AND led.leader_id = brokers.broker_id
            WHERE placement = 'known'
        ) AS led_brokers
        WHERE size_bytes NOT BETWEEN coalesce(led_low, 0) - {MEDIANS_DIFFER} * topic_bytes
              AND coalesce(led_high, 0) + {MEDIANS_DIFFER} * topic_bytes
        GROUP BY {_SCENARIO}
    """


def join_brokers(run: RunContext, windows: tuple[TimeWindow, ...]) -> Asked:
    """Rows of `gold.replay_brokers` with the sums of their topics' partitions, and with what the log says of each leader."""
    return Asked(
        sql=f"""
        SELECT brokers.window_start, brokers.topic, brokers.topic_id, brokers.candidate, brokers.is_baseline, broker_id,
               placement, size_bytes_low, size_bytes, size_bytes_high, recorded_size_bytes, recorded_record_count,
               share_low, share, share_high, recorded_share, log_share_low, log_share, log_share_high,
               log_size_bytes, recorded_log_share, recorded_log_size_bytes, partition_bytes, recorded_partition_bytes,
               partition_log_bytes, recorded_partition_log_bytes, recorded_open_count,
               coalesce(led_size_bytes, 0) AS led_size_bytes, coalesce(led_record_count, 0) AS led_record_count,
               coalesce(leader_log_bytes, 0) AS leader_log_bytes, is_exact
        FROM {{brokers}} AS brokers
        LEFT JOIN (
            SELECT {_SCENARIO}, cast(sum(size_bytes) AS double) AS partition_bytes,
                   cast(sum(recorded_size_bytes) AS double) AS recorded_partition_bytes,
                   cast(sum(log_size_bytes) AS double) AS partition_log_bytes,
                   cast(sum(recorded_log_size_bytes) AS double) AS recorded_partition_log_bytes,
                   sum(CASE WHEN leader_id < 0 AND recorded_size_bytes > 0 THEN 1 ELSE 0 END) AS recorded_open_count
            FROM {{results}} GROUP BY {_SCENARIO}
        ) AS sums ON {same_columns("sums", _SCENARIO, "brokers")}
        LEFT JOIN (
            SELECT {_SCENARIO}, leader_id, sum(recorded_size_bytes) AS led_size_bytes,
                   sum(recorded_record_count) AS led_record_count
            FROM {{results}} GROUP BY {_SCENARIO}, leader_id
        ) AS led ON {same_columns("led", _SCENARIO, "brokers")} AND led.leader_id = brokers.broker_id
        LEFT JOIN (
            SELECT {_TOPIC}, leader_id, sum(size_bytes) AS leader_log_bytes,
                   max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' AND control_record_count = 0 THEN 0 ELSE 1 END) = 0
                       AS is_exact
            FROM {{traffic}} GROUP BY {_TOPIC}, leader_id
        ) AS logged ON {same_columns("logged", _TOPIC, "brokers")} AND logged.leader_id = brokers.broker_id
        """,
        windows=tuple(windows),
        tables={"brokers": REPLAY_BROKERS, "results": REPLAY_RESULTS, "traffic": PARTITION_TRAFFIC},
        is_few=True,
    )


def sum_sessions(run: RunContext, windows: tuple[TimeWindow, ...]) -> Asked:
    """Data records and batches of each topic and window, as its producer sessions have them and as its traffic does."""
    return Asked(
        sql=f"""
        SELECT window_start, topic, topic_id, session_record_count, session_batch_count, record_count, batch_count
        FROM (
            SELECT {_TOPIC}, sum(record_count) AS session_record_count, sum(batch_count) AS session_batch_count
            FROM {{sessions}} GROUP BY {_TOPIC}
        ) AS told
        LEFT JOIN (
            SELECT {_TOPIC}, sum(record_count) AS record_count, sum(batch_count) AS batch_count,
                   max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 0 ELSE 1 END) AS is_estimated
            FROM {{traffic}} GROUP BY {_TOPIC}
        ) AS counted USING (window_start, topic, topic_id)
        WHERE coalesce(is_estimated, 0) = 0
        """,
        windows=tuple(windows),
        tables={"sessions": PRODUCER_SESSIONS, "traffic": PARTITION_TRAFFIC},
    )


def join_traffic(run: RunContext, windows: tuple[TimeWindow, ...]) -> Asked:
    """Rows of `gold.hash_verdicts` with the records of their topic, and the extremes of the counts in their maps."""
    return Asked(
        sql=f"""
        SELECT verdicts.window_start, verdicts.topic, verdicts.topic_id, verdict, verdicts.record_count,
               unjudged_record_count, key_count, explained_ratio, chance_ratio, partition_count, explained_key_counts,
               explained_record_counts, traffic_record_count
        FROM {{verdicts}} AS verdicts
        LEFT JOIN (
            SELECT {_TOPIC}, sum(record_count) AS traffic_record_count FROM {{traffic}} GROUP BY {_TOPIC}
        ) AS sums ON {same_columns("sums", _TOPIC, "verdicts")}
        """,
        windows=windows,
        tables={"verdicts": HASH_VERDICTS, "traffic": PARTITION_TRAFFIC},
        is_few=True,
        add=add_extremes,
    )


def join_back_tests(run: RunContext, windows: tuple[TimeWindow, ...]) -> Asked:
    """Rows of `gold.back_tests` with their history, and with what the replay of the current setup says beside them."""
    return Asked(
        sql=f"""
        SELECT tests.window_start, tests.topic, tests.topic_id, replayed_trust, comparison_count, log_share AS replayed_share,
               recorded_log_share AS recorded_share, range_points
        FROM {{tests}} AS tests
        LEFT JOIN (
            SELECT {_TOPIC}, CASE WHEN seed_count IS NOT NULL THEN trust END AS replayed_trust, 1 AS comparison_count
            FROM {{comparison}} WHERE is_baseline
        ) AS comparison ON {same_columns("comparison", _TOPIC, "tests")}
        LEFT JOIN (SELECT {_TOPIC}, broker_id, log_share, recorded_log_share FROM {{brokers}} WHERE is_baseline) AS brokers
        ON {same_columns("brokers", _TOPIC, "tests")} AND brokers.broker_id = tests.broker_id
        LEFT JOIN (
            SELECT {_TOPIC}, 100 * max(log_share_high - log_share_low) AS range_points FROM {{brokers}} WHERE is_baseline
            GROUP BY {_TOPIC}
        ) AS widest ON {same_columns("widest", _TOPIC, "tests")}
        """,
        windows=tuple(windows),
        tables={"tests": BACK_TESTS, "comparison": SCENARIO_COMPARISON, "brokers": REPLAY_BROKERS},
        is_few=True,
        add=partial(_add_tests, run, windows),
    )


def _add_tests(run: RunContext, windows: tuple[TimeWindow, ...], found: pa.Table) -> pa.Table:
    """Rows of `gold.back_tests` with their history and what was asked beside them."""
    import pyarrow as pa

    rows, keys = add_history(run, windows).drop_columns(["settings"]), ["window_start", "topic", "topic_id"]
    kinds = [rows.schema.field(name) for name in keys]
    told = (
        ("replayed_trust", pa.string()),
        ("comparison_count", pa.int64()),
        *((name, pa.float64()) for name in ("replayed_share", "recorded_share", "range_points")),
    )
    return rows.join(found.cast(pa.schema([*kinds, *told])), keys)


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
