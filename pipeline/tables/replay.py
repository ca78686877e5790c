"""Gold tables of the replay: recorded traffic under other strategies and partition counts, beside what was recorded."""

from __future__ import annotations

from pipeline.tables.table import BROKER_ID, CLUSTER, PARTITION, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table

CANDIDATE = Column(
    name="candidate",
    type="string",
    nullable=False,
    doc="Name in the configuration; `in-use` for the strategy in use, replayed like any other.",
)
_IS_BASELINE = Column(
    name="is_baseline", type="boolean", nullable=False, doc="The candidate is what is in use: its rows test the replay."
)


def _range(name: str, unit: str, doc: str, *, of: str = "seeds") -> tuple[Column, ...]:
    """A number and the range it lies in."""
    return (
        Column(name=name, type="bigint", unit=unit, doc=f"{doc}; the median over the {of}."),
        Column(name=f"{name}_low", type="bigint", unit=unit, doc=f"Lower end of `{name}`."),
        Column(name=f"{name}_high", type="bigint", unit=unit, doc=f"Upper end of `{name}`."),
    )


def _ratio_range(name: str, unit: str, doc: str) -> tuple[Column, ...]:
    return (
        Column(name=name, type="double", unit=unit, doc=doc),
        Column(name=f"{name}_low", type="double", unit=unit, doc=f"Lower end of `{name}`."),
        Column(name=f"{name}_high", type="double", unit=unit, doc=f"Upper end of `{name}`."),
    )


REPLAY_RESULTS = Table(
    name="gold.replay_results",
    grain="candidate x topic-partition x window",
    key=("cluster", "window_start", "candidate", "topic", "topic_id", "partition"),
    columns=(
        CLUSTER,
        WINDOW_START,
        CANDIDATE,
        _IS_BASELINE,
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
        *_range("record_count", "records", "Data records it would hold"),
        *_range("size_bytes", "bytes", "Their bytes as encoded, before compression, as in `silver.key_traffic`"),
        *_range("batch_count", "batches", "Batches; NULL where batching was not simulated"),
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
        RUN_ID,
    ),
)

REPLAY_BROKERS = Table(
    name="gold.replay_brokers",
    grain="candidate x topic x broker x window",
    key=("cluster", "window_start", "candidate", "topic", "topic_id", "broker_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        CANDIDATE,
        _IS_BASELINE,
        TOPIC,
        TOPIC_ID,
        BROKER_ID,
        Column(
            name="placement",
            type="string",
            nullable=False,
            doc="`known` leaders, or `drawn`: 64 placements of the partitions whose leaders nobody knows yet, as the controller draws them.",
        ),
        *_range(
            "record_count", "records", "Data records of the topic it would lead", of="seeds, the mean over placements"
        ),
        *_range(
            "size_bytes", "bytes", "Their bytes, as in `gold.replay_results`", of="seeds, the mean over placements"
        ),
        Column(
            name="recorded_record_count", type="bigint", nullable=False, unit="records", doc="Data records it did lead."
        ),
        Column(name="recorded_size_bytes", type="bigint", nullable=False, unit="bytes", doc="Their bytes, likewise."),
        *_ratio_range("share", "ratio", "Its part of the topic's bytes; NULL without traffic"),
        Column(name="recorded_share", type="double", unit="ratio", doc="The part it had."),
        RUN_ID,
    ),
)

SCENARIO_COMPARISON = Table(
    name="gold.scenario_comparison",
    grain="baseline x candidate x topic x window",
    key=("cluster", "window_start", "candidate", "topic", "topic_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        CANDIDATE,
        _IS_BASELINE,
        TOPIC,
        TOPIC_ID,
        Column(
            name="baseline", type="string", nullable=False, doc="Strategy in use; `as recorded` where none is known."
        ),
        Column(
            name="baseline_source",
            type="string",
            nullable=False,
            doc="How it is known: `configuration`, `hash verdict`, or `none`.",
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
            doc="What became of them: `as recorded`, or `to partition N` where the candidate hashes a missing key.",
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
        *_ratio_range("peak_to_mean", "ratio", "Largest over mean partition under the candidate, by bytes."),
        Column(
            name="baseline_effective_partitions",
            type="double",
            unit="partitions",
            doc="1 / sum of squared shares, as recorded, by bytes.",
        ),
        *_ratio_range("effective_partitions", "partitions", "The same under the candidate."),
        Column(
            name="baseline_broker_peak_to_mean",
            type="double",
            unit="ratio",
            doc="Largest over mean broker as recorded, by bytes of this topic.",
        ),
        *_ratio_range(
            "broker_peak_to_mean", "ratio", "The same under the candidate; over placements where leaders are open."
        ),
        *_ratio_range(
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
        *_range("moved_record_count", "records", "Keyed records that would lie elsewhere", of="bounds"),
        *_range("moved_size_bytes", "bytes", "Their bytes", of="bounds"),
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

REPLAY = (REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON, HASH_VERDICTS)
