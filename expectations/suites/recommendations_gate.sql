-- Rows of `gold.recommendations` with the share ratio of their broker, and how many there are for it
SELECT advice.*, actual_ratio, advice_count
FROM gold.recommendations AS advice
LEFT JOIN (
    SELECT window_start, concat('broker ', broker_id) AS subject, share_ratio AS actual_ratio FROM gold.broker_share
) AS shares USING (window_start, subject)
LEFT JOIN (
    SELECT window_start, subject, count(1) AS advice_count FROM gold.recommendations GROUP BY window_start, subject
) AS counted USING (window_start, subject)
