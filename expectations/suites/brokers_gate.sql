-- Rows of `bronze.brokers`, and one without a source for each broker that only holds replicas
SELECT coalesce(listed.window_start, holders.window_start) AS window_start,
       coalesce(listed.broker_id, holders.broker_id) AS broker_id, state_source, away_ms, log_directory_count,
       preferred_leader_imbalance_ratio
FROM bronze.brokers AS listed
FULL JOIN (SELECT DISTINCT window_start, replica_id AS broker_id FROM bronze.cluster_state) AS holders
USING (window_start, broker_id)
