SELECT c.topic, c.candidate, c.is_baseline, c.baseline_broker_peak_to_mean AS observed_peak,
       c.broker_peak_to_mean AS peak, c.broker_peak_to_mean_low AS peak_low, c.broker_peak_to_mean_high AS peak_high,
       c.keys_moved_ratio, c.bytes_moved_ratio, c.at_risk_key_count, c.records_per_batch, c.baseline_records_per_batch,
       c.latency_p50_ms, c.latency_p50_ms_low, c.latency_p50_ms_high, c.trust, c.direction_trust, c.batches_trust,
       c.latency_trust, c.assumptions
FROM (SELECT * FROM gold.scenario_comparison WHERE {in_window}) c
JOIN (
  SELECT topic, topic_id, row_number() OVER (ORDER BY size_bytes DESC, topic, topic_id) AS place
  FROM gold.scenario_comparison WHERE {in_window} AND is_baseline
) t ON t.topic = c.topic AND t.topic_id = c.topic_id
WHERE t.place <= 6
ORDER BY t.place, c.is_baseline DESC, c.candidate
