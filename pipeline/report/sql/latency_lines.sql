SELECT window_start, {columns}
FROM gold.latency
WHERE {in_period} AND client_id = '*'
GROUP BY window_start
ORDER BY window_start
