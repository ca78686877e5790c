"""From the rows of `metric_pages` to `bronze.metric_samples`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.model.window import TimeWindow


def as_metric_samples(samples: DataFrame, cluster: str, span: TimeWindow, window_ms: int) -> DataFrame:
    """Selects the columns of `bronze.metric_samples` for the scrapes within the span."""
    observed = F.col("observed_at_ms")
    pairs = F.array_sort(F.map_entries("labels"))
    labels_text = F.array_join(F.transform(pairs, lambda pair: F.concat(pair["key"], F.lit("="), pair["value"])), ",")
    return samples.where((observed >= span.start_ms) & (observed < span.end_ms)).select(
        F.lit(cluster).alias("cluster"),
        F.timestamp_millis(observed - observed % window_ms).alias("window_start"),
        F.timestamp_millis(observed).alias("observed_at"),
        "source",
        "instance",
        "name",
        "exposed_name",
        labels_text.alias("labels_text"),
        "labels",
        "value",
    )
