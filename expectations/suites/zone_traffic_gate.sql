-- Rows of `gold.zone_traffic`, or topics without, of windows that know zones, with what partitions and followers got.
SELECT coalesce(zones.window_start, topics.window_start) AS window_start,
       coalesce(zones.topic, topics.topic) AS topic, coalesce(zones.topic_id, topics.topic_id) AS topic_id,
       kind, from_zone, to_zone, zone_source, size_bytes, is_between_zones, cost, produced_bytes, copied_bytes,
       topic_bytes, followed_bytes
FROM gold.zone_traffic AS zones
FULL JOIN (
    SELECT window_start, topic, topic_id, sum(size_bytes) AS topic_bytes,
           sum(size_bytes * follower_count) AS followed_bytes
    FROM (
        SELECT traffic.window_start, traffic.topic, traffic.topic_id, traffic.partition, leader_id, size_bytes,
               count(replica_id) AS follower_count
        FROM (
            SELECT window_start, topic, topic_id, partition, leader_id, sum(size_bytes) AS size_bytes
            FROM silver.partition_traffic
            WHERE window_start IN (SELECT window_start FROM bronze.brokers WHERE {has_zones})
            GROUP BY window_start, topic, topic_id, partition, leader_id HAVING sum(size_bytes) > 0
        ) AS traffic
        LEFT JOIN (SELECT window_start, topic, topic_id, partition, replica_id FROM bronze.cluster_state) AS replicas
        ON replicas.window_start = traffic.window_start AND replicas.topic = traffic.topic
            AND replicas.topic_id = traffic.topic_id AND replicas.partition = traffic.partition
            AND replica_id <> leader_id
        GROUP BY traffic.window_start, traffic.topic, traffic.topic_id, traffic.partition, leader_id, size_bytes
    ) AS led
    GROUP BY window_start, topic, topic_id
) AS topics USING (window_start, topic, topic_id)
LEFT JOIN (
    SELECT window_start, topic, topic_id, sum(CASE WHEN kind = 'produce' THEN size_bytes ELSE 0 END) AS produced_bytes,
           sum(CASE WHEN kind = 'replication' THEN size_bytes ELSE 0 END) AS copied_bytes
    FROM gold.zone_traffic GROUP BY window_start, topic, topic_id
) AS sums USING (window_start, topic, topic_id)
