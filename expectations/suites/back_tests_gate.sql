-- Rows of `gold.back_tests` with their history, and with what the replay of the current setup says beside them
SELECT tests.window_start, tests.topic, tests.topic_id, replayed_trust, comparison_count, log_share AS replayed_share,
       recorded_log_share AS recorded_share, range_points
FROM gold.back_tests AS tests
LEFT JOIN (
    SELECT window_start, topic, topic_id, CASE WHEN seed_count IS NOT NULL THEN trust END AS replayed_trust,
           1 AS comparison_count
    FROM gold.scenario_comparison WHERE is_baseline
) AS comparison ON comparison.window_start = tests.window_start AND comparison.topic = tests.topic
    AND comparison.topic_id = tests.topic_id
LEFT JOIN (
    SELECT window_start, topic, topic_id, broker_id, log_share, recorded_log_share
    FROM gold.replay_brokers WHERE is_baseline
) AS brokers ON brokers.window_start = tests.window_start AND brokers.topic = tests.topic
    AND brokers.topic_id = tests.topic_id AND brokers.broker_id = tests.broker_id
LEFT JOIN (
    SELECT window_start, topic, topic_id, 100 * max(log_share_high - log_share_low) AS range_points
    FROM gold.replay_brokers WHERE is_baseline GROUP BY window_start, topic, topic_id
) AS widest ON widest.window_start = tests.window_start AND widest.topic = tests.topic
    AND widest.topic_id = tests.topic_id
