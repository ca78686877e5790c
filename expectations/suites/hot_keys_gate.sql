-- Rows of `gold.hot_keys` with what `silver.key_traffic` has of that key, of its partition and of the topic
SELECT hot.window_start, hot.topic, hot.topic_id, hot.rank, hot.key, hot.partition, hot.record_count,
       hot.size_bytes, hot.topic_ratio, key_record_count, key_size_bytes, largest_bytes, held_bytes, topic_bytes,
       ranked_count
FROM gold.hot_keys AS hot
LEFT JOIN (
    SELECT window_start, topic, topic_id, partition, key, max(key_records) AS key_record_count,
           max(key_bytes) AS key_size_bytes, max(held) AS held_bytes, max(largest) AS largest_bytes
    FROM (
        SELECT window_start, topic, topic_id, partition, substring(key_id, 1, 8) AS key, size_bytes AS held,
               sum(record_count) OVER (PARTITION BY window_start, topic, topic_id, key_id) AS key_records,
               sum(size_bytes) OVER (PARTITION BY window_start, topic, topic_id, key_id) AS key_bytes,
               max(size_bytes) OVER (PARTITION BY window_start, topic, topic_id, key_id) AS largest
        FROM silver.key_traffic WHERE kind = 'key'
    ) AS keys
    GROUP BY window_start, topic, topic_id, partition, key
) AS stored ON stored.window_start = hot.window_start AND stored.topic = hot.topic
    AND stored.topic_id = hot.topic_id AND stored.partition = hot.partition AND stored.key = hot.key
LEFT JOIN (
    SELECT window_start, topic, topic_id, cast(sum(size_bytes) AS double) AS topic_bytes
    FROM silver.key_traffic GROUP BY window_start, topic, topic_id
) AS sums ON sums.window_start = hot.window_start AND sums.topic = hot.topic AND sums.topic_id = hot.topic_id
LEFT JOIN (
    SELECT window_start, topic, topic_id, count(1) AS ranked_count
    FROM gold.hot_keys GROUP BY window_start, topic, topic_id
) AS ranked ON ranked.window_start = hot.window_start AND ranked.topic = hot.topic AND ranked.topic_id = hot.topic_id
