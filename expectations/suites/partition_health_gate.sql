-- Rows of `gold.partition_health`, and of partitions that lack one, with their traffic, leader and topic
SELECT coalesce(health.window_start, led.window_start) AS window_start, coalesce(health.topic, led.topic) AS topic,
       coalesce(health.topic_id, led.topic_id) AS topic_id, coalesce(health.partition, led.partition) AS partition,
       leader_id, led_by, health.size_bytes, led_size_bytes, health.record_count, led_record_count,
       health.batch_count, led_batch_count, topic_share, ratio_to_mean, topic_partition_count,
       topic_peak_to_mean, topic_cv, topic_effective_partitions, excess_bytes, heavy_keys_bytes,
       hash_luck_bytes, remainder_bytes, all_count, all_bytes, largest_bytes, deviation_bytes
FROM gold.partition_health AS health
FULL JOIN (
    SELECT window_start, topic, topic_id, partition, sum(bytes) AS led_size_bytes, sum(records) AS led_record_count,
           sum(batches) AS led_batch_count, max(led_by) AS led_by
    FROM (
        SELECT window_start, topic, topic_id, partition, size_bytes AS bytes, record_count AS records,
               batch_count AS batches, -1 AS led_by
        FROM silver.partition_traffic
        UNION ALL
        SELECT window_start, topic, topic_id, partition, 0 AS bytes, 0 AS records, 0 AS batches, leader_id AS led_by
        FROM bronze.cluster_state WHERE is_leader
    ) AS parts
    GROUP BY window_start, topic, topic_id, partition
) AS led USING (window_start, topic, topic_id, partition)
LEFT JOIN (
    SELECT window_start, topic, topic_id, count(1) AS all_count, cast(sum(size_bytes) AS double) AS all_bytes,
           cast(max(size_bytes) AS double) AS largest_bytes, stddev_pop(size_bytes) AS deviation_bytes
    FROM gold.partition_health GROUP BY window_start, topic, topic_id
) AS topics USING (window_start, topic, topic_id)
