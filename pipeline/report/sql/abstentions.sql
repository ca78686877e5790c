SELECT rule, verdict, count(*) AS subject_count, min(subject) AS first_subject, min(reason) AS first_reason
FROM gold.verdicts
WHERE {in_window} AND verdict IN ('not_enough_traffic', 'incomplete', 'stale')
GROUP BY rule, verdict
ORDER BY subject_count DESC, rule, verdict
