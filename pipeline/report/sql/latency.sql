SELECT broker_id, request_latency_avg_ms, request_latency_max_ms, ratio_to_peers, ratio_to_history, request_count
FROM gold.latency
WHERE {in_window} AND client_id = '*'
ORDER BY request_latency_avg_ms DESC NULLS LAST, broker_id
