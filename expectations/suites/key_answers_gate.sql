-- Answers of the windows' dates, and whether their key has hashes
SELECT answers.window_date, answers.key_id, strategy, strategy_version, partition_count, chosen_partition,
       hashes.key_id AS hashed_key_id
FROM silver.key_answers AS answers
LEFT JOIN silver.key_hashes AS hashes USING (window_date, key_id)
