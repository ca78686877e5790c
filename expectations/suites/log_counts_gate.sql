-- What each topic-partition got under each leader: by traffic, summed up while logs are scanned, and by its batches
SELECT window_start, topic, topic_id, partition, leader_id, leader_epoch,
       sum(records) AS record_count, sum(bytes) AS size_bytes, sum(offsets) AS covered_offset_count,
       sum(batch_records) AS batch_record_count, sum(batch_bytes) AS batch_size_bytes,
       sum(batch_offsets) AS batch_offset_count
FROM (
    SELECT *, min(is_exact) OVER (PARTITION BY window_start, topic, topic_id, partition) AS all_exact
    FROM (
        SELECT window_start, topic, topic_id, partition, leader_id, leader_epoch,
               CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 1 ELSE 0 END AS is_exact,
               record_count + control_record_count AS records, size_bytes AS bytes, covered_offset_count AS offsets,
               0 AS batch_records, 0 AS batch_bytes, 0 AS batch_offsets
        FROM silver.partition_traffic
        UNION ALL
        SELECT window_start, topic, topic_id, partition, leader_id, leader_epoch, 1 AS is_exact,
               0 AS records, 0 AS bytes, 0 AS offsets, sum(record_count) AS batch_records,
               sum(size_bytes) AS batch_bytes, sum(last_offset - base_offset + 1) AS batch_offsets
        FROM silver.record_batches
        GROUP BY window_start, topic, topic_id, partition, leader_id, leader_epoch
    ) AS counted
) AS counted
WHERE all_exact = 1
GROUP BY window_start, topic, topic_id, partition, leader_id, leader_epoch
