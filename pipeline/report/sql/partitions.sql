SELECT topic, partition, leader_id, size_bytes, ratio_to_mean
FROM gold.partition_health
WHERE {in_window}
ORDER BY topic, partition, topic_id
