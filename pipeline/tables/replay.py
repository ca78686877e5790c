"""Gold tables of the replay: recorded traffic under other strategies and settings, beside what was recorded."""

from __future__ import annotations

from pipeline.tables.back_tests import BACK_TESTS
from pipeline.tables.replay_columns import CANDIDATE, IS_BASELINE, number_range, whole_range
from pipeline.tables.scenario_comparison import SCENARIO_COMPARISON
from pipeline.tables.table import BROKER_ID, CLUSTER, PARTITION, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table

REPLAY_RESULTS = Table(
    name="gold.replay_results",
    grain="candidate x topic-partition x window",
    schema_version=2,
    key=("cluster", "window_start", "candidate", "topic", "topic_id", "partition"),
    columns=(
        CLUSTER,
        WINDOW_START,
        CANDIDATE,
        IS_BASELINE,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(
            name="partitioner",
            type="string",
            nullable=False,
            doc="Strategy replayed; `as recorded` where none explains the recorded keys.",
        ),
        Column(
            name="partition_count",
            type="bigint",
            nullable=False,
            unit="partitions",
            doc="Partitions under the candidate; partitions beyond it have rows with nothing in them.",
        ),
        Column(
            name="seed_count",
            type="bigint",
            nullable=False,
            unit="seeds",
            doc="Seeds behind the range; 1 where keys alone decide: the range is then what is not known about keys.",
        ),
        Column(
            name="leader_id",
            type="bigint",
            nullable=False,
            doc="Leader at the window's end; -1 where the candidate's is open.",
        ),
        *whole_range("record_count", "records", "Data records it would hold"),
        *whole_range("size_bytes", "bytes", "Their bytes as encoded, before compression, as in `silver.key_traffic`"),
        *whole_range("batch_count", "batches", "Batches; NULL where batching was not simulated"),
        Column(
            name="key_count", type="bigint", unit="keys", doc="Distinct keys it would hold, as far as they have names."
        ),
        Column(
            name="recorded_record_count", type="bigint", nullable=False, unit="records", doc="Data records it did hold."
        ),
        Column(name="recorded_size_bytes", type="bigint", nullable=False, unit="bytes", doc="Their bytes, likewise."),
        Column(
            name="top_key",
            type="string",
            doc="First 8 hex digits of the heaviest key it would hold, if that is among the topic's 20 heaviest.",
        ),
        Column(name="top_key_size_bytes", type="bigint", unit="bytes", doc="Bytes of that key."),
        *whole_range(
            "log_size_bytes", "bytes", "Bytes of its batches in the log; NULL where batching was not simulated"
        ),
        *number_range("log_share", "ratio", "Its part of the topic's bytes in the log; the median over the seeds."),
        Column(name="recorded_batch_count", type="bigint", unit="batches", doc="Batches with data it did hold."),
        Column(name="recorded_log_size_bytes", type="bigint", unit="bytes", doc="Bytes of its batches in the log."),
        RUN_ID,
    ),
)

REPLAY_BROKERS = Table(
    name="gold.replay_brokers",
    grain="candidate x topic x broker x window",
    schema_version=2,
    key=("cluster", "window_start", "candidate", "topic", "topic_id", "broker_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        CANDIDATE,
        IS_BASELINE,
        TOPIC,
        TOPIC_ID,
        BROKER_ID,
        Column(
            name="placement",
            type="string",
            nullable=False,
            doc="`known` leaders, or `drawn`: 64 placements of the partitions whose leaders nobody knows yet, as the controller draws them.",
        ),
        *whole_range(
            "record_count", "records", "Data records of the topic it would lead", of="seeds, the mean over placements"
        ),
        *whole_range(
            "size_bytes", "bytes", "Their bytes, as in `gold.replay_results`", of="seeds, the mean over placements"
        ),
        Column(
            name="recorded_record_count", type="bigint", nullable=False, unit="records", doc="Data records it did lead."
        ),
        Column(name="recorded_size_bytes", type="bigint", nullable=False, unit="bytes", doc="Their bytes, likewise."),
        *number_range("share", "ratio", "Its part of the topic's bytes; NULL without traffic"),
        Column(name="recorded_share", type="double", unit="ratio", doc="The part it had."),
        *whole_range("batch_count", "batches", "Batches it would take; NULL where batching was not simulated"),
        *whole_range("log_size_bytes", "bytes", "Their bytes in the log"),
        *number_range("log_share", "ratio", "Its part of the topic's bytes in the log; the median over the seeds."),
        Column(
            name="recorded_log_size_bytes",
            type="bigint",
            unit="bytes",
            doc="Bytes in the log that it did take, as the leader when they were written.",
        ),
        Column(
            name="recorded_log_share", type="double", unit="ratio", doc="Their part of the topic's bytes in the log."
        ),
        RUN_ID,
    ),
)

HASH_VERDICTS = Table(
    name="gold.hash_verdicts",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        Column(
            name="partition_count",
            type="bigint",
            nullable=False,
            unit="partitions",
            doc="Partitions of the topic in the window, from the cluster's history.",
        ),
        Column(
            name="verdict",
            type="string",
            nullable=False,
            doc="Family of strategies that put the keys where they are: `java-compatible`, `librdkafka-consistent`, ...; `mixed`, `none-known`, `not-enough-keys`.",
        ),
        Column(
            name="strategies",
            type="string",
            nullable=False,
            doc="Strategies of the best family, which nothing can tell apart by keys; '' where none does better than chance.",
        ),
        Column(
            name="tied_with",
            type="string",
            nullable=False,
            doc="Other families that explain as many records: this partition count and these keys do not separate them.",
        ),
        Column(
            name="explained_ratio",
            type="double",
            unit="ratio",
            doc="Part of the judged records that lie where the best family puts them; NULL without any.",
        ),
        Column(
            name="chance_ratio",
            type="double",
            nullable=False,
            unit="ratio",
            doc="Part of the keys that any family explains by chance: 1 / partitions.",
        ),
        Column(
            name="chance_p_value",
            type="double",
            unit="probability",
            doc="Bound on the chance that some family explains as many keys by luck.",
        ),
        Column(name="key_count", type="bigint", nullable=False, unit="keys", doc="Distinct keys judged."),
        Column(name="record_count", type="bigint", nullable=False, unit="records", doc="Their records."),
        Column(
            name="unjudged_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records without a key, with an empty one, without a name or hashes, or unreadable.",
        ),
        Column(
            name="explained_key_counts",
            type="map<string,bigint>",
            nullable=False,
            unit="keys",
            doc="Keys all of whose records lie where the family puts them, by family.",
        ),
        Column(
            name="explained_record_counts",
            type="map<string,bigint>",
            nullable=False,
            unit="records",
            doc="Records that lie where the family puts them, by family.",
        ),
        Column(name="reason", type="string", nullable=False, doc="The verdict in words."),
        RUN_ID,
    ),
)

REPLAY = (REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON, HASH_VERDICTS, BACK_TESTS)
