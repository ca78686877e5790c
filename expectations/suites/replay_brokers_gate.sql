-- Rows of `gold.replay_brokers` with the sums of their topics' partitions, and with what the log says of each leader
SELECT brokers.*, partition_bytes, recorded_partition_bytes, partition_log_bytes, recorded_partition_log_bytes,
       recorded_open_count,
       coalesce(led_size_bytes, 0) AS led_size_bytes, coalesce(led_record_count, 0) AS led_record_count,
       coalesce(leader_log_bytes, 0) AS leader_log_bytes, is_exact
FROM gold.replay_brokers AS brokers
LEFT JOIN (
    SELECT window_start, topic, topic_id, candidate, cast(sum(size_bytes) AS double) AS partition_bytes,
           cast(sum(recorded_size_bytes) AS double) AS recorded_partition_bytes,
           cast(sum(log_size_bytes) AS double) AS partition_log_bytes,
           cast(sum(recorded_log_size_bytes) AS double) AS recorded_partition_log_bytes,
           sum(CASE WHEN leader_id < 0 AND recorded_size_bytes > 0 THEN 1 ELSE 0 END) AS recorded_open_count
    FROM gold.replay_results GROUP BY window_start, topic, topic_id, candidate
) AS sums USING (window_start, topic, topic_id, candidate)
LEFT JOIN (
    SELECT window_start, topic, topic_id, candidate, leader_id, sum(recorded_size_bytes) AS led_size_bytes,
           sum(recorded_record_count) AS led_record_count
    FROM gold.replay_results GROUP BY window_start, topic, topic_id, candidate, leader_id
) AS led ON led.window_start = brokers.window_start AND led.topic = brokers.topic
    AND led.topic_id = brokers.topic_id AND led.candidate = brokers.candidate AND led.leader_id = brokers.broker_id
LEFT JOIN (
    SELECT window_start, topic, topic_id, leader_id, sum(size_bytes) AS leader_log_bytes,
           max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' AND control_record_count = 0 THEN 0 ELSE 1 END) = 0
               AS is_exact
    FROM silver.partition_traffic GROUP BY window_start, topic, topic_id, leader_id
) AS logged ON logged.window_start = brokers.window_start AND logged.topic = brokers.topic
    AND logged.topic_id = brokers.topic_id AND logged.leader_id = brokers.broker_id
