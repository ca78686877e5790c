SELECT kind, from_zone, to_zone, zone_source, is_between_zones, sum(size_bytes) AS size_bytes,
       sum(cost_per_month) AS cost_per_month
FROM gold.zone_traffic
WHERE {in_window}
GROUP BY kind, from_zone, to_zone, zone_source, is_between_zones
ORDER BY size_bytes DESC, kind, from_zone, to_zone, zone_source
