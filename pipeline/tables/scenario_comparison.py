"""Gold table of the replay: each candidate beside what is in use."""

from __future__ import annotations

from pipeline.tables.replay_columns import CANDIDATE, IS_BASELINE, number_range, whole_range
from pipeline.tables.table import CLUSTER, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table

SCENARIO_COMPARISON = Table(
    name="gold.scenario_comparison",
    grain="baseline x candidate x topic x window",
    key=("cluster", "window_start", "candidate", "topic", "topic_id"),
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_START,
        CANDIDATE,
        IS_BASELINE,
        TOPIC,
        TOPIC_ID,
        Column(
            name="baseline", type="string", nullable=False, doc="Strategy in use; `as recorded` where none is known."
        ),
        Column(
            name="baseline_source",
            type="string",
            nullable=False,
            doc="How it is known: `configuration`, `hash verdict`, `batches` (their shapes), or `none`.",
        ),
        Column(
            name="partitioner",
            type="string",
            doc="Strategy of the candidate; NULL where it is the one in use and that is not known: nothing is replayed.",
        ),
        Column(
            name="baseline_partition_count",
            type="bigint",
            nullable=False,
            unit="partitions",
            doc="Partitions of the topic in the window.",
        ),
        Column(name="partition_count", type="bigint", nullable=False, unit="partitions", doc="Under the candidate."),
        Column(name="record_count", type="bigint", nullable=False, unit="records", doc="Data records of the topic."),
        Column(
            name="size_bytes",
            type="bigint",
            nullable=False,
            unit="bytes",
            doc="Their bytes as encoded, before compression.",
        ),
        Column(name="key_count", type="bigint", nullable=False, unit="keys", doc="Distinct keys that have a name."),
        Column(name="keyed_record_count", type="bigint", nullable=False, unit="records", doc="Records of these keys."),
        Column(name="keyed_size_bytes", type="bigint", nullable=False, unit="bytes", doc="Bytes of these keys."),
        Column(
            name="keyless_record_count", type="bigint", nullable=False, unit="records", doc="Records without a key."
        ),
        Column(
            name="keyless_rule",
            type="string",
            doc="What became of them: `simulated`, `as recorded`, or `to partition N` where the candidate hashes a missing key.",
        ),
        Column(
            name="unknown_record_count",
            type="bigint",
            unit="records",
            doc="Records that may lie anywhere under the candidate: keys without a name or hashes, unreadable batches, partitions that are gone. They make the ranges.",
        ),
        Column(
            name="refused_record_count",
            type="bigint",
            unit="records",
            doc="Records whose key the candidate's client refuses; they stay where they were.",
        ),
        Column(
            name="baseline_peak_to_mean",
            type="double",
            unit="ratio",
            doc="Largest over mean partition as recorded, by bytes; NULL without traffic.",
        ),
        *number_range("peak_to_mean", "ratio", "Largest over mean partition under the candidate, by bytes."),
        Column(
            name="baseline_effective_partitions",
            type="double",
            unit="partitions",
            doc="1 / sum of squared shares, as recorded, by bytes.",
        ),
        *number_range("effective_partitions", "partitions", "The same under the candidate."),
        Column(
            name="baseline_broker_peak_to_mean",
            type="double",
            unit="ratio",
            doc="Largest over mean broker as recorded, by bytes of this topic.",
        ),
        *number_range(
            "broker_peak_to_mean", "ratio", "The same under the candidate; over placements where leaders are open."
        ),
        *number_range(
            "floor_peak_to_mean",
            "ratio",
            "max(1, partitions x share of the heaviest key), by bytes: no hash can do better.",
        ),
        Column(
            name="moved_key_count",
            type="bigint",
            unit="keys",
            doc="Keys with records that would lie on another partition than they do.",
        ),
        Column(name="keys_moved_ratio", type="double", unit="ratio", doc="Their part of the keys."),
        *whole_range("moved_record_count", "records", "Keyed records that would lie elsewhere", of="bounds"),
        *whole_range("moved_size_bytes", "bytes", "Their bytes", of="bounds"),
        Column(name="bytes_moved_ratio", type="double", unit="ratio", doc="Their part of the keyed bytes."),
        Column(
            name="at_risk_key_count",
            type="bigint",
            unit="keys",
            doc="Keys with traffic on both sides of a switch at the window's start that would change partition: their order is at risk. NULL where the window before is not stored.",
        ),
        Column(name="at_risk_record_count", type="bigint", unit="records", doc="Their records in the window."),
        Column(name="at_risk_size_bytes", type="bigint", unit="bytes", doc="Their bytes in the window."),
        Column(
            name="top_keys",
            type="map<string,bigint>",
            nullable=False,
            unit="bytes",
            doc="Bytes of the five heaviest keys, by the first 8 hex digits of their ids.",
        ),
        Column(
            name="assumptions", type="string", nullable=False, doc="What the numbers take for granted; '' for nothing."
        ),
        Column(
            name="seed_count",
            type="bigint",
            unit="seeds",
            doc="Runs of the simulated producers behind the ranges; NULL where nothing was simulated.",
        ),
        Column(
            name="replayed_record_count_low",
            type="bigint",
            unit="records",
            doc="Records that the runs sent, the least over the seeds: all that arrivals hold, by every seed.",
        ),
        Column(name="replayed_record_count_high", type="bigint", unit="records", doc="The most over the seeds."),
        *whole_range(
            "lost_record_count",
            "records",
            "Records the candidate's producer would not have delivered: too large, no memory within `max.block.ms`, or expired",
        ),
        *whole_range("log_size_bytes", "bytes", "Bytes of its batches in the log"),
        *number_range("records_per_batch", "records", "Records over batches; the median over the seeds."),
        Column(
            name="baseline_records_per_batch", type="double", unit="records", doc="The same as recorded, data batches."
        ),
        *number_range(
            "throughput_records_per_s",
            "1/s",
            "Records acknowledged over the time from the first `send()` to the last acknowledgement.",
        ),
        *number_range(
            "latency_p50_ms", "ms", "From `send()` to the acknowledgement, by record: the median over the seeds."
        ),
        *number_range("latency_p99_ms", "ms", "The same, what 99 % of the records stay within."),
        Column(
            name="is_as_in_use",
            type="boolean",
            doc="Partitioner and settings are those in use, so the runs are those of `in-use`; NULL where nothing was simulated.",
        ),
        Column(
            name="trust",
            type="string",
            doc="`trusted`, or `not trustworthy:` and why; from `gold.back_tests` and the candidate itself.",
        ),
        RUN_ID,
    ),
)
