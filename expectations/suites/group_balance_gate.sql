-- Rows of `gold.group_balance`, and of groups' topics that lack one, with their topics' partitions
SELECT coalesce(balance.window_start, read.window_start) AS window_start,
       coalesce(balance.group_id, read.group_id) AS group_id, coalesce(balance.topic, read.topic) AS topic,
       partition_count, topic_partition_count, member_count, largest_member_count, busiest_ratio, idle_member_count
FROM gold.group_balance AS balance
FULL JOIN (
    SELECT window_start, group_id, topic, max(members) AS largest_member_count
    FROM (
        SELECT window_start, group_id, topic, observed_at, count(DISTINCT member_id) AS members
        FROM bronze.consumer_groups
        GROUP BY window_start, group_id, topic, observed_at
    ) AS moments
    GROUP BY window_start, group_id, topic
) AS read USING (window_start, group_id, topic)
LEFT JOIN (
    SELECT window_start, topic, count(DISTINCT partition) AS topic_partition_count FROM gold.partition_health
    GROUP BY window_start, topic
) AS topics USING (window_start, topic)
