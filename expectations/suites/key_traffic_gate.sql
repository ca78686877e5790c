-- Data records of each topic-partition, as its batches have them and as its keys do, of windows whose keys were read
SELECT window_start, topic, topic_id, partition, sum(stored) AS record_count, sum(keyed) AS key_record_count,
       sum(unreadable) AS unreadable_record_count
FROM (
    SELECT window_start, topic, topic_id, partition, record_count AS stored, 0 AS keyed, 0 AS unreadable
    FROM silver.partition_traffic
    UNION ALL
    SELECT window_start, topic, topic_id, partition, 0 AS stored, record_count AS keyed,
           CASE WHEN kind = 'unreadable' THEN record_count ELSE 0 END AS unreadable
    FROM silver.key_traffic
) AS counted
GROUP BY window_start, topic, topic_id, partition
