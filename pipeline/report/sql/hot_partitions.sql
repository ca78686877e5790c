SELECT topic, partition, size_bytes, ratio_to_mean, excess_bytes, heavy_keys_bytes, hash_luck_bytes, remainder_bytes
FROM gold.partition_health
WHERE {in_window} AND leader_id = {broker} AND ratio_to_mean IS NOT NULL
ORDER BY excess_bytes DESC, topic, partition, topic_id
LIMIT 10
