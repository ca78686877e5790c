SELECT s.broker_id, s.share_ratio, s.peak_ratio, m.request_handler_idle_ratio, m.network_processor_idle_ratio,
       d.value AS hours_to_full, f.highest_ratio
FROM (SELECT * FROM gold.broker_share WHERE {in_window}) s
LEFT JOIN (
  SELECT broker_id, min(request_handler_idle_ratio) AS request_handler_idle_ratio,
         min(network_processor_idle_ratio) AS network_processor_idle_ratio
  FROM silver.broker_metrics WHERE {on_day} GROUP BY broker_id
) m ON m.broker_id = s.broker_id
LEFT JOIN (SELECT * FROM gold.rule_measures WHERE {in_window} AND rule = 'disk_hours_to_full' AND value < {no_end_hours}) d
  ON d.subject = concat('broker ', CAST(s.broker_id AS STRING))
LEFT JOIN (
  SELECT subject, max(value) AS highest_ratio FROM gold.forecast WHERE {in_window} AND measure = 'share_ratio' AND is_trusted GROUP BY subject
) f ON f.subject = concat('broker ', CAST(s.broker_id AS STRING))
ORDER BY s.share_ratio DESC NULLS LAST, s.broker_id
