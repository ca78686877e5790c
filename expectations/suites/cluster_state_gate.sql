-- Rows of `bronze.cluster_state` with the number of their partition's replicas, and of those that lead it
SELECT window_start, topic, topic_id, partition, replica_id, replica_position, leader_id, is_leader,
       is_preferred_leader,
       count(1) OVER (PARTITION BY window_start, topic, topic_id, partition) AS replica_count,
       sum(CASE WHEN is_leader THEN 1 ELSE 0 END) OVER (PARTITION BY window_start, topic, topic_id, partition)
           AS leading_count
FROM bronze.cluster_state
