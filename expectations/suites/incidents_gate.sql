-- Rows of `gold.incidents` with the verdict of their window
SELECT incidents.*, verdict
FROM gold.incidents AS incidents
LEFT JOIN (SELECT window_start, rule, subject, verdict FROM gold.verdicts) AS judged
USING (window_start, rule, subject)
