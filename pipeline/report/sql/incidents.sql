SELECT incident_id, rule, subject, min(since) AS since, max(window_start) AS changed_in,
       max(CASE WHEN state IN ('resolved', 'withdrawn') THEN window_start END) AS resolved_in,
       CASE WHEN rule = 'disk_hours_to_full' THEN min(peak_value) ELSE max(peak_value) END AS peak_value,
       max(limit_value) AS limit_value, max(silenced_by) AS silenced_by
FROM gold.incidents
WHERE cluster = {cluster} AND window_start < {end}
GROUP BY incident_id, rule, subject
HAVING max(CASE WHEN state IN ('resolved', 'withdrawn') THEN window_start END) IS NULL OR max(window_start) >= {first}
ORDER BY since DESC, incident_id
LIMIT 200
