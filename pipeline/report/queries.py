"""Queries of the report, as Spark SQL and DataFusion read them; `answers` fills in what stands in braces; every order is total."""

from pipeline.measures import disks

_PERIOD = "cluster = {cluster} AND window_start >= {first} AND window_start < {end}"
_WINDOW = "cluster = {cluster} AND window_start = {window}"
_DAY = "cluster = {cluster} AND window_date = {date} AND window_start = {window}"

_FILLING = f"rule = 'disk_hours_to_full' AND value < {disks.NO_END_HOURS}"

NEWEST = "SELECT max(window_start) AS newest FROM gold.broker_share WHERE cluster = {cluster} AND window_start < {end}"

STRIP = f"""\
SELECT window_start,
       sum(CASE WHEN verdict = 'fail' THEN 1 ELSE 0 END) AS fail,
       sum(CASE WHEN verdict IN ('incomplete', 'stale') THEN 1 ELSE 0 END) AS blind,
       sum(CASE WHEN verdict = 'warn' THEN 1 ELSE 0 END) AS warn,
       sum(CASE WHEN verdict = 'not_enough_traffic' THEN 1 ELSE 0 END) AS not_enough_traffic,
       sum(CASE WHEN verdict = 'ok' THEN 1 ELSE 0 END) AS ok
FROM gold.verdicts
WHERE {_PERIOD}
GROUP BY window_start
ORDER BY window_start"""

INCIDENTS = """\
SELECT incident_id, rule, subject, min(since) AS since, max(window_start) AS changed_in,
       max(CASE WHEN state IN ('resolved', 'withdrawn') THEN window_start END) AS resolved_in,
       CASE WHEN rule = 'disk_hours_to_full' THEN min(peak_value) ELSE max(peak_value) END AS peak_value, max(limit_value) AS limit_value, max(silenced_by) AS silenced_by
FROM gold.incidents
WHERE cluster = {cluster} AND window_start < {end}
GROUP BY incident_id, rule, subject
HAVING max(CASE WHEN state IN ('resolved', 'withdrawn') THEN window_start END) IS NULL OR max(window_start) >= {first}
ORDER BY since DESC, incident_id
LIMIT 200"""

JUDGED = f"""\
SELECT rule, subject, verdict, value, limit_value, reason
FROM gold.verdicts
WHERE {_WINDOW} AND verdict IN ('fail', 'warn')
ORDER BY verdict, rule, value DESC NULLS LAST, subject
LIMIT 50"""

SHARES = f"""\
SELECT s.broker_id, s.share, s.expected_share, s.share_ratio, s.chance_ratio, v.limit_value, v.verdict,
       s.size_bytes, s.record_count, s.effective_unit_count, s.leader_count, s.peak_ratio
FROM (SELECT * FROM gold.broker_share WHERE {_WINDOW}) s
LEFT JOIN (SELECT * FROM gold.verdicts WHERE {_WINDOW} AND rule = 'broker_share') v
  ON v.subject = concat('broker ', CAST(s.broker_id AS STRING))
ORDER BY s.share_ratio DESC NULLS LAST, s.broker_id"""

LOUDEST = f"""\
SELECT broker_id, max(share_ratio) AS highest_ratio
FROM gold.broker_share
WHERE {_PERIOD}
GROUP BY broker_id
ORDER BY highest_ratio DESC NULLS LAST, broker_id"""  # brokers by the highest share ratio of the period

SHARE_LINES = f"""\
SELECT window_start, {{columns}}
FROM gold.broker_share
WHERE {_PERIOD}
GROUP BY window_start
ORDER BY window_start"""

SLOWEST = f"""\
SELECT broker_id, max(request_latency_avg_ms) AS highest_ms
FROM gold.latency
WHERE {_PERIOD} AND client_id = '*' AND request_latency_avg_ms IS NOT NULL
GROUP BY broker_id
ORDER BY highest_ms DESC, broker_id"""  # the same by the longest mean latency

LATENCY_LINES = f"""\
SELECT window_start, {{columns}}
FROM gold.latency
WHERE {_PERIOD} AND client_id = '*'
GROUP BY window_start
ORDER BY window_start"""

CAUSES = f"""\
SELECT broker_id, share - expected_share AS excess, leaders_term, topic_mix_term, partition_skew_term,
       heavy_keys_term, hash_luck_term, remainder_term - coalesce(rack_aware_term, 0) AS remainder_term,
       coalesce(rack_aware_term, 0) AS rack_aware_term, share, expected_share
FROM gold.broker_share
WHERE {_WINDOW}
ORDER BY excess DESC NULLS LAST, broker_id"""

ZONES = f"""\
SELECT kind, from_zone, to_zone, zone_source, is_between_zones, sum(size_bytes) AS size_bytes,
       sum(cost_per_month) AS cost_per_month
FROM gold.zone_traffic
WHERE {_WINDOW}
GROUP BY kind, from_zone, to_zone, zone_source, is_between_zones
ORDER BY size_bytes DESC, kind, from_zone, to_zone, zone_source"""

TOPICS = f"""\
SELECT topic, sum(size_bytes) AS size_bytes, sum(own_bytes) AS own_bytes,
       sum(own_bytes) - CAST({{expected_share}} AS DOUBLE) * sum(size_bytes) AS excess_bytes
FROM (
  SELECT topic, size_bytes, CASE WHEN leader_id = {{broker}} THEN size_bytes ELSE 0 END AS own_bytes
  FROM silver.partition_traffic
  WHERE {_DAY} AND leader_id >= 0
)
GROUP BY topic
ORDER BY excess_bytes DESC, topic"""

PARTITIONS = f"""\
SELECT topic, partition, leader_id, size_bytes, ratio_to_mean
FROM gold.partition_health
WHERE {_WINDOW}
ORDER BY topic, partition, topic_id"""

HOT_PARTITIONS = f"""\
SELECT topic, partition, size_bytes, ratio_to_mean, excess_bytes, heavy_keys_bytes, hash_luck_bytes, remainder_bytes
FROM gold.partition_health
WHERE {_WINDOW} AND leader_id = {{broker}} AND ratio_to_mean IS NOT NULL
ORDER BY excess_bytes DESC, topic, partition, topic_id
LIMIT 10"""

HOT_KEYS = f"""\
SELECT k.key, k.topic, k.partition, p.leader_id, k.size_bytes, k.record_count, k.topic_ratio, k.is_heavy
FROM (SELECT * FROM gold.hot_keys WHERE {_WINDOW}) k
LEFT JOIN (SELECT * FROM gold.partition_health WHERE {_WINDOW}) p
  ON p.topic = k.topic AND p.topic_id = k.topic_id AND p.partition = k.partition
ORDER BY k.size_bytes DESC, k.topic, k.rank, k.topic_id
LIMIT 20"""

LATENCY = f"""\
SELECT broker_id, request_latency_avg_ms, request_latency_max_ms, ratio_to_peers, ratio_to_history, request_count
FROM gold.latency
WHERE {_WINDOW} AND client_id = '*'
ORDER BY request_latency_avg_ms DESC NULLS LAST, broker_id"""

WAITING = f"""\
SELECT client_id, max(throttle_time_avg_ms) AS throttle_time_ms, max(queue_time_avg_ms) AS queue_time_ms,
       max(buffer_blocked_ratio) AS buffer_blocked_ratio, max(retry_rate_per_s) AS retries_per_s,
       max(error_rate_per_s) AS errors_per_s
FROM silver.producer_nodes
WHERE {_DAY}
GROUP BY client_id
ORDER BY throttle_time_ms DESC NULLS LAST, buffer_blocked_ratio DESC NULLS LAST, queue_time_ms DESC NULLS LAST, client_id
LIMIT 20"""

ROOM = f"""\
SELECT s.broker_id, s.share_ratio, s.peak_ratio, m.request_handler_idle_ratio, m.network_processor_idle_ratio,
       d.value AS hours_to_full, f.highest_ratio
FROM (SELECT * FROM gold.broker_share WHERE {_WINDOW}) s
LEFT JOIN (
  SELECT broker_id, min(request_handler_idle_ratio) AS request_handler_idle_ratio,
         min(network_processor_idle_ratio) AS network_processor_idle_ratio
  FROM silver.broker_metrics WHERE {_DAY} GROUP BY broker_id
) m ON m.broker_id = s.broker_id
LEFT JOIN (SELECT * FROM gold.rule_measures WHERE {_WINDOW} AND {_FILLING}) d
  ON d.subject = concat('broker ', CAST(s.broker_id AS STRING))
LEFT JOIN (
  SELECT subject, max(value) AS highest_ratio FROM gold.forecast WHERE {_WINDOW} AND measure = 'share_ratio' GROUP BY subject
) f ON f.subject = concat('broker ', CAST(s.broker_id AS STRING))
ORDER BY s.share_ratio DESC NULLS LAST, s.broker_id"""

REPLAY = f"""\
SELECT c.topic, c.candidate, c.is_baseline, c.baseline_broker_peak_to_mean AS observed_peak,
       c.broker_peak_to_mean AS peak, c.broker_peak_to_mean_low AS peak_low, c.broker_peak_to_mean_high AS peak_high,
       c.keys_moved_ratio, c.bytes_moved_ratio, c.at_risk_key_count, c.records_per_batch, c.baseline_records_per_batch,
       c.latency_p50_ms, c.latency_p50_ms_low, c.latency_p50_ms_high, c.trust, c.direction_trust, c.batches_trust,
       c.latency_trust, c.assumptions
FROM (SELECT * FROM gold.scenario_comparison WHERE {_WINDOW}) c
JOIN (
  SELECT topic, topic_id, row_number() OVER (ORDER BY size_bytes DESC, topic, topic_id) AS place
  FROM gold.scenario_comparison WHERE {_WINDOW} AND is_baseline
) t ON t.topic = c.topic AND t.topic_id = c.topic_id
WHERE t.place <= 6
ORDER BY t.place, c.is_baseline DESC, c.candidate"""

BACK_TESTS = f"""\
SELECT topic, partitioner, partitioner_source, confidence, broker_id, observed_share, predicted_share,
       predicted_share_low, predicted_share_high, share_error_points, share_bar_points, records_per_batch_ratio,
       latency_avg_ratio, is_trusted, trust, batches_trust, latency_trust
FROM gold.back_tests
WHERE {_WINDOW}
ORDER BY is_trusted DESC NULLS LAST, share_error_points DESC NULLS LAST, topic, topic_id
LIMIT 50"""

ADVICE = f"""\
SELECT subject, rank, title, text, topic, share_ratio, predicted_ratio, predicted_ratio_low, predicted_ratio_high,
       predicted_peak_ratio, moved_bytes, is_enough
FROM gold.recommendations
WHERE {_WINDOW}
ORDER BY subject, rank
LIMIT 50"""

PROMISES = f"""\
SELECT subject, title, topic, action, promised_at, carried_out_at, expected_share, share_ratio, predicted_ratio,
       corrected_ratio, corrected_ratio_low, corrected_ratio_high, without_ratio, actual_ratio, outcome, reason,
       kept_count, broken_count
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY promised_at, subject, action, topic
    ORDER BY CASE WHEN outcome IN ('kept', 'broken') THEN 0 ELSE 1 END, window_start DESC
  ) AS place,
  max(promised_at) OVER (PARTITION BY subject, action, topic) AS newest_at
  FROM gold.promises WHERE {_PERIOD}
) p
WHERE place = 1 AND (carried_out_at IS NOT NULL OR promised_at = newest_at)
ORDER BY CASE WHEN carried_out_at IS NULL THEN 1 ELSE 0 END, carried_out_at DESC, promised_at DESC, subject, rank, action,
         topic
LIMIT 50"""

SOURCES = f"""\
SELECT source, expected_count, arrived_count, row_count, problem_count, newest_at, as_of, is_trusted, source_expired,
       missing
FROM bronze.window_status
WHERE {_DAY}
ORDER BY source"""

QUARANTINE = """\
SELECT source, severity, reason, count(*) AS place_count, min(path) AS first_path
FROM bronze.quarantine
WHERE cluster = {cluster}
GROUP BY source, severity, reason
ORDER BY place_count DESC, source, severity, reason
LIMIT 20"""

ABSTENTIONS = f"""\
SELECT rule, verdict, count(*) AS subject_count, min(subject) AS first_subject, min(reason) AS first_reason
FROM gold.verdicts
WHERE {_WINDOW} AND verdict IN ('not_enough_traffic', 'incomplete', 'stale')
GROUP BY rule, verdict
ORDER BY subject_count DESC, rule, verdict"""
