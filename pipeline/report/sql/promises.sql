SELECT subject, title, topic, action, promised_at, carried_out_at, expected_share, share_ratio, predicted_ratio,
       corrected_ratio, corrected_ratio_low, corrected_ratio_high, without_ratio, actual_ratio, outcome, reason,
       kept_count, broken_count
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY promised_at, subject, action, topic
    ORDER BY CASE WHEN outcome IN ('kept', 'broken') THEN 0 ELSE 1 END, window_start DESC
  ) AS place,
  max(promised_at) OVER (PARTITION BY subject, action, topic) AS newest_at
  FROM gold.promises WHERE {in_period}
) p
WHERE place = 1 AND (carried_out_at IS NOT NULL OR promised_at = newest_at)
ORDER BY CASE WHEN carried_out_at IS NULL THEN 1 ELSE 0 END, carried_out_at DESC, promised_at DESC, subject, rank, action,
         topic
LIMIT 50
