SELECT source, expected_count, arrived_count, row_count, problem_count, newest_at, as_of, is_trusted, source_expired,
       missing
FROM bronze.window_status
WHERE {on_day}
ORDER BY source
