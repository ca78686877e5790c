SELECT s.broker_id, s.share, s.expected_share, s.share_ratio, s.chance_ratio, v.limit_value, v.verdict,
       s.size_bytes, s.record_count, s.effective_unit_count, s.leader_count, s.peak_ratio
FROM (SELECT * FROM gold.broker_share WHERE {in_window}) s
LEFT JOIN (SELECT * FROM gold.verdicts WHERE {in_window} AND rule = 'broker_share') v
  ON v.subject = concat('broker ', CAST(s.broker_id AS STRING))
ORDER BY s.share_ratio DESC NULLS LAST, s.broker_id
