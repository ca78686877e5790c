SELECT broker_id, max(request_latency_avg_ms) AS highest_ms
FROM gold.latency
WHERE {in_period} AND client_id = '*' AND request_latency_avg_ms IS NOT NULL
GROUP BY broker_id
ORDER BY highest_ms DESC, broker_id
