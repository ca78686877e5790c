SELECT window_start, {columns}
FROM gold.broker_share
WHERE {in_period}
GROUP BY window_start
ORDER BY window_start
