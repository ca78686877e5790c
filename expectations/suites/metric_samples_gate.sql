-- Samples of metrics, each with the number of windows between the one it is in and the one it was taken in
SELECT window_start, source, instance, observed_at, name, labels_text,
       cast(floor(
           cast(arrow_cast(observed_at, 'Int64') - arrow_cast(window_start, 'Int64') AS double) / {window_us}
       ) AS bigint) AS windows_off
FROM bronze.metric_samples
