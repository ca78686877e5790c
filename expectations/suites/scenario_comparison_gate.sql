-- Rows of the comparison with what they have to agree with: results, brokers, traffic, the configured candidates.
SELECT comparison.*, {seeds} AS expected_seed_count, replayed_record_count, replayed_size_bytes,
       recorded_size_bytes, open_leader_count, broker_size_bytes, candidate_count, back_test_count,
       coalesce(uneven_broker_count, 0) AS uneven_broker_count, coalesce(batch_record_count, 0) AS batch_record_count,
       comparison.partition_count * largest_size_bytes / nullif(replayed_size_bytes, 0) AS replayed_peak_to_mean,
       comparison.partition_count * largest_size_bytes_high / nullif(replayed_size_bytes, 0)
           AS replayed_peak_to_mean_high,
       comparison.baseline_partition_count * largest_recorded_size_bytes / nullif(recorded_size_bytes, 0)
           AS recorded_peak_to_mean
FROM gold.scenario_comparison AS comparison
LEFT JOIN (
    SELECT window_start, topic, topic_id, candidate, sum(record_count) AS replayed_record_count,
           sum(size_bytes) AS replayed_size_bytes,
           sum(CASE WHEN leader_id < 0 AND partition < partition_count THEN 1 ELSE 0 END) AS open_leader_count,
           sum(recorded_size_bytes) AS recorded_size_bytes,
           cast(max(size_bytes) AS double) AS largest_size_bytes,
           cast(max(size_bytes_high) AS double) AS largest_size_bytes_high,
           cast(max(recorded_size_bytes) AS double) AS largest_recorded_size_bytes
    FROM gold.replay_results GROUP BY window_start, topic, topic_id, candidate
) AS replayed ON replayed.window_start = comparison.window_start AND replayed.topic = comparison.topic
    AND replayed.topic_id = comparison.topic_id AND replayed.candidate = comparison.candidate
LEFT JOIN (
    SELECT window_start, topic, topic_id, candidate, sum(size_bytes) AS broker_size_bytes
    FROM gold.replay_brokers GROUP BY window_start, topic, topic_id, candidate
) AS shares ON shares.window_start = comparison.window_start AND shares.topic = comparison.topic
    AND shares.topic_id = comparison.topic_id AND shares.candidate = comparison.candidate
LEFT JOIN (
    SELECT window_start, topic, topic_id, candidate, count(*) AS uneven_broker_count FROM (
        SELECT brokers.*, led_low, led_high, sum(size_bytes) OVER (
                   PARTITION BY brokers.window_start, brokers.topic, brokers.topic_id, brokers.candidate
               ) AS topic_bytes
        FROM gold.replay_brokers AS brokers
        LEFT JOIN (
            SELECT window_start, topic, topic_id, candidate, leader_id AS broker_id, sum(size_bytes_low) AS led_low,
                   sum(size_bytes_high) AS led_high
            FROM gold.replay_results GROUP BY window_start, topic, topic_id, candidate, leader_id
        ) AS led USING (window_start, topic, topic_id, candidate, broker_id)
        WHERE placement = 'known'
    ) AS led_brokers
    -- a broker's median may leave the ranges of its partitions by so much of the topic's bytes
    WHERE size_bytes < coalesce(led_low, 0) - 0.02 * topic_bytes
          OR size_bytes > coalesce(led_high, 0) + 0.02 * topic_bytes
    GROUP BY window_start, topic, topic_id, candidate
) AS uneven ON uneven.window_start = comparison.window_start AND uneven.topic = comparison.topic
    AND uneven.topic_id = comparison.topic_id AND uneven.candidate = comparison.candidate
LEFT JOIN (
    SELECT window_start, topic, topic_id, sum(record_count) AS batch_record_count
    FROM silver.partition_traffic GROUP BY window_start, topic, topic_id
) AS recorded ON recorded.window_start = comparison.window_start AND recorded.topic = comparison.topic
    AND recorded.topic_id = comparison.topic_id
LEFT JOIN (
    SELECT window_start, topic, topic_id, 1 AS back_test_count FROM gold.back_tests
) AS tested ON tested.window_start = comparison.window_start AND tested.topic = comparison.topic
    AND tested.topic_id = comparison.topic_id
LEFT JOIN (
    SELECT window_start, topic, topic_id, count(DISTINCT candidate) AS candidate_count
    FROM gold.scenario_comparison GROUP BY window_start, topic, topic_id
) AS present ON present.window_start = comparison.window_start AND present.topic = comparison.topic
    AND present.topic_id = comparison.topic_id
