"""Gold table of the replay: each candidate beside what is in use."""

from __future__ import annotations

from pipeline.tables.columns import bigint, bigint_range, boolean, double, double_range, string
from pipeline.tables.table import RUN_ID, TOPIC_COLUMNS, WINDOW, Column, Table

CANDIDATE = string("candidate", "Name in the configuration; `in-use` for the strategy in use, replayed like any other.")
IS_BASELINE = boolean("is_baseline", "The candidate is what is in use: its rows test the replay.")

SCENARIO_COMPARISON = Table(
    name="gold.scenario_comparison",
    grain="baseline x candidate x topic x window",
    key=("cluster", "window_start", "candidate", "topic", "topic_id"),
    schema_version=2,
    columns=(
        *WINDOW,
        CANDIDATE,
        IS_BASELINE,
        *TOPIC_COLUMNS,
        string("baseline", "Strategy in use; `as recorded` where none is known."),
        string("baseline_source", "How it is known: `configuration`, `hash verdict`, `batches` (by shape), `none`."),
        string("partitioner", "Strategy of the candidate; NULL for one in use that is not known.", nullable=True),
        bigint("baseline_partition_count", "Partitions of the topic in the window.", "partitions"),
        bigint("partition_count", "Under the candidate.", "partitions"),
        bigint("record_count", "Data records of the topic.", "records"),
        bigint("size_bytes", "Their bytes as encoded, before compression.", "bytes"),
        bigint("key_count", "Distinct keys that have a name.", "keys"),
        bigint("keyed_record_count", "Records of these keys.", "records"),
        bigint("keyed_size_bytes", "Bytes of these keys.", "bytes"),
        bigint("keyless_record_count", "Records without a key.", "records"),
        string("keyless_rule", "`simulated`, `as recorded`, or `to partition N` for a hashed null key.", nullable=True),
        bigint(
            "unknown_record_count",
            "Records that may lie anywhere under the candidate: keys without a name or hashes, unreadable batches, partitions that are gone. They make the ranges.",
            "records",
            nullable=True,
        ),
        bigint("refused_record_count", "Records its client refuses; left where they were.", "records", nullable=True),
        double("baseline_peak_to_mean", "Largest over mean partition as recorded, by bytes.", "ratio"),
        *double_range("peak_to_mean", "Largest over mean partition under the candidate, by bytes.", "ratio"),
        double("baseline_effective_partitions", "1 / sum of squared shares, as recorded, by bytes.", "partitions"),
        *double_range("effective_partitions", "The same under the candidate.", "partitions"),
        double("baseline_broker_peak_to_mean", "Largest over mean broker as recorded, by its bytes.", "ratio"),
        *double_range("broker_peak_to_mean", "The same under the candidate, over placements if drawn.", "ratio"),
        *double_range("floor_peak_to_mean", "max(1, partitions x share of the top key): no hash does better.", "ratio"),
        bigint("moved_key_count", "Keys with records that would change partition.", "keys", nullable=True),
        double("keys_moved_ratio", "Their part of the keys.", "ratio"),
        *bigint_range("moved_record_count", "Keyed records that would lie elsewhere", "records", of="bounds"),
        *bigint_range("moved_size_bytes", "Their bytes", "bytes", of="bounds"),
        double("bytes_moved_ratio", "Their part of the keyed bytes.", "ratio"),
        bigint(
            "at_risk_key_count",
            "Keys with traffic on both sides of a switch at the window's start that would change partition: their order is at risk. NULL where the window before is not stored.",
            "keys",
            nullable=True,
        ),
        bigint("at_risk_record_count", "Their records in the window.", "records", nullable=True),
        bigint("at_risk_size_bytes", "Their bytes in the window.", "bytes", nullable=True),
        Column("top_keys", "map<string,bigint>", "Five heaviest, by 8 hex digits of the id.", "bytes", nullable=False),
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
        *bigint_range("lost_record_count", "Records not delivered: too large, no memory, or expired", "records"),
        *bigint_range("log_size_bytes", "Bytes of its batches in the log", "bytes"),
        *double_range("records_per_batch", "Records over batches; the median over the seeds.", "records"),
        double("baseline_records_per_batch", "The same as recorded, data batches.", "records"),
        *double_range("throughput_records_per_s", "Records over first `send()` to last acknowledgement.", "1/s"),
        *double_range("latency_p50_ms", "From `send()` to acknowledgement: median over seeds.", "ms"),
        *double_range("latency_p99_ms", "The same, what 99 % of the records stay within.", "ms"),
        boolean("is_as_in_use", "Partitioner and settings as in use; NULL if not simulated.", nullable=True),
        string("trust", "`trusted`, or `not trustworthy:` and why; by back-test and candidate.", nullable=True),
        RUN_ID,
    ),
)
