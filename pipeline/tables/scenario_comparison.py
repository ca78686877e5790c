"""Gold table of the replay: each candidate beside what is in use."""

from __future__ import annotations

from pipeline.tables.columns import flag, number, number_range, text, whole, whole_range
from pipeline.tables.replay_columns import CANDIDATE, IS_BASELINE
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
        text("baseline", "Strategy in use; `as recorded` where none is known."),
        text(
            "baseline_source", "How it is known: `configuration`, `hash verdict`, `batches` (their shapes), or `none`."
        ),
        text(
            "partitioner",
            "Strategy of the candidate; NULL where it is the one in use and that is not known: nothing is replayed.",
            nullable=True,
        ),
        whole("baseline_partition_count", "Partitions of the topic in the window.", "partitions"),
        whole("partition_count", "Under the candidate.", "partitions"),
        whole("record_count", "Data records of the topic.", "records"),
        whole("size_bytes", "Their bytes as encoded, before compression.", "bytes"),
        whole("key_count", "Distinct keys that have a name.", "keys"),
        whole("keyed_record_count", "Records of these keys.", "records"),
        whole("keyed_size_bytes", "Bytes of these keys.", "bytes"),
        whole("keyless_record_count", "Records without a key.", "records"),
        text(
            "keyless_rule",
            "What became of them: `simulated`, `as recorded`, or `to partition N` where the candidate hashes a missing key.",
            nullable=True,
        ),
        whole(
            "unknown_record_count",
            "Records that may lie anywhere under the candidate: keys without a name or hashes, unreadable batches, partitions that are gone. They make the ranges.",
            "records",
            nullable=True,
        ),
        whole(
            "refused_record_count",
            "Records whose key the candidate's client refuses; they stay where they were.",
            "records",
            nullable=True,
        ),
        number(
            "baseline_peak_to_mean", "Largest over mean partition as recorded, by bytes; NULL without traffic.", "ratio"
        ),
        *number_range("peak_to_mean", "Largest over mean partition under the candidate, by bytes.", "ratio"),
        number("baseline_effective_partitions", "1 / sum of squared shares, as recorded, by bytes.", "partitions"),
        *number_range("effective_partitions", "The same under the candidate.", "partitions"),
        number(
            "baseline_broker_peak_to_mean", "Largest over mean broker as recorded, by bytes of this topic.", "ratio"
        ),
        *number_range(
            "broker_peak_to_mean", "The same under the candidate; over placements where leaders are open.", "ratio"
        ),
        *number_range(
            "floor_peak_to_mean",
            "max(1, partitions x share of the heaviest key), by bytes: no hash can do better.",
            "ratio",
        ),
        whole(
            "moved_key_count",
            "Keys with records that would lie on another partition than they do.",
            "keys",
            nullable=True,
        ),
        number("keys_moved_ratio", "Their part of the keys.", "ratio"),
        *whole_range("moved_record_count", "Keyed records that would lie elsewhere", "records", of="bounds"),
        *whole_range("moved_size_bytes", "Their bytes", "bytes", of="bounds"),
        number("bytes_moved_ratio", "Their part of the keyed bytes.", "ratio"),
        whole(
            "at_risk_key_count",
            "Keys with traffic on both sides of a switch at the window's start that would change partition: their order is at risk. NULL where the window before is not stored.",
            "keys",
            nullable=True,
        ),
        whole("at_risk_record_count", "Their records in the window.", "records", nullable=True),
        whole("at_risk_size_bytes", "Their bytes in the window.", "bytes", nullable=True),
        Column(
            name="top_keys",
            type="map<string,bigint>",
            nullable=False,
            unit="bytes",
            doc="Bytes of the five heaviest keys, by the first 8 hex digits of their ids.",
        ),
        text("assumptions", "What the numbers take for granted; '' for nothing."),
        whole(
            "seed_count",
            "Runs of the simulated producers behind the ranges, in which a real run lies nine times of ten; NULL where nothing was simulated.",
            "seeds",
            nullable=True,
        ),
        whole(
            "replayed_record_count_low",
            "Records that the runs sent, the least over the seeds: all that arrivals hold, by every seed.",
            "records",
            nullable=True,
        ),
        whole("replayed_record_count_high", "The most over the seeds.", "records", nullable=True),
        *whole_range(
            "lost_record_count",
            "Records the candidate's producer would not have delivered: too large, no memory within `max.block.ms`, or expired",
            "records",
        ),
        *whole_range("log_size_bytes", "Bytes of its batches in the log", "bytes"),
        *number_range("records_per_batch", "Records over batches; the median over the seeds.", "records"),
        number("baseline_records_per_batch", "The same as recorded, data batches.", "records"),
        *number_range(
            "throughput_records_per_s",
            "Records acknowledged over the time from the first `send()` to the last acknowledgement.",
            "1/s",
        ),
        *number_range(
            "latency_p50_ms", "From `send()` to the acknowledgement, by record: the median over the seeds.", "ms"
        ),
        *number_range("latency_p99_ms", "The same, what 99 % of the records stay within.", "ms"),
        flag(
            "is_as_in_use",
            "Partitioner and settings are those in use, so the runs are those of `in-use`; NULL where nothing was simulated.",
            nullable=True,
        ),
        text(
            "trust",
            "`trusted`, or `not trustworthy:` and why; from `gold.back_tests` and the candidate itself.",
            nullable=True,
        ),
        RUN_ID,
    ),
)
