"""Gold tables of the replay: recorded traffic under other strategies and settings, beside what was recorded."""

from __future__ import annotations

from pipeline.tables.back_tests import BACK_TESTS
from pipeline.tables.columns import bigint, bigint_range, double, double_range, string
from pipeline.tables.scenario_comparison import CANDIDATE, IS_BASELINE, SCENARIO_COMPARISON
from pipeline.tables.table import BROKER_ID, PARTITION_COLUMNS, RUN_ID, TOPIC_COLUMNS, WINDOW, Column, Table

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
        bigint("partition_count", "Partitions under the candidate; those beyond have empty rows.", "partitions"),
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
        bigint("recorded_size_bytes", "Their bytes, likewise.", "bytes"),
        string("top_key", "First 8 hex digits of its heaviest key, if among the topic's top 20.", nullable=True),
        bigint("top_key_size_bytes", "Bytes of that key.", "bytes", nullable=True),
        *bigint_range("log_size_bytes", "Bytes of its batches in the log; NULL if not simulated", "bytes"),
        *double_range("log_share", "Its part of the topic's bytes in the log; the median over the seeds.", "ratio"),
        bigint("recorded_batch_count", "Batches with data it did hold.", "batches", nullable=True),
        bigint("recorded_log_size_bytes", "Bytes of its batches in the log.", "bytes", nullable=True),
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
        *bigint_range("record_count", "Data records it would lead", "records", of="seeds, the mean over placements"),
        *bigint_range("size_bytes", "As in `gold.replay_results`", "bytes", of="seeds, the mean over placements"),
        bigint("recorded_record_count", "Data records it did lead.", "records"),
        bigint("recorded_size_bytes", "Their bytes, likewise.", "bytes"),
        *double_range("share", "Its part of the topic's bytes; NULL without traffic", "ratio"),
        double("recorded_share", "The part it had.", "ratio"),
        *bigint_range("batch_count", "Batches it would take; NULL where batching was not simulated", "batches"),
        *bigint_range("log_size_bytes", "Their bytes in the log", "bytes"),
        *double_range("log_share", "Its part of the topic's bytes in the log; the median over the seeds.", "ratio"),
        bigint("recorded_log_size_bytes", "Bytes in the log that it took as the leader.", "bytes", nullable=True),
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
        string("tied_with", "Other families that explain as many records of these keys."),
        double("explained_ratio", "Part of the judged records that the best family places right.", "ratio"),
        double("chance_ratio", "Part any family explains by chance: 1 / partitions.", "ratio", nullable=False),
        double("chance_p_value", "Bound on the chance that some family explains as many keys by luck.", "probability"),
        bigint("key_count", "Distinct keys judged.", "keys"),
        bigint("record_count", "Their records.", "records"),
        bigint("unjudged_record_count", "Records whose key is null, empty, without hashes, or unreadable.", "records"),
        Column("explained_key_counts", "map<string,bigint>", "Keys wholly placed, by family.", "keys", nullable=False),
        Column(
            "explained_record_counts", "map<string,bigint>", "Records it places, by family.", "records", nullable=False
        ),
        string("reason", "The verdict in words."),
        RUN_ID,
    ),
)

REPLAY = (REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON, HASH_VERDICTS, BACK_TESTS)
