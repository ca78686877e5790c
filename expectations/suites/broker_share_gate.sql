-- Rows of `gold.broker_share`, and of brokers that lack one, with what each led and the configured capacity.
SELECT coalesce(share.window_start, led.window_start) AS window_start,
       coalesce(share.broker_id, led.broker_id) AS broker_id, {capacity} AS configured_capacity,
       size_bytes, record_count, batch_count, leader_count, led_size_bytes, led_record_count, led_batch_count,
       led_leader_count, capacity, share, expected_share, share_ratio, chance_ratio, chance_p_value,
       leaders_term, topic_mix_term, partition_skew_term,
       heavy_keys_term, hash_luck_term, remainder_term, ratio_without_luck, peak_ratio, unit_inflation,
       cast(sum(led_size_bytes) OVER (PARTITION BY coalesce(share.window_start, led.window_start)) AS double)
           AS all_bytes,
       sum(expected_share) OVER (PARTITION BY coalesce(share.window_start, led.window_start)) AS all_expected
FROM gold.broker_share AS share
FULL JOIN (
    SELECT window_start, broker_id, sum(bytes) AS led_size_bytes, sum(records) AS led_record_count,
           sum(batches) AS led_batch_count, sum(leaders) AS led_leader_count
    FROM (
        SELECT window_start, leader_id AS broker_id, size_bytes AS bytes, record_count AS records,
               batch_count AS batches, 0 AS leaders
        FROM silver.partition_traffic WHERE leader_id >= 0
        UNION ALL
        SELECT window_start, leader_id AS broker_id, 0 AS bytes, 0 AS records, 0 AS batches, 1 AS leaders
        FROM bronze.cluster_state WHERE is_leader AND leader_id >= 0
        UNION ALL
        SELECT window_start, broker_id, 0 AS bytes, 0 AS records, 0 AS batches, 0 AS leaders FROM bronze.brokers
    ) AS parts
    GROUP BY window_start, broker_id
) AS led USING (window_start, broker_id)
