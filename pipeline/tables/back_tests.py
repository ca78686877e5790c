"""Gold table of the back-tests: what is in use, predicted like any candidate, beside what was observed."""

from __future__ import annotations

from pipeline.tables.columns import bigint, boolean, double, double_range, string
from pipeline.tables.table import RUN_ID, TOPIC_COLUMNS, WINDOW, Column, Table

BACK_TESTS = Table(
    name="gold.back_tests",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        *WINDOW,
        *TOPIC_COLUMNS,
        string("partitioner", "Strategy in use, of the producer that sent most; NULL if unknown.", nullable=True),
        string("partitioner_source", "How it is known: `configured`, `inferred` or `none`."),
        string("client", "Client and version that were simulated; '' for none."),
        double("confidence", "How sure the strategy is, 0 to 1; 1 where configured.", "ratio"),
        string("runner_up", "The strategy that comes next; '' for none."),
        Column("settings", "map<string,string>", "Simulated settings by Kafka's names, with sources.", nullable=False),
        bigint("session_count", "Producer sessions.", "sessions"),
        bigint("seed_count", "Runs; 0 where nothing was run.", "seeds"),
        bigint("broker_id", "Broker whose share is predicted worst; NULL without a prediction.", nullable=True),
        string(
            "judged_on",
            "Where shares are compared: `odd minutes`, on which nothing was fitted, or `all minutes` where there is no other.",
            nullable=True,
        ),
        double("observed_share", "Its part of the topic's bytes in the log.", "ratio"),
        *double_range("predicted_share", "The same as predicted; the median over the seeds.", "ratio"),
        double("share_error_points", "Largest error of a broker's share of the log's bytes.", "percentage points"),
        double("partition_share_error_points", "The same over the partitions.", "percentage points"),
        double(
            "share_bar_points",
            "What `share_error_points` may be: 1.5, or 2.5 standard deviations of that broker's share over the seeds.",
            "percentage points",
        ),
        double("observed_records_per_batch", "Data records over data batches.", "records"),
        *double_range("predicted_records_per_batch", "The same as predicted; the median over the seeds.", "records"),
        double("records_per_batch_ratio", "Predicted over observed; 1 is no error.", "ratio"),
        double(
            "observed_latency_avg_ms",
            "From producers' metrics: mean time of batches in the queue plus mean request latency of each broker by the bytes it got.",
            "ms",
        ),
        *double_range("predicted_latency_avg_ms", "As predicted from the same parts; the median over the seeds.", "ms"),
        double("latency_avg_ratio", "Predicted over observed; 1 is no error.", "ratio"),
        double("observed_latency_p99_ms", "From the producer's own tool; metrics have no quantile.", "ms"),
        *double_range("predicted_latency_p99_ms", "What 99 % of the records stay within.", "ms"),
        double("latency_p99_ratio", "Predicted over observed; 1 is no error.", "ratio"),
        boolean("is_trusted", "Every error that is known is within its bar."),
        string("trust", "`trusted`, or `not trustworthy:` and why."),
        string("assumptions", "What the prediction takes for granted; '' for nothing."),
        RUN_ID,
    ),
)
