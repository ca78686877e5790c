"""Gold table of the back-tests: what is in use, predicted like any candidate, beside what was observed."""

from __future__ import annotations

from pipeline.tables.columns import flag, number, number_range, text, whole
from pipeline.tables.table import CLUSTER, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table

BACK_TESTS = Table(
    name="gold.back_tests",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        text(
            "partitioner",
            "Strategy in use that was replayed, of the producer that sent most; NULL where it is not known.",
            nullable=True,
        ),
        text("partitioner_source", "How it is known: `configured`, `inferred` or `none`."),
        text("client", "Client and version that were simulated; '' for none."),
        number("confidence", "How sure the strategy is, 0 to 1; 1 where configured.", "ratio"),
        text("runner_up", "The strategy that comes next; '' for none."),
        Column(
            name="settings",
            type="map<string,string>",
            nullable=False,
            doc="Settings that were simulated, by Kafka's names, each with its source.",
        ),
        whole("session_count", "Producer sessions.", "sessions"),
        whole("seed_count", "Runs; 0 where nothing was run.", "seeds"),
        whole(
            "broker_id",
            "The broker whose share is predicted worst; the two shares beside are its own. NULL without a prediction.",
            nullable=True,
        ),
        text(
            "judged_on",
            "`odd minutes`, on which nothing was fitted, or `all minutes` where there is no other; of the shares.",
            nullable=True,
        ),
        number("observed_share", "Its part of the topic's bytes in the log.", "ratio"),
        *number_range("predicted_share", "The same as predicted; the median over the seeds.", "ratio"),
        number(
            "share_error_points",
            "Largest difference between predicted and observed share of a broker, in the log's bytes.",
            "percentage points",
        ),
        number("partition_share_error_points", "The same over the partitions.", "percentage points"),
        number(
            "share_bar_points",
            "What `share_error_points` may be: 1.5, or 2.5 standard deviations of that broker's share over the seeds.",
            "percentage points",
        ),
        number("observed_records_per_batch", "Data records over data batches.", "records"),
        *number_range("predicted_records_per_batch", "The same as predicted; the median over the seeds.", "records"),
        number("records_per_batch_ratio", "Predicted over observed; 1 is no error.", "ratio"),
        number(
            "observed_latency_avg_ms",
            "Mean time of batches in the queue and mean latency of each broker's requests by the bytes it got, from producers' metrics; NULL where no source tells them.",
            "ms",
        ),
        *number_range(
            "predicted_latency_avg_ms",
            "The same as predicted, put together as those metrics are; the median over the seeds.",
            "ms",
        ),
        number("latency_avg_ratio", "Predicted over observed; 1 is no error.", "ratio"),
        number(
            "observed_latency_p99_ms",
            "From the producer's own tool, where one tells it; metrics have no quantile.",
            "ms",
        ),
        *number_range("predicted_latency_p99_ms", "What 99 % of the records stay within.", "ms"),
        number("latency_p99_ratio", "Predicted over observed; 1 is no error.", "ratio"),
        flag("is_trusted", "Every error that can be told is within its bar."),
        text("trust", "`trusted`, or `not trustworthy:` and why."),
        text("assumptions", "What the prediction takes for granted; '' for nothing."),
        RUN_ID,
    ),
)
