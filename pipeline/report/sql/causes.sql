SELECT broker_id, share - expected_share AS excess, leaders_term, topic_mix_term, partition_skew_term,
       heavy_keys_term, hash_luck_term, remainder_term - coalesce(rack_aware_term, 0) AS remainder_term,
       coalesce(rack_aware_term, 0) AS rack_aware_term, share, expected_share
FROM gold.broker_share
WHERE {in_window}
ORDER BY excess DESC NULLS LAST, broker_id
