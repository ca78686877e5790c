-- Rows of `gold.promises` with the share ratio of their broker
SELECT promises.window_start, promised_at, promises.subject, action, topic, rank, outcome,
       promises.actual_ratio AS told_ratio, shares.actual_ratio, predicted_ratio_low, predicted_ratio,
       predicted_ratio_high, carried_out_ratio
FROM gold.promises AS promises
LEFT JOIN (
    SELECT window_start, concat('broker ', broker_id) AS subject, share_ratio AS actual_ratio FROM gold.broker_share
) AS shares USING (window_start, subject)
