"""Defects for the expectations of the suites, planted where jobs leave them; `test_planted_defects.py` runs the suites.

A case changes a copy of the tables as a broken job, a lost write or a damaged file would have left them: that of its suite, unless
it names another.
"""

import datetime as dt
import json

from expectations.suite_files import SUITES
from tests.gates.broken_rows import in_use, lossy, other_partition, rising_error, swap_sizes
from tests.gates.rows import rows_of
from tests.gates.warehouse import rewrite


def changed(where=lambda row: True, /, *, table=None, **values):
    """The first row that `where` picks gets other values; a function gets the row."""

    def change(rows):
        row = next(row for row in rows if where(row))
        row |= {key: value(row) if callable(value) else value for key, value in values.items()}
        return rows

    return lambda run, own: rewrite(run, table or own, change)


def doubled(run, own):
    """A row is there twice, as after a write that was repeated."""
    rewrite(run, own, lambda rows: [*rows, rows[0]])


def lost(where=lambda row: True, *, table=None):
    """A row was never written."""

    def change(rows):
        gone = next(row for row in rows if where(row))
        return [row for row in rows if row is not gone]

    return lambda run, own: rewrite(run, table or own, change)


def of(**values):
    return lambda row: all(row[name] == value for name, value in values.items())


def run_in_vain(row):
    return row["seed_count"] and not row["is_trusted"]


def simulated(row):
    return row["topic"] == "orders" and row["candidate"] == "builtin"


def predicted(row):
    return row["predicted_ratio"] is not None


def beyond_range(row):
    """A share ten points lower than its range allows: how wide that is depends on the warehouse's secret."""
    return row["share"] - (row["share_high"] - row["share_low"]) / 2 - 0.1


def more(name, by=1):
    return lambda row: row[name] + by


def half(name):
    return lambda row: row[name] / 2


def made(*rows):
    """Rows that the capture has none of."""

    def plant(run, own):
        start = dt.datetime.fromtimestamp(run.windows[0].start_ms / 1000, dt.UTC)
        head = {"cluster": run.cluster_name, "run_id": run.run_id}
        head |= {"window_start": start} if own == "gold.forecast" else {}
        rewrite(run, own, lambda _: rows_of(own, [head | row for row in rows]).to_pylist())

    return plant


def forecast(**others):
    return {"horizon_hours": 24, "value_low": 0.5, "value": 1.0, "value_high": 2.0, **others}


TRAFFIC, BATCHES, HASHES = "silver.partition_traffic", "silver.record_batches", "silver.key_hashes"
LOGS, OTHERS = of(source="log_directories"), of(source="producer_metrics")
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
DOCUMENTS = {path.stem: json.loads(path.read_text()) for path in SUITES.glob("*.json")}

PLANTED = {
    "window_status_gate": {
        "windows_present": lost(LOGS),
        "log_directories_complete": changed(LOGS, arrived_count=2),
        "other_sources_complete": changed(OTHERS, expected_count=more("arrived_count")),
        "window_over": changed(LOGS, as_of=lambda row: row["window_end"] - dt.timedelta(seconds=1)),
        "log_directories_fresh": changed(LOGS, newest_at=LONG_AGO),
        "other_sources_fresh": changed(OTHERS, newest_at=LONG_AGO),
        "source_not_expired": changed(LOGS, source_expired=True),
    },
    "cluster_state_gate": {
        "preferred_stands_first": changed(is_preferred_leader=lambda row: not row["is_preferred_leader"]),
        "one_leader": changed(of(is_leader=False), is_leader=True),
        "leader_known": changed(of(is_leader=False), leader_id=-1),
    },
    "brokers_gate": {
        "away_not_negative": changed(away_ms=-1),
        "imbalance_is_ratio": changed(preferred_leader_imbalance_ratio=1.5),
    },
    "consumer_groups_gate": {"partition_numbered": changed(partition=-1)},
    "producer_nodes_gate": {
        "requests_not_negative": changed(request_count=-1.0),
        "bytes_not_negative": changed(outgoing_bytes=-1.0),
        "latency_not_negative": changed(request_latency_avg_ms=-1.0),
        "mean_within_longest": changed(request_latency_avg_ms=9.0, request_latency_max_ms=1.0),
    },
    "quarantine_gate": {
        "key_unique": made({"path": "a"}, {"path": "a"}),
        "severity_known": made({"severity": "grave"}),
        "position_known": made({"severity": "refused", "position": -2}),
    },
    "log_segments_gate": {
        "size_not_negative": changed(size_bytes=-1),
        "offsets_in_order": changed(of(is_scanned=True), first_offset=more("last_offset")),
    },
    "partition_traffic_gate": {
        "offsets_contiguous": changed(missing_offset_count=5),
        "no_record_gone": changed(compacted_record_count=5),
        "crc_ok": changed(crc_error_count=1),
        "leader_known": changed(leader_id=-1),
        "no_time_outlier": changed(time_outlier_count=1),
    },
    "record_batches_gate": {
        "header_sound": changed(record_count=more("record_count")),
        "crc_ok": changed(is_crc_ok=False),
    },
    "log_counts_gate": {"records_read_equal_written": lost(table=BATCHES)},
    "leaders_gate": {"leaders_of_epochs": changed(leader_id=lambda row: (row["leader_id"] + 1) % 3, table=TRAFFIC)},
    "broker_metrics_gate": {
        "increases_not_negative": changed(bytes_in=-1.0),
        "idle_ratios_sound": changed(request_handler_idle_ratio=3.0),
        "leaders_held": changed(leader_count=9, partition_count=8),
        "broker_known": changed(broker_id=None),
    },
    "broker_topics_gate": {"increases_not_negative": changed(bytes_in=-1.0)},
    "broker_request_times_gate": {
        "times_not_negative": changed(request_count=-1.0),
        "percentiles_in_order": changed(time_p50_ms=9.0, time_p99_ms=1.0),
    },
    "key_traffic_gate": {"records_readable": changed(kind="unreadable", table="silver.key_traffic")},
    "key_hashes_gate": {
        **{
            f"{name}_has_32_bits": changed(**{name: 2**32})
            for name in ("murmur2", "crc32", "fnv1a", "murmur3", "java_string", "kafkajs_legacy")
        },
        "empty_key_hashed": changed(is_empty=True),
    },
    "key_answers_gate": {
        "partition_exists": changed(chosen_partition=more("partition_count", 0)),
        "key_is_hashed": lost(table=HASHES),
    },
    "key_matrices_gate": {
        "choice_known": changed(chosen_partition=-3),
        "partition_exists": changed(chosen_partition=more("partition_count", 0)),
        "keys_positive": changed(key_count=0),
    },
    "arrivals_gate": {"counts_not_negative": changed(record_count=-1)},
    "arrival_counts_gate": {
        "timestamps_in_line": changed(outlier_record_count=1, table="silver.arrivals"),
        "keys_hold_what_arrived": swap_sizes,
    },
    "replay_results_gate": {
        "no_partition_beyond": changed(simulated, partition_count=0),
        "batches_sound": changed(simulated, batch_count_high=more("batch_count", -1)),
    },
    "scenario_comparison_gate": {
        "replayed_equal_recorded": lossy(0.48, 0),
        "recorded_equal_batches": lost(of(topic="orders"), table=TRAFFIC),
        "all_seeds_present": changed(simulated, seed_count=1),
        "seeds_replay_all": lossy(1.0, 0, ending=500),
        "delivered_records_stay": lossy(0.48, 10_400),
        "trust_told": changed(simulated, trust=""),
        "baseline_exact": changed(in_use, moved_record_count=1),
        "peaks_follow_partitions": changed(in_use, baseline_peak_to_mean=half("baseline_peak_to_mean")),
    },
    "ingest_contents_gate": {"rows_are_all_there": lost(table="bronze.consumer_groups")},
    "replay_contents_gate": {"rows_are_all_there": lost(table="gold.hash_verdicts")},
    "measures_contents_gate": {"rows_are_all_there": lost(table="gold.promises")},
    "replay_brokers_gate": {"shares_follow_bytes": changed(simulated, share=beyond_range)},
    "hash_verdicts_gate": {"explained_within_judged": changed(explained_record_counts=[("fnv", 10**9)])},
    "back_tests_gate": {
        "trust_follows": changed(of(topic="orders", is_trusted=True), share_error_points=30.0),
        "trust_is_the_replays": changed(run_in_vain, is_trusted=True, trust="trusted"),
        "trust_is_earned": changed(of(batches_trust="trusted"), records_per_batch_ratio=0.5),
        "shares_within_bar": changed(
            of(is_trusted=True), share_error_points=30.0, is_trusted=False, trust="not trustworthy: far off"
        ),
        "error_not_rising": rising_error,
    },
    "producer_sessions_gate": {
        "confidence_is_ratio": changed(confidence=1.5),
        "source_known": changed(source="guessed"),
    },
    "service_models_gate": {
        f"{name}_source_known": changed(**{f"{name}_source": "guessed"})
        for name in ("request", "partition", "kib", "delay")
    },
    "broker_share_gate": {
        "leaders_are_the_states": changed(leader_count=more("leader_count")),
        "capacity_is_configured": changed(capacity=2.0),
        "fair_shares_sum_to_one": changed(expected_share=more("expected_share", -0.1)),
        "chance_is_probability": changed(chance_p_value=1.5),
        "units_not_shrunk": changed(unit_inflation=0.5),
        "luck_only_lowers": changed(ratio_without_luck=more("share_ratio")),
    },
    "partition_health_gate": {
        "partitions_counted": changed(topic_partition_count=more("topic_partition_count")),
        "topic_measures_follow_bytes": changed(of(topic="orders"), topic_peak_to_mean=half("topic_peak_to_mean")),
        "causes_sum_to_excess": changed(
            lambda row: row["heavy_keys_bytes"] is not None, heavy_keys_bytes=more("heavy_keys_bytes", 9.0)
        ),
    },
    "topic_health_gate": {
        "partitions_counted": changed(partition_count=more("partition_count")),
        "records_are_its_partitions": changed(record_count=more("record_count")),
        "variation_is_its_partitions": changed(cv=9.0),
        "effective_is_its_partitions": changed(effective_partitions=9.0),
        "chance_is_probability": changed(peak_p_value=1.5),
        "keyed_is_ratio": changed(keyed_ratio=1.5),
        "heaviest_key_agrees": changed(of(topic="clicks"), top_key_ratio=0.9),
    },
    "hot_keys_gate": {"partition_holds_most": other_partition, "ranks_without_gap": lost(of(rank=1))},
    "group_balance_gate": {
        "partitions_are_the_topics": changed(partition_count=more("partition_count")),
        "idle_not_negative": changed(idle_member_count=-1),
    },
    "zone_traffic_gate": {
        "kind_known": changed(kind="nobody"),
        "source_known": changed(zone_source="a guess"),
        "bytes_positive": changed(size_bytes=0),
        "cost_is_between_zones": changed(lambda row: row["from_zone"] == row["to_zone"], cost=1.0),
        "replication_is_the_followers": changed(of(kind="produce"), kind="replication"),
        "topics_are_there": lambda run, zones: rewrite(
            run, zones, lambda rows: [r for r in rows if r["topic"] != "clicks"]
        ),
    },
    "rule_measures_gate": {"chance_is_probability": changed(p_value=1.5)},
    "recommendations_gate": {
        "prediction_in_range": changed(predicted, predicted_ratio_low=more("predicted_ratio")),
        "moved_not_negative": changed(moved_bytes=-1),
    },
    "promises_gate": {
        "outcome_known": changed(outcome="forgotten"),
        "prediction_in_range": changed(predicted, predicted_ratio_low=more("predicted_ratio")),
        "carried_out_is_ratio": changed(carried_out_ratio=1.5),
    },
    "forecast_gate": {
        "key_unique": made(forecast(), forecast()),
        "horizon_is_a_day": made(forecast(horizon_hours=25)),
        "value_in_range": made(forecast(value_low=2.0)),
        "trust_is_earned": made(forecast(is_trusted=True)),
    },
    "verdicts_gate": {"verdict_known": changed(verdict="fine")},
    "incidents_gate": {
        "state_known": changed(state="paused"),
        "since_before": changed(since=dt.datetime(2040, 1, 1, tzinfo=dt.UTC)),
        "change_was_judged": changed(rule="another"),
    },
    "alert_outbox_gate": {
        "state_known": changed(state="paused"),
        "attempts_not_negative": changed(attempt_count=-1),
        "delivered_somewhere": changed(delivered_to="nobody"),
    },
}
for suite, document in DOCUMENTS.items():
    if any(entry["meta"]["check"] == "key_unique" for entry in document["expectations"]):
        PLANTED.setdefault(suite, {}).setdefault("key_unique", doubled)


def plant_defect(run, suite, check):
    PLANTED[suite][check](run, DOCUMENTS[suite]["meta"].get("table"))
