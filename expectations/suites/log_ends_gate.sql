-- The last offset that this run's scan found in each log it read to its newest segment,
-- and the log's end by its index
SELECT segments.topic, segments.topic_id, segments.partition, broker_id, last_offset, log_end_offset
FROM (
    SELECT topic, topic_id, partition, broker_id, last_offset FROM bronze.log_segments
    WHERE {own} AND is_active AND is_scanned AND last_offset IS NOT NULL
) AS segments
JOIN (
    SELECT DISTINCT topic, topic_id, partition, replica_id, log_end_offset FROM bronze.cluster_state
    WHERE {own} AND log_end_offset IS NOT NULL
) AS state
ON state.topic = segments.topic AND state.topic_id = segments.topic_id
    AND state.partition = segments.partition AND state.replica_id = segments.broker_id
