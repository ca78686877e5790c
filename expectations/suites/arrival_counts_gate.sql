-- Data records of topics and windows by batches and by arrivals; digests are equal if each key has its own records
SELECT window_start, topic, topic_id, sum(stored) AS record_count, sum(arrived) AS arrival_record_count,
       sum(outliers) AS outlier_record_count, sum(uneven) AS uneven_row_count,
       CASE WHEN count(held) > 0 AND count(digest) = count(1) THEN sum(digest) - sum(held) ELSE 0 END
           AS digest_difference
FROM (
    SELECT window_start, topic, topic_id,
           CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 1 ELSE 0 END AS is_exact,
           record_count AS stored, 0 AS arrived, 0 AS outliers, 0 AS uneven, 0 AS digest, cast(NULL AS bigint) AS held
    FROM silver.partition_traffic
    UNION ALL
    SELECT window_start, topic, topic_id, 1 AS is_exact, 0 AS stored,
           record_count + unreadable_record_count AS arrived, outlier_record_count AS outliers,
           CASE WHEN coalesce(array_length(gap_ms), 0) <> record_count
                  OR coalesce(array_length(body_bytes), 0) <> record_count
                  OR coalesce(array_length(partition), 0) <> record_count
                  OR coalesce(array_length(key_index), 0) <> record_count THEN 1 ELSE 0 END AS uneven,
           key_digest AS digest, NULL AS held
    FROM silver.arrivals
    WHERE count_kind = 'exact'
    UNION ALL
    SELECT window_start, topic, topic_id, 1 AS is_exact, 0 AS stored, 0 AS arrived, 0 AS outliers, 0 AS uneven,
           CASE WHEN kind <> 'other_keys' THEN 0 END AS digest,
           CASE WHEN kind = 'key' THEN {digest_of_key} ELSE 0 END AS held
    FROM silver.key_traffic
) AS counted
GROUP BY window_start, topic, topic_id
HAVING min(is_exact) = 1
