SELECT client_id, max(throttle_time_avg_ms) AS throttle_time_ms, max(queue_time_avg_ms) AS queue_time_ms,
       max(buffer_blocked_ratio) AS buffer_blocked_ratio, max(retry_rate_per_s) AS retries_per_s,
       max(error_rate_per_s) AS errors_per_s
FROM silver.producer_nodes
WHERE {on_day}
GROUP BY client_id
ORDER BY throttle_time_ms DESC NULLS LAST, buffer_blocked_ratio DESC NULLS LAST, queue_time_ms DESC NULLS LAST, client_id
LIMIT 20
