-- Data records and batches of each topic and window, as its producer sessions have them and as its traffic does
SELECT window_start, topic, topic_id, session_record_count, session_batch_count, record_count, batch_count
FROM (
    SELECT window_start, topic, topic_id, sum(record_count) AS session_record_count,
           sum(batch_count) AS session_batch_count
    FROM silver.producer_sessions GROUP BY window_start, topic, topic_id
) AS told
LEFT JOIN (
    SELECT window_start, topic, topic_id, sum(record_count) AS record_count, sum(batch_count) AS batch_count,
           max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 0 ELSE 1 END) AS is_estimated
    FROM silver.partition_traffic GROUP BY window_start, topic, topic_id
) AS counted USING (window_start, topic, topic_id)
WHERE coalesce(is_estimated, 0) = 0
