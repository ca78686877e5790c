SELECT subject, rank, title, text, topic, share_ratio, predicted_ratio, predicted_ratio_low, predicted_ratio_high,
       predicted_peak_ratio, moved_bytes, is_enough
FROM gold.recommendations
WHERE {in_window}
ORDER BY subject, rank
LIMIT 50
