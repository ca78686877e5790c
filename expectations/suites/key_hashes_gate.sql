-- Keys of the windows with their hashes, those without a row too
SELECT used.window_date, used.key_id, is_empty, murmur2, crc32, fnv1a, murmur3, java_string, kafkajs_legacy
FROM (
    SELECT DISTINCT cast(window_start AS date) AS window_date, key_id FROM silver.key_traffic WHERE kind = 'key'
) AS used
LEFT JOIN silver.key_hashes AS hashes USING (window_date, key_id)
