-- Sums over keys, and a row for each partition that lacks what another of its topic has, with its keyed records
SELECT coalesce(cells.window_start, keyed.window_start) AS window_start,
       coalesce(cells.topic, keyed.topic) AS topic,
       coalesce(cells.topic_id, keyed.topic_id) AS topic_id,
       coalesce(cells.partition, keyed.partition) AS partition,
       coalesce(cells.strategy, keyed.strategy) AS strategy,
       coalesce(cells.strategy_version, keyed.strategy_version) AS strategy_version,
       coalesce(cells.partition_count, keyed.partition_count) AS partition_count,
       chosen_partition, key_count, record_count, coalesce(asked_record_count, 0) AS asked_record_count,
       keyed_record_count
FROM (
    SELECT *, sum(record_count) OVER (
        PARTITION BY window_start, topic, topic_id, partition, strategy, strategy_version, partition_count
    ) AS asked_record_count
    FROM silver.key_matrices
) AS cells
FULL JOIN (
    SELECT sums.window_start, sums.topic, sums.topic_id, partition, strategy, strategy_version,
           partition_count, keyed_record_count
    FROM (
        SELECT window_start, topic, topic_id, partition, sum(record_count) AS keyed_record_count
        FROM silver.key_traffic WHERE kind IN ('key', 'other_keys') GROUP BY window_start, topic, topic_id, partition
    ) AS sums
    JOIN (
        SELECT DISTINCT window_start, topic, topic_id, strategy, strategy_version, partition_count
        FROM silver.key_matrices
    ) AS questions USING (window_start, topic, topic_id)
) AS keyed USING (window_start, topic, topic_id, partition, strategy, strategy_version, partition_count)
