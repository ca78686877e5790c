-- Rows of `bronze.log_segments`: with the broker whose replica lies in their directory; is their topic compacted?
SELECT segments.*, coalesce(holder_id, broker_id) AS holder_id, coalesce(is_compacted, true) AS is_compacted
FROM (SELECT * FROM bronze.log_segments WHERE {own}) AS segments
LEFT JOIN (
    SELECT topic, topic_id, partition, log_directory, max(replica_id) AS holder_id
    FROM bronze.cluster_state WHERE log_directory IS NOT NULL
    GROUP BY topic, topic_id, partition, log_directory HAVING min(replica_id) = max(replica_id)
) AS state USING (topic, topic_id, partition, log_directory)
LEFT JOIN (
    SELECT topic, topic_id, bool_or(is_compacted) AS is_compacted FROM silver.partition_traffic GROUP BY topic, topic_id
) AS topics USING (topic, topic_id)
