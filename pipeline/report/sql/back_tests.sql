SELECT topic, partitioner, partitioner_source, confidence, broker_id, observed_share, predicted_share,
       predicted_share_low, predicted_share_high, share_error_points, share_bar_points, records_per_batch_ratio,
       latency_avg_ratio, is_trusted, trust, batches_trust, latency_trust
FROM gold.back_tests
WHERE {in_window}
ORDER BY is_trusted DESC NULLS LAST, share_error_points DESC NULLS LAST, topic, topic_id
LIMIT 50
