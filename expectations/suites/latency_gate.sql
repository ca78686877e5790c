-- Rows of `gold.latency`, and of pairs that lack one, with the sums of their clients
SELECT coalesce(latency.window_start, nodes.window_start) AS window_start,
       coalesce(latency.client_id, nodes.client_id) AS client_id,
       coalesce(latency.broker_id, nodes.broker_id) AS broker_id, request_count, node_request_count,
       request_latency_max_ms, node_latency_max_ms, request_latency_avg_ms, node_latency_avg_ms,
       latency.window_start IS NOT NULL AS is_there
FROM gold.latency AS latency
FULL JOIN (
    SELECT window_start, client_id, broker_id, sum(request_count) AS node_request_count,
           max(request_latency_max_ms) AS node_latency_max_ms,
           sum(request_latency_avg_ms * request_count)
               / nullif(sum(CASE WHEN request_latency_avg_ms IS NOT NULL THEN request_count END), 0)
               AS node_latency_avg_ms
    FROM (
        SELECT client_id, window_start, broker_id, request_count, request_latency_avg_ms, request_latency_max_ms
        FROM silver.producer_nodes WHERE client_id <> '*'
        UNION ALL
        SELECT '*' AS client_id, window_start, broker_id, request_count, request_latency_avg_ms, request_latency_max_ms
        FROM silver.producer_nodes
    ) AS everyone
    GROUP BY window_start, client_id, broker_id
) AS nodes USING (window_start, client_id, broker_id)
