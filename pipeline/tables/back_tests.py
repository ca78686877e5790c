"""Gold table of the back-tests: what is in use, predicted like any candidate, beside what was observed."""

from __future__ import annotations

from pipeline.tables.replay_columns import number_range
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
        Column(
            name="partitioner",
            type="string",
            doc="Strategy in use that was replayed, of the producer that sent most; NULL where it is not known.",
        ),
        Column(
            name="partitioner_source",
            type="string",
            nullable=False,
            doc="How it is known: `configured`, `inferred` or `none`.",
        ),
        Column(
            name="client", type="string", nullable=False, doc="Client and version that were simulated; '' for none."
        ),
        Column(
            name="confidence", type="double", unit="ratio", doc="How sure the strategy is, 0 to 1; 1 where configured."
        ),
        Column(name="runner_up", type="string", nullable=False, doc="The strategy that comes next; '' for none."),
        Column(
            name="settings",
            type="map<string,string>",
            nullable=False,
            doc="Settings that were simulated, by Kafka's names, each with its source.",
        ),
        Column(name="session_count", type="bigint", nullable=False, unit="sessions", doc="Producer sessions."),
        Column(name="seed_count", type="bigint", nullable=False, unit="seeds", doc="Runs; 0 where nothing was run."),
        Column(
            name="broker_id",
            type="bigint",
            doc="The broker whose share is predicted worst; the two shares beside are its own. NULL without a prediction.",
        ),
        Column(
            name="judged_on",
            type="string",
            doc="`odd minutes`, on which nothing was fitted, or `all minutes` where there is no other; of the shares.",
        ),
        Column(name="observed_share", type="double", unit="ratio", doc="Its part of the topic's bytes in the log."),
        *number_range("predicted_share", "ratio", "The same as predicted; the median over the seeds."),
        Column(
            name="share_error_points",
            type="double",
            unit="percentage points",
            doc="Largest difference between predicted and observed share of a broker, in the log's bytes.",
        ),
        Column(
            name="partition_share_error_points",
            type="double",
            unit="percentage points",
            doc="The same over the partitions.",
        ),
        Column(
            name="share_bar_points",
            type="double",
            unit="percentage points",
            doc="What `share_error_points` may be: 1.5, or 2.5 standard deviations of that broker's share over the seeds.",
        ),
        Column(name="observed_records_per_batch", type="double", unit="records", doc="Data records over data batches."),
        *number_range("predicted_records_per_batch", "records", "The same as predicted; the median over the seeds."),
        Column(
            name="records_per_batch_ratio", type="double", unit="ratio", doc="Predicted over observed; 1 is no error."
        ),
        Column(
            name="observed_latency_avg_ms",
            type="double",
            unit="ms",
            doc="Mean time of batches in the queue and mean latency of each broker's requests by the bytes it got, from producers' metrics; NULL where no source tells them.",
        ),
        *number_range(
            "predicted_latency_avg_ms",
            "ms",
            "The same as predicted, put together as those metrics are; the median over the seeds.",
        ),
        Column(name="latency_avg_ratio", type="double", unit="ratio", doc="Predicted over observed; 1 is no error."),
        Column(
            name="observed_latency_p99_ms",
            type="double",
            unit="ms",
            doc="From the producer's own tool, where one tells it; metrics have no quantile.",
        ),
        *number_range("predicted_latency_p99_ms", "ms", "What 99 % of the records stay within."),
        Column(name="latency_p99_ratio", type="double", unit="ratio", doc="Predicted over observed; 1 is no error."),
        Column(
            name="is_trusted", type="boolean", nullable=False, doc="Every error that can be told is within its bar."
        ),
        Column(
            name="trust",
            type="string",
            nullable=False,
            doc="`trusted`, or `not trustworthy:` and why.",
        ),
        Column(
            name="assumptions",
            type="string",
            nullable=False,
            doc="What the prediction takes for granted; '' for nothing.",
        ),
        RUN_ID,
    ),
)
