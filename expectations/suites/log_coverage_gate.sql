-- Traffic of each topic-partition and window, with how many offsets from its first to its last the segments read hold
SELECT window_start, traffic.topic, traffic.topic_id, traffic.partition, covered_offset_count,
       sum(CASE WHEN segments.first_offset IS NULL THEN 0 ELSE
           least(segments.last_offset, traffic.last_offset) - greatest(segments.first_offset, traffic.first_offset) + 1
       END) AS held_offset_count
FROM (
    SELECT window_start, topic, topic_id, partition, min(first_offset) AS first_offset,
           max(last_offset) AS last_offset,
           sum(covered_offset_count) AS covered_offset_count
    FROM silver.partition_traffic GROUP BY window_start, topic, topic_id, partition
    HAVING max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 0 ELSE 1 END) = 0
) AS traffic
LEFT JOIN (
    SELECT topic, topic_id, partition, first_offset, last_offset FROM bronze.log_segments WHERE is_scanned
) AS segments
ON segments.topic = traffic.topic AND segments.topic_id = traffic.topic_id
   AND segments.partition = traffic.partition AND segments.first_offset <= traffic.last_offset
   AND segments.last_offset >= traffic.first_offset
GROUP BY window_start, traffic.topic, traffic.topic_id, traffic.partition, covered_offset_count
