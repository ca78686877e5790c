SELECT window_start,
       sum(CASE WHEN verdict = 'fail' THEN 1 ELSE 0 END) AS fail,
       sum(CASE WHEN verdict IN ('incomplete', 'stale') THEN 1 ELSE 0 END) AS blind,
       sum(CASE WHEN verdict = 'warn' THEN 1 ELSE 0 END) AS warn,
       sum(CASE WHEN verdict = 'not_enough_traffic' THEN 1 ELSE 0 END) AS not_enough_traffic,
       sum(CASE WHEN verdict = 'ok' THEN 1 ELSE 0 END) AS ok
FROM gold.verdicts
WHERE {in_period}
GROUP BY window_start
ORDER BY window_start
