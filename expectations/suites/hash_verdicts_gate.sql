-- Rows of `gold.hash_verdicts` with the records of their topic, and the extremes of the counts in their maps
SELECT verdicts.*, traffic_record_count,
       least(array_min(map_values(explained_key_counts)), array_min(map_values(explained_record_counts)))
           AS least_explained_count,
       array_max(map_values(explained_key_counts)) AS most_explained_key_count,
       array_max(map_values(explained_record_counts)) AS most_explained_record_count
FROM gold.hash_verdicts AS verdicts
LEFT JOIN (
    SELECT window_start, topic, topic_id, sum(record_count) AS traffic_record_count
    FROM silver.partition_traffic GROUP BY window_start, topic, topic_id
) AS sums USING (window_start, topic, topic_id)
