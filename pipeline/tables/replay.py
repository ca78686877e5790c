"""Gold tables of the replay: recorded traffic under other strategies and settings, beside what was recorded."""

from __future__ import annotations

from pipeline.tables.back_tests import BACK_TESTS
from pipeline.tables.columns import number, number_range, text, whole, whole_range
from pipeline.tables.replay_columns import CANDIDATE, IS_BASELINE
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
        text("partitioner", "Strategy replayed; `as recorded` where none explains the recorded keys."),
        whole(
            "partition_count",
            "Partitions under the candidate; partitions beyond it have rows with nothing in them.",
            "partitions",
        ),
        whole(
            "seed_count",
            "Seeds behind the range, in which a real run lies nine times of ten; 1 where keys alone decide: the range is then what is not known about keys.",
            "seeds",
        ),
        whole("leader_id", "Leader at the window's end; -1 where the candidate's is open."),
        *whole_range("record_count", "Data records it would hold", "records"),
        *whole_range("size_bytes", "Their bytes as encoded, before compression, as in `silver.key_traffic`", "bytes"),
        *whole_range("batch_count", "Batches; NULL where batching was not simulated", "batches"),
        whole("key_count", "Distinct keys it would hold, as far as they have names.", "keys", nullable=True),
        whole("recorded_record_count", "Data records it did hold.", "records"),
        whole("recorded_size_bytes", "Their bytes, likewise.", "bytes"),
        text(
            "top_key",
            "First 8 hex digits of the heaviest key it would hold, if that is among the topic's 20 heaviest.",
            nullable=True,
        ),
        whole("top_key_size_bytes", "Bytes of that key.", "bytes", nullable=True),
        *whole_range(
            "log_size_bytes", "Bytes of its batches in the log; NULL where batching was not simulated", "bytes"
        ),
        *number_range("log_share", "Its part of the topic's bytes in the log; the median over the seeds.", "ratio"),
        whole("recorded_batch_count", "Batches with data it did hold.", "batches", nullable=True),
        whole("recorded_log_size_bytes", "Bytes of its batches in the log.", "bytes", nullable=True),
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
        text(
            "placement",
            "`known` leaders, or `drawn`: 64 placements of the partitions whose leaders nobody knows yet, as the controller draws them.",
        ),
        *whole_range(
            "record_count", "Data records of the topic it would lead", "records", of="seeds, the mean over placements"
        ),
        *whole_range(
            "size_bytes", "Their bytes, as in `gold.replay_results`", "bytes", of="seeds, the mean over placements"
        ),
        whole("recorded_record_count", "Data records it did lead.", "records"),
        whole("recorded_size_bytes", "Their bytes, likewise.", "bytes"),
        *number_range("share", "Its part of the topic's bytes; NULL without traffic", "ratio"),
        number("recorded_share", "The part it had.", "ratio"),
        *whole_range("batch_count", "Batches it would take; NULL where batching was not simulated", "batches"),
        *whole_range("log_size_bytes", "Their bytes in the log", "bytes"),
        *number_range("log_share", "Its part of the topic's bytes in the log; the median over the seeds.", "ratio"),
        whole(
            "recorded_log_size_bytes",
            "Bytes in the log that it did take, as the leader when they were written.",
            "bytes",
            nullable=True,
        ),
        number("recorded_log_share", "Their part of the topic's bytes in the log.", "ratio"),
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
        whole("partition_count", "Partitions of the topic in the window, from the cluster's history.", "partitions"),
        text(
            "verdict",
            "Family of strategies that put the keys where they are: `java-compatible`, `librdkafka-consistent`, ...; `mixed`, `none-known`, `not-enough-keys`.",
        ),
        text(
            "strategies",
            "Strategies of the best family, which nothing can tell apart by keys; '' where none does better than chance.",
        ),
        text(
            "tied_with",
            "Other families that explain as many records: this partition count and these keys do not separate them.",
        ),
        number(
            "explained_ratio",
            "Part of the judged records that lie where the best family puts them; NULL without any.",
            "ratio",
        ),
        number(
            "chance_ratio",
            "Part of the keys that any family explains by chance: 1 / partitions.",
            "ratio",
            nullable=False,
        ),
        number("chance_p_value", "Bound on the chance that some family explains as many keys by luck.", "probability"),
        whole("key_count", "Distinct keys judged.", "keys"),
        whole("record_count", "Their records.", "records"),
        whole(
            "unjudged_record_count",
            "Records without a key, with an empty one, without a name or hashes, or unreadable.",
            "records",
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
        text("reason", "The verdict in words."),
        RUN_ID,
    ),
)

REPLAY = (REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON, HASH_VERDICTS, BACK_TESTS)
