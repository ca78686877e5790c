"""Five defects of a table: a wrong owner, a wrong scale, a missing part, a swapped pair and a stale window."""

import copy

OWNERS = {
    "bronze.window_status": ("source", "arrived_count"),
    "bronze.cluster_state": ("leader_id", "replica_position"),
    "bronze.brokers": ("broker_id", "log_directory_count"),
    "bronze.consumer_groups": ("group_id", "committed_offset"),
    "bronze.log_segments": ("broker_id", "last_offset"),
    "bronze.metric_samples": ("instance", "value"),
    "bronze.quarantine": ("path", "position"),
    "silver.partition_traffic": ("leader_id", "size_bytes"),
    "silver.record_batches": ("leader_id", "size_bytes"),
    "silver.key_traffic": ("partition", "record_count"),
    "silver.key_hashes": ("key_id", "murmur2"),
    "silver.key_answers": ("key_id", "chosen_partition"),
    "silver.key_matrices": ("partition", "record_count"),
    "silver.arrivals": ("topic", "record_count"),
    "silver.producer_nodes": ("broker_id", "request_count"),
    "silver.producer_sessions": ("topic", "record_count"),
    "silver.service_models": ("broker_id", "delay_ms"),
    "silver.broker_metrics": ("broker_id", "bytes_in"),
    "silver.broker_topics": ("topic", "bytes_in"),
    "silver.broker_request_times": ("stage", "time_p99_ms"),
    "gold.broker_share": ("broker_id", "share"),
    "gold.partition_health": ("leader_id", "size_bytes"),
    "gold.topic_health": ("topic", "peak_to_mean"),
    "gold.hot_keys": ("partition", "size_bytes"),
    "gold.latency": ("broker_id", "request_latency_avg_ms"),
    "gold.group_balance": ("topic", "busiest_ratio"),
    "gold.zone_traffic": ("to_zone", "size_bytes"),
    "gold.rule_measures": ("subject", "value"),
    "gold.recommendations": ("subject", "share_ratio"),
    "gold.promises": ("subject", "actual_ratio"),
    "gold.forecast": ("subject", "value"),
    "gold.verdicts": ("subject", "value"),
    "gold.incidents": ("subject", "value"),
    "gold.alert_outbox": ("incident_id", "tells"),
    "gold.replay_results": ("leader_id", "size_bytes"),
    "gold.replay_brokers": ("broker_id", "share"),
    "gold.scenario_comparison": ("topic", "peak_to_mean"),
    "gold.hash_verdicts": ("topic", "record_count"),
    "gold.back_tests": ("topic", "predicted_share"),
}
"""By table: the column that says whose a row is, and the measure that counts most."""


INGESTED, REPLAYED, MEASURED = (
    (f"{gate}_contents_gate", "rows_are_as_made") for gate in ("ingest", "replay", "measures")
)
"""What the commit notes of rows as the job made them, where no other table repeats them."""

FOUND_BY = {
    "bronze.window_status": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "swapped pair": ("window_status_gate", "log_directories_complete"),
        "stale window": INGESTED,
    },
    "bronze.cluster_state": {
        "wrong owner": ("cluster_state_gate", "leader_flag_agrees"),
        "wrong scale": ("cluster_state_gate", "replicas_counted"),
        "missing part": ("cluster_state_gate", "replicas_counted"),
        "swapped pair": INGESTED,
        "stale window": INGESTED,
    },
    "bronze.brokers": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": ("brokers_gate", "replica_holders_listed"),
        "stale window": INGESTED,
    },
    "bronze.consumer_groups": {
        "wrong owner": ("group_balance_gate", "groups_are_there"),
        "wrong scale": ("consumer_groups_gate", "lag_agrees"),
        "missing part": INGESTED,
        "swapped pair": ("consumer_groups_gate", "lag_agrees"),
    },
    "bronze.log_segments": {
        "wrong owner": ("log_segments_gate", "broker_holds_the_replica"),
        "wrong scale": ("log_segments_gate", "offsets_follow_records"),
        "missing part": ("log_coverage_gate", "segments_hold_the_traffic"),
        "swapped pair": ("log_ends_gate", "logs_read_to_their_ends"),
    },
    "bronze.metric_samples": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "swapped pair": INGESTED,
        "stale window": ("metric_samples_gate", "taken_in_its_window"),
    },
    "bronze.quarantine": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "swapped pair": INGESTED,
    },
    "silver.partition_traffic": {
        "wrong owner": ("broker_share_gate", "batches_are_its_traffic"),
        "wrong scale": ("broker_share_gate", "bytes_are_its_traffic"),
        "missing part": ("arrival_counts_gate", "arrivals_equal_data_records"),
        "swapped pair": ("broker_share_gate", "share_follows_bytes"),
        "stale window": ("broker_share_gate", "records_are_its_traffic"),
    },
    "silver.record_batches": {
        "wrong owner": ("log_counts_gate", "bytes_read_equal_written"),
        "wrong scale": ("log_counts_gate", "bytes_read_equal_written"),
        "missing part": ("log_counts_gate", "offsets_read_equal_written"),
        "swapped pair": ("log_counts_gate", "bytes_read_equal_written"),
        "stale window": ("record_batches_gate", "key_unique"),
    },
    "silver.key_traffic": {
        "wrong owner": ("key_traffic_gate", "records_by_key_equal_data_records"),
        "wrong scale": ("hot_keys_gate", "records_are_the_keys"),
        "missing part": ("hot_keys_gate", "part_follows_bytes"),
        "swapped pair": ("arrival_counts_gate", "keys_hold_what_arrived"),
        "stale window": ("hot_keys_gate", "bytes_are_the_keys"),
    },
    "silver.key_hashes": {
        "wrong owner": INGESTED,
        "wrong scale": ("key_hashes_gate", "murmur2_has_32_bits"),
        "missing part": ("key_hashes_gate", "keys_have_hashes"),
        "swapped pair": INGESTED,
    },
    "silver.key_answers": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "swapped pair": INGESTED,
    },
    "silver.key_matrices": {
        "wrong owner": ("key_matrices_gate", "placed_equal_keyed"),
        "wrong scale": ("key_matrices_gate", "placed_equal_keyed"),
        "missing part": ("key_matrices_gate", "placed_equal_keyed"),
        "swapped pair": ("key_matrices_gate", "placed_equal_keyed"),
        "stale window": ("key_matrices_gate", "placed_equal_keyed"),
    },
    "silver.arrivals": {
        "wrong owner": ("arrival_counts_gate", "arrivals_equal_data_records"),
        "wrong scale": ("arrival_counts_gate", "arrays_even"),
        "missing part": ("arrival_counts_gate", "arrivals_equal_data_records"),
        "swapped pair": ("arrival_counts_gate", "arrays_even"),
        "stale window": ("arrival_counts_gate", "arrivals_equal_data_records"),
    },
    "silver.producer_nodes": {
        "wrong owner": ("latency_gate", "longest_is_the_clients"),
        "wrong scale": ("latency_gate", "requests_are_the_clients"),
        "missing part": ("latency_gate", "mean_is_the_clients"),
        "swapped pair": ("latency_gate", "mean_is_the_clients"),
        "stale window": ("latency_gate", "longest_is_the_clients"),
    },
    "silver.producer_sessions": {
        "wrong owner": ("session_counts_gate", "sessions_equal_batches"),
        "wrong scale": ("session_counts_gate", "sessions_equal_data_records"),
        "missing part": REPLAYED,
        "swapped pair": ("producer_sessions_gate", "keyless_within"),
        "stale window": ("session_counts_gate", "sessions_equal_batches"),
    },
    "silver.service_models": {
        "wrong owner": REPLAYED,
        "wrong scale": ("service_models_gate", "ranges_sound"),
        "missing part": REPLAYED,
        "swapped pair": ("service_models_gate", "ranges_sound"),
        "stale window": REPLAYED,
    },
    "silver.broker_metrics": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "stale window": INGESTED,
    },
    "silver.broker_topics": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "swapped pair": INGESTED,
        "stale window": INGESTED,
    },
    "silver.broker_request_times": {
        "wrong owner": INGESTED,
        "wrong scale": INGESTED,
        "missing part": INGESTED,
        "swapped pair": INGESTED,
        "stale window": INGESTED,
    },
    "gold.broker_share": {
        "wrong owner": ("recommendations_gate", "ratio_is_the_brokers"),
        "wrong scale": ("broker_share_gate", "causes_sum_to_excess"),
        "missing part": ("broker_share_gate", "capacity_is_configured"),
        "swapped pair": ("broker_share_gate", "ratio_follows_share"),
        "stale window": ("verdicts_gate", "share_is_the_brokers"),
    },
    "gold.partition_health": {
        "wrong owner": ("partition_health_gate", "leader_is_the_states"),
        "wrong scale": ("partition_health_gate", "bytes_are_its_traffic"),
        "missing part": ("partition_health_gate", "batches_are_its_traffic"),
        "swapped pair": ("partition_health_gate", "shares_follow_bytes"),
        "stale window": ("partition_health_gate", "records_are_its_traffic"),
    },
    "gold.topic_health": {
        "wrong owner": ("topic_health_gate", "batches_are_its_partitions"),
        "wrong scale": ("topic_health_gate", "peak_is_its_partitions"),
        "missing part": ("topic_health_gate", "bytes_are_its_partitions"),
        "swapped pair": ("rule_measures_gate", "measure_is_the_topics"),
        "stale window": ("topic_health_gate", "effective_is_its_partitions"),
    },
    "gold.hot_keys": {
        "wrong owner": ("hot_keys_gate", "bytes_are_the_keys"),
        "wrong scale": ("hot_keys_gate", "bytes_are_the_keys"),
        "missing part": MEASURED,
        "swapped pair": ("hot_keys_gate", "bytes_are_the_keys"),
        "stale window": ("topic_health_gate", "heaviest_key_agrees"),
    },
    "gold.latency": {
        "wrong owner": ("latency_gate", "longest_is_the_clients"),
        "wrong scale": ("latency_gate", "mean_is_the_clients"),
        "missing part": ("latency_gate", "rows_are_there"),
        "swapped pair": ("latency_gate", "mean_is_the_clients"),
        "stale window": ("latency_gate", "longest_is_the_clients"),
    },
    "gold.group_balance": {
        "wrong owner": ("group_balance_gate", "members_were_seen"),
        "wrong scale": ("group_balance_gate", "busiest_is_ratio"),
        "missing part": ("group_balance_gate", "groups_are_there"),
    },
    "gold.zone_traffic": {
        "wrong owner": ("zone_traffic_gate", "zones_differ"),
        "wrong scale": ("zone_traffic_gate", "produce_is_the_traffic"),
        "missing part": ("zone_traffic_gate", "produce_is_the_traffic"),
        "swapped pair": MEASURED,
        "stale window": ("zone_traffic_gate", "produce_is_the_traffic"),
    },
    "gold.rule_measures": {
        "wrong owner": ("verdicts_gate", "value_is_the_rules"),
        "wrong scale": ("rule_measures_gate", "measure_is_the_topics"),
        "missing part": MEASURED,
        "swapped pair": MEASURED,
        "stale window": ("rule_measures_gate", "measure_is_the_topics"),
    },
    "gold.recommendations": {
        "wrong owner": ("recommendations_gate", "ratio_is_the_brokers"),
        "wrong scale": ("recommendations_gate", "ratio_is_the_brokers"),
        "missing part": ("recommendations_gate", "ranks_without_gap"),
        "stale window": ("recommendations_gate", "ratio_is_the_brokers"),
    },
    "gold.promises": {
        "wrong owner": ("promises_gate", "ratio_is_the_brokers"),
        "wrong scale": ("promises_gate", "ratio_is_the_brokers"),
        "missing part": MEASURED,
        "stale window": ("promises_gate", "ratio_is_the_brokers"),
    },
    "gold.forecast": {
        "wrong owner": MEASURED,
        "wrong scale": ("forecast_gate", "value_in_range"),
        "missing part": MEASURED,
        "swapped pair": MEASURED,
        "stale window": MEASURED,
    },
    "gold.verdicts": {
        "wrong owner": ("verdicts_gate", "brokers_judged"),
        "wrong scale": ("verdicts_gate", "share_is_the_brokers"),
        "missing part": ("verdicts_gate", "fails_only_above"),
        "swapped pair": ("verdicts_gate", "share_is_the_brokers"),
        "stale window": ("verdicts_gate", "share_is_the_brokers"),
    },
    "gold.incidents": {
        "wrong owner": ("incidents_gate", "change_was_judged"),
        "wrong scale": ("incidents_gate", "peak_not_below_value"),
        "missing part": MEASURED,
    },
    "gold.alert_outbox": {
        "wrong owner": ("alert_outbox_gate", "tells_of_its_incident"),
        "wrong scale": ("alert_outbox_gate", "changes_are_told"),
        "missing part": ("alert_outbox_gate", "changes_are_told"),
    },
    "gold.replay_results": {
        "wrong owner": ("replay_brokers_gate", "recorded_is_what_it_led"),
        "wrong scale": ("replay_results_gate", "ranges_sound"),
        "missing part": ("replay_brokers_gate", "log_shares_follow_bytes"),
        "swapped pair": ("replay_results_gate", "ranges_sound"),
        "stale window": ("replay_brokers_gate", "recorded_log_is_its_traffic"),
    },
    "gold.replay_brokers": {
        "wrong owner": ("back_tests_gate", "shares_are_the_replays"),
        "wrong scale": ("replay_brokers_gate", "ranges_sound"),
        "missing part": ("scenario_comparison_gate", "shares_sum_to_one"),
        "swapped pair": ("replay_brokers_gate", "shares_follow_bytes"),
        "stale window": ("replay_brokers_gate", "recorded_is_what_it_led"),
    },
    "gold.scenario_comparison": {
        "wrong owner": ("scenario_comparison_gate", "back_test_is_there"),
        "wrong scale": ("scenario_comparison_gate", "peaks_follow_partitions"),
        "missing part": ("scenario_comparison_gate", "candidates_present"),
        "swapped pair": ("scenario_comparison_gate", "peaks_follow_partitions"),
        "stale window": ("scenario_comparison_gate", "recorded_equal_batches"),
    },
    "gold.hash_verdicts": {
        "wrong owner": ("hash_verdicts_gate", "all_records_judged_or_not"),
        "wrong scale": ("hash_verdicts_gate", "ratio_follows"),
        "missing part": REPLAYED,
        "stale window": ("hash_verdicts_gate", "all_records_judged_or_not"),
    },
    "gold.back_tests": {
        "wrong owner": ("back_tests_gate", "replay_is_there"),
        "wrong scale": ("back_tests_gate", "error_is_difference"),
        "missing part": ("scenario_comparison_gate", "back_test_is_there"),
        "swapped pair": ("back_tests_gate", "shares_sound"),
        "stale window": ("back_tests_gate", "trust_is_the_replays"),
    },
}
"""Suite and check that find each defect. A defect that the rows do not allow is left out."""


def plant(defect, table, rows):
    """Rows of a table with a defect, as a broken job would have left them.

    `rows`: of several windows, as dictionaries.
    """
    owner, measure = OWNERS[table.name]
    rows = sorted(copy.deepcopy(rows), key=lambda row: repr([row[name] for name in table.key]))
    starts = sorted({row["window_start"] for row in rows}) if "window_start" in table.column_names else []
    if defect == "stale window":
        stale = [row | {"window_start": starts[-1]} for row in rows if row["window_start"] == starts[-2]]
        return [row for row in rows if row["window_start"] != starts[-1]] + stale
    last = [row for row in rows if not starts or row["window_start"] == starts[-1]]
    counting = [row for row in last if row[measure]]
    if defect == "wrong owner":
        _rotate(last, owner)
    elif defect == "wrong scale":
        for row in counting:
            row[measure] *= 2
    elif defect == "missing part":
        rows.remove(counting[0])
    else:
        first, other = counting[0], next(row for row in counting if row[measure] != counting[0][measure])
        first[measure], other[measure] = other[measure], first[measure]
    return rows


def _rotate(rows, owner):
    owners = sorted({row[owner] for row in rows} - {-1})
    if len(owners) == 1:
        owners.append(f"{owners[0]}9" if isinstance(owners[0], str) else owners[0] + 1)
    for row in rows:
        if row[owner] != -1:
            row[owner] = owners[(owners.index(row[owner]) + 1) % len(owners)]
