-- Rows of `gold.rule_measures`; those that are a column of `gold.topic_health` with it
SELECT rules.window_start, rule, subject, value, p_value,
       CASE rule WHEN 'topic_peak' THEN cast(peak_to_mean AS double)
       WHEN 'under_replicated' THEN cast(under_replicated_count AS double)
       WHEN 'below_min_isr' THEN cast(below_min_isr_count AS double)
       WHEN 'leaderless' THEN cast(leaderless_count AS double)
       WHEN 'lagging_replicas' THEN cast(lagging_replica_count AS double)
       WHEN 'replica_size_spread' THEN cast(replica_size_spread AS double) END AS measured_value
FROM gold.rule_measures AS rules
LEFT JOIN (
    SELECT window_start, topic, max(peak_to_mean) AS peak_to_mean,
           max(under_replicated_count) AS under_replicated_count,
           max(below_min_isr_count) AS below_min_isr_count, max(leaderless_count) AS leaderless_count,
           max(lagging_replica_count) AS lagging_replica_count, max(replica_size_spread) AS replica_size_spread
    FROM gold.topic_health GROUP BY window_start, topic HAVING count(1) = 1
) AS health ON health.window_start = rules.window_start AND concat('topic ', health.topic) = rules.subject
