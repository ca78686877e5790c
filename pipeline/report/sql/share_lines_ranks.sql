SELECT broker_id, max(share_ratio) AS highest_ratio
FROM gold.broker_share
WHERE {in_period}
GROUP BY broker_id
ORDER BY highest_ratio DESC NULLS LAST, broker_id
