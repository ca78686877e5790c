SELECT rule, subject, verdict, value, limit_value, reason
FROM gold.verdicts
WHERE {in_window} AND verdict IN ('fail', 'warn')
ORDER BY verdict, rule, value DESC NULLS LAST, subject
LIMIT 50
