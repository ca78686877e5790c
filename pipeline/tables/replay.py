"""Gold tables of the replay and its back-tests: recorded traffic under other strategies and settings, beside what was recorded."""

from __future__ import annotations

from pipeline.tables.columns import bigint, bigint_range, boolean, double, double_range, string
from pipeline.tables.table import BROKER_ID, PARTITION_COLUMNS, RUN_ID, TOPIC_COLUMNS, WINDOW, Column, Table

CANDIDATE = string("candidate", "Name in the configuration; `in-use` is the current setup, replayed like any other.")
IS_BASELINE = boolean("is_baseline", "The candidate is the current setup: its rows test the replay.")

SCENARIO_COMPARISON = Table(
    name="gold.scenario_comparison",
    grain="baseline x candidate x topic x window",
    key=("cluster", "window_start", "candidate", "topic", "topic_id"),
    schema_version=3,
    columns=(
        *WINDOW,
        CANDIDATE,
        IS_BASELINE,
        *TOPIC_COLUMNS,
        string("baseline", "Current strategy; `as recorded` where none is known."),
        string("baseline_source", "How it is known: `configuration`, `hash verdict`, `batches` (by shape), `none`."),
        string(
            "partitioner", "Strategy of the candidate; NULL where it is the current one and not known.", nullable=True
        ),
        bigint("baseline_partition_count", "Partitions of the topic in the window.", "partitions"),
        bigint("partition_count", "Under the candidate.", "partitions"),
        bigint("record_count", "Data records of the topic.", "records"),
        bigint("size_bytes", "Their bytes as encoded, before compression."),
        bigint("key_count", "Distinct keys that have an id.", "keys"),
        bigint("keyed_record_count", "Records of these keys.", "records"),
        bigint("keyed_size_bytes", "Bytes of these keys."),
        bigint("keyless_record_count", "Records without a key.", "records"),
        string(
            "keyless_rule",
            "What became of them: `simulated`, `as recorded`, or `to partition N` (the candidate hashes a missing key).",
            nullable=True,
        ),
        bigint(
            "unknown_record_count",
            "Records that may lie anywhere under the candidate: keys without an id or hashes, unreadable batches, partitions that are gone. They make the ranges.",
            "records",
            nullable=True,
        ),
        bigint("refused_record_count", "Records with keys its client refuses; not moved.", "records", nullable=True),
        double("baseline_peak_to_mean", "Largest over mean partition by bytes; NULL if idle.", "ratio"),
        *double_range("peak_to_mean", "Largest over mean partition under the candidate, by bytes.", "ratio"),
        double("baseline_effective_partitions", "1 / sum of squared shares, as recorded, by bytes.", "partitions"),
        *double_range("effective_partitions", "The same under the candidate.", "partitions"),
        double("baseline_broker_peak_to_mean", "Largest over mean broker, by the topic's bytes.", "ratio"),
        *double_range(
            "broker_peak_to_mean", "The same under the candidate; over placements where leaders are open.", "ratio"
        ),
        *double_range(
            "floor_peak_to_mean",
            "max(1, partitions x share of the heaviest key), by bytes: no hash does better.",
            "ratio",
        ),
        bigint("moved_key_count", "Keys with records that would change partition.", "keys", nullable=True),
        double("keys_moved_ratio", "Their part of the keys."),
        *bigint_range("moved_record_count", "Keyed records that would lie elsewhere", "records", of="bounds"),
        *bigint_range("moved_size_bytes", "Their bytes", "bytes", of="bounds"),
        double("bytes_moved_ratio", "Their part of the keyed bytes."),
        bigint(
            "at_risk_key_count",
            "Keys with traffic on both sides of a switch at the window's start that would change partition: their order is at risk. NULL where the window before is not stored.",
            "keys",
            nullable=True,
        ),
        bigint("at_risk_record_count", "Their records in the window.", "records", nullable=True),
        bigint("at_risk_size_bytes", "Their bytes in the window.", nullable=True),
        Column(
            "top_keys",
            "map<string,bigint>",
            "Bytes of the five heaviest keys, by the first 8 hex digits of their ids.",
            "bytes",
            nullable=False,
        ),
        string("assumptions", "What the numbers take for granted; '' for nothing."),
        bigint(
            "seed_count",
            "Runs of the simulated producers behind the ranges, in which a real run lies nine times of ten; NULL where nothing was simulated.",
            "seeds",
            nullable=True,
        ),
        bigint(
            "replayed_record_count_low",
            "Records acknowledged or lost, the least over the seeds.",
            "records",
            nullable=True,
        ),
        bigint("replayed_record_count_high", "The most over the seeds.", "records", nullable=True),
        *bigint_range(
            "lost_record_count",
            "Records not delivered: too large, no memory within `max.block.ms`, or expired",
            "records",
        ),
        *bigint_range("log_size_bytes", "Bytes of its batches in the log", "bytes"),
        *double_range("records_per_batch", "Records over batches; the median over the seeds.", "records"),
        double("baseline_records_per_batch", "The same as recorded, data batches.", "records"),
        *double_range(
            "throughput_records_per_s",
            "Records acknowledged over the time from the first `send()` to the last acknowledgement.",
            "1/s",
        ),
        *double_range(
            "latency_p50_ms", "From `send()` to the acknowledgement, by record: the median over the seeds.", "ms"
        ),
        *double_range("latency_p95_ms", "The same, what 95 % of the records stay within.", "ms"),
        *double_range("latency_p99_ms", "The same, what 99 % of the records stay within.", "ms"),
        boolean(
            "is_as_in_use",
            "Partitioner and settings are the current ones, so the runs are those of `in-use`; NULL if not simulated.",
            nullable=True,
        ),
        string("trust", "`trusted`, or `not trustworthy:` and why; by back-test and candidate.", nullable=True),
        RUN_ID,
    ),
)


BACK_TESTS = Table(
    name="gold.back_tests",
    grain="topic x window",
    schema_version=2,
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        *WINDOW,
        *TOPIC_COLUMNS,
        string("partitioner", "Current strategy, replayed; of the producer that sent most, or NULL.", nullable=True),
        string("partitioner_source", "How it is known: `configured`, `inferred` or `none`."),
        string("client", "Client and version that were simulated; '' for none."),
        double(
            "confidence",
            "Probability that this is the current strategy, 1 if configured; variants that look alike share it.",
            "ratio",
        ),
        string("runner_up", "The strategy that comes next; '' for none."),
        Column("settings", "map<string,string>", "Simulated settings by Kafka's names, with sources.", nullable=False),
        bigint("session_count", "Producer sessions.", "sessions"),
        bigint("seed_count", "Runs; 0 where nothing was run.", "seeds"),
        bigint(
            "broker_id",
            "Broker whose share is predicted worst; the two shares are its own. NULL without a prediction.",
            nullable=True,
        ),
        string(
            "judged_on",
            "Where shares are compared: `odd minutes`, on which nothing was fitted, or `all minutes` where there is no other.",
            nullable=True,
        ),
        double("observed_share", "Its part of the topic's bytes in the log.", "ratio"),
        *double_range("predicted_share", "The same as predicted; the median over the seeds.", "ratio"),
        double("share_error_points", "Largest difference of a broker's two shares, log bytes.", "percentage points"),
        double("partition_share_error_points", "The same over the partitions.", "percentage points"),
        double(
            "share_bar_points",
            "What `share_error_points` may be: 1.5, or 2.5 standard deviations of that broker's share over the seeds.",
            "percentage points",
        ),
        double("observed_records_per_batch", "Data records over data batches.", "records"),
        *double_range("predicted_records_per_batch", "The same as predicted; the median over the seeds.", "records"),
        double("records_per_batch_ratio", "Predicted over observed; 1 is no error."),
        double(
            "observed_latency_avg_ms",
            "From producers' metrics: mean time of batches in the queue plus mean request latency of each broker by the bytes it got; NULL without metrics.",
        ),
        *double_range(
            "predicted_latency_avg_ms",
            "As predicted, put together as those metrics are; the median over the seeds.",
            "ms",
        ),
        double("latency_avg_ratio", "Predicted over observed; 1 is no error."),
        double(
            "observed_latency_p99_ms", "Always NULL: clients' metrics have no quantile, only `observed_latency_max_ms`."
        ),
        *double_range("predicted_latency_p99_ms", "What 99 % of the records stay within.", "ms"),
        double("latency_p99_ratio", "Predicted over observed; 1 is no error."),
        double(
            "observed_latency_max_ms",
            "No record took longer: the longest wait in a client and its longest request, both from producers' metrics, which look back a minute; NULL where one is not known, records were sent again, or `send()` waited for memory. A p99 predicted more than 30 % above it is not trusted.",
        ),
        *double_range("predicted_latency_max_ms", "The longest as predicted; the median over the seeds.", "ms"),
        double(
            "latency_max_ratio",
            "Predicted over observed; no bar: a longest time is chance, and the observed one a bound.",
        ),
        boolean("is_trusted", "Every error that is known is within its bar."),
        string("trust", "`trusted`, or `not trustworthy:` and why."),
        string("assumptions", "What the prediction takes for granted; '' for nothing."),
        RUN_ID,
    ),
)


REPLAY_RESULTS = Table(
    name="gold.replay_results",
    grain="candidate x topic-partition x window",
    schema_version=2,
    key=("cluster", "window_start", "candidate", "topic", "topic_id", "partition"),
    columns=(
        *WINDOW,
        CANDIDATE,
        IS_BASELINE,
        *PARTITION_COLUMNS,
        string("partitioner", "Strategy replayed; `as recorded` where none explains the recorded keys."),
        bigint("partition_count", "Partitions under the candidate; rows beyond them are empty.", "partitions"),
        bigint(
            "seed_count",
            "Seeds behind the range, in which a real run lies nine times of ten; 1 where keys alone decide: the range is then what is not known about keys.",
            "seeds",
        ),
        bigint("leader_id", "Leader at the window's end; -1 where the candidate's is open."),
        *bigint_range("record_count", "Data records it would hold", "records"),
        *bigint_range("size_bytes", "Their bytes as encoded, before compression, as in `silver.key_traffic`", "bytes"),
        *bigint_range("batch_count", "Batches; NULL where batching was not simulated", "batches"),
        bigint("key_count", "Distinct keys it would hold, as far as they have names.", "keys", nullable=True),
        bigint("recorded_record_count", "Data records it did hold.", "records"),
        bigint("recorded_size_bytes", "Their bytes, likewise."),
        string("top_key", "First 8 hex digits of its heaviest key, if among the topic's top 20.", nullable=True),
        bigint("top_key_size_bytes", "Bytes of that key.", nullable=True),
        *bigint_range(
            "log_size_bytes", "Bytes of its batches in the log; NULL where batching was not simulated", "bytes"
        ),
        *double_range("log_share", "Its part of the topic's bytes in the log; the median over the seeds.", "ratio"),
        bigint("recorded_batch_count", "Batches with data it did hold.", "batches", nullable=True),
        bigint("recorded_log_size_bytes", "Bytes of its batches in the log.", nullable=True),
        RUN_ID,
    ),
)

REPLAY_BROKERS = Table(
    name="gold.replay_brokers",
    grain="candidate x topic x broker x window",
    schema_version=2,
    key=("cluster", "window_start", "candidate", "topic", "topic_id", "broker_id"),
    columns=(
        *WINDOW,
        CANDIDATE,
        IS_BASELINE,
        *TOPIC_COLUMNS,
        BROKER_ID,
        string("placement", "Leaders: `known`, or `drawn` in 64 placements as the controller does for new partitions."),
        *bigint_range(
            "record_count", "Data records of the topic it would lead", "records", of="seeds, the mean over placements"
        ),
        *bigint_range(
            "size_bytes", "Their bytes, as in `gold.replay_results`", "bytes", of="seeds, the mean over placements"
        ),
        bigint("recorded_record_count", "Data records it did lead.", "records"),
        bigint("recorded_size_bytes", "Their bytes, likewise."),
        *double_range("share", "Its part of the topic's bytes; NULL without traffic", "ratio"),
        double("recorded_share", "The part it had.", "ratio"),
        *bigint_range("batch_count", "Batches it would take; NULL where batching was not simulated", "batches"),
        *bigint_range("log_size_bytes", "Their bytes in the log", "bytes"),
        *double_range("log_share", "Its part of the topic's bytes in the log; the median over the seeds.", "ratio"),
        bigint("recorded_log_size_bytes", "Log bytes it took while it was the leader.", nullable=True),
        double("recorded_log_share", "Their part of the topic's bytes in the log.", "ratio"),
        RUN_ID,
    ),
)

HASH_VERDICTS = Table(
    name="gold.hash_verdicts",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        *WINDOW,
        *TOPIC_COLUMNS,
        bigint("partition_count", "Partitions of the topic in the window, from the cluster's history.", "partitions"),
        string("verdict", "Family that explains the keys: `java-compatible` ...; `mixed none-known not-enough-keys`."),
        string("strategies", "Strategies of the best family, equal by keys; '' where none beats chance."),
        string(
            "tied_with",
            "Other families that explain as many records: these keys and this partition count do not separate them.",
        ),
        double(
            "explained_ratio", "Part of the judged records that are where the best family puts them; NULL without any."
        ),
        double("chance_ratio", "Part of keys explained by chance: 1 / partitions.", nullable=False),
        double("chance_p_value", "Bound on the chance that some family explains as many keys by luck.", "probability"),
        bigint("key_count", "Distinct keys judged.", "keys"),
        bigint("record_count", "Their records.", "records"),
        bigint(
            "unjudged_record_count",
            "Records without a key, with an empty one, without an id or hashes, or unreadable.",
            "records",
        ),
        Column(
            "explained_key_counts",
            "map<string,bigint>",
            "Keys all of whose records are where the family puts them, by family.",
            "keys",
            nullable=False,
        ),
        Column(
            "explained_record_counts",
            "map<string,bigint>",
            "Records that are where the family puts them, by family.",
            "records",
            nullable=False,
        ),
        string("reason", "The verdict in words."),
        RUN_ID,
    ),
)

REPLAY = (REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON, HASH_VERDICTS, BACK_TESTS)
