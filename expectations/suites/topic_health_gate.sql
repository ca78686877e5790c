-- Rows of `gold.topic_health`, and of topics that lack one, with the sums of their partitions and their heaviest key
SELECT coalesce(health.window_start, parts.window_start) AS window_start,
       coalesce(health.topic, parts.topic) AS topic, coalesce(health.topic_id, parts.topic_id) AS topic_id,
       health.partition_count, all_count, health.size_bytes, all_bytes, health.record_count, all_record_count,
       health.batch_count, all_batch_count, peak_to_mean, part_peak_to_mean, cv, part_cv, effective_partitions,
       part_effective_partitions, peak_p_value, keyed_ratio, top_key_ratio, heaviest_ratio
FROM gold.topic_health AS health
FULL JOIN (
    SELECT window_start, topic, topic_id, count(1) AS all_count, sum(size_bytes) AS all_bytes,
           sum(record_count) AS all_record_count, sum(batch_count) AS all_batch_count,
           max(topic_peak_to_mean) AS part_peak_to_mean,
           max(topic_cv) AS part_cv, max(topic_effective_partitions) AS part_effective_partitions
    FROM gold.partition_health GROUP BY window_start, topic, topic_id
) AS parts USING (window_start, topic, topic_id)
LEFT JOIN (
    SELECT window_start, topic, topic_id, topic_ratio AS heaviest_ratio FROM gold.hot_keys WHERE rank = 1
) AS heaviest USING (window_start, topic, topic_id)
