SELECT source, severity, reason, count(*) AS place_count, min(path) AS first_path
FROM bronze.quarantine
WHERE cluster = {cluster}
GROUP BY source, severity, reason
ORDER BY place_count DESC, source, severity, reason
LIMIT 20
