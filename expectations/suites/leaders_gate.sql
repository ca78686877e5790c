-- Traffic of a leader epoch that was still on at a window's end,
-- with the leader of that epoch as the cluster's state has it
SELECT traffic.window_start, traffic.topic, traffic.topic_id, traffic.partition, traffic.leader_epoch,
       traffic.leader_id, state.leader_id AS epoch_leader_id
FROM silver.partition_traffic AS traffic
JOIN (
    SELECT DISTINCT window_start, topic, topic_id, partition, leader_id, leader_epoch FROM bronze.cluster_state
    WHERE leader_id >= 0 AND leader_epoch IS NOT NULL
) AS state
USING (window_start, topic, topic_id, partition, leader_epoch)
WHERE traffic.leader_id >= 0
