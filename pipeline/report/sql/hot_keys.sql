SELECT k.key, k.topic, k.partition, p.leader_id, k.size_bytes, k.record_count, k.topic_ratio, k.is_heavy
FROM (SELECT * FROM gold.hot_keys WHERE {in_window}) k
LEFT JOIN (SELECT * FROM gold.partition_health WHERE {in_window}) p
  ON p.topic = k.topic AND p.topic_id = k.topic_id AND p.partition = k.partition
ORDER BY k.size_bytes DESC, k.topic, k.rank, k.topic_id
LIMIT 20
