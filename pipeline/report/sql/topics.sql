SELECT topic, sum(size_bytes) AS size_bytes, sum(own_bytes) AS own_bytes,
       sum(own_bytes) - CAST({expected_share} AS DOUBLE) * sum(size_bytes) AS excess_bytes
FROM (
  SELECT topic, size_bytes, CASE WHEN leader_id = {broker} THEN size_bytes ELSE 0 END AS own_bytes
  FROM silver.partition_traffic
  WHERE {on_day} AND leader_id >= 0
)
GROUP BY topic
ORDER BY excess_bytes DESC, topic
