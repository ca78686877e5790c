"""Gold tables of topics, their hot keys, and what to do about a hot broker."""

from __future__ import annotations

from pipeline.tables.table import CLUSTER, PARTITION, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table


def _count(name: str, unit: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name=name, type="bigint", nullable=nullable, unit=unit, doc=doc)


def _ratio(name: str, doc: str, unit: str = "ratio") -> Column:
    return Column(name=name, type="double", unit=unit, doc=doc)


TOPIC_HEALTH = Table(
    name="gold.topic_health",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        _count("partition_count", "partitions", "Partitions."),
        _count("size_bytes", "bytes", "Bytes appended."),
        _count("record_count", "records", "Data records appended."),
        _count("batch_count", "batches", "Data batches appended."),
        _ratio("peak_to_mean", "Largest over mean partition, by bytes; NULL without traffic."),
        _ratio("cv", "Population standard deviation over mean of the partitions' bytes."),
        _ratio("effective_partitions", "As if that many partitions were used evenly.", "partitions"),
        Column(
            name="placement",
            type="string",
            nullable=False,
            doc="What is placed independently: `keys` where most bytes have a key, else `batches`.",
        ),
        _ratio("unit_count", "Effective number of such units, `(sum w)^2 / sum w^2`.", "units"),
        _ratio("required_unit_count", "Units it takes to tell a peak at the limit from chance.", "units"),
        _ratio("record_chance_cv", "CV that placing every record at random gives: sqrt((P-1)/N_eff)."),
        _ratio("batch_chance_cv", "The same for batches."),
        _ratio("key_chance_cv", "The same for keys; NULL where they are not known."),
        _ratio("chance_peak_to_mean", "Peak-to-mean that chance exceeds once in a thousand windows, by `placement`."),
        _ratio("peak_p_value", "Chance that independent placement gives this peak or more.", "probability"),
        Column(
            name="chance_method",
            type="string",
            nullable=False,
            doc="`normal`, or `bootstrap` (1,000 placements, seeded by the window) for many partitions or heavy tails.",
        ),
        _ratio("keyed_ratio", "Part of the bytes whose key has a name."),
        _count("key_count", "keys", "Distinct keys that have a name; NULL where keys were not read.", nullable=True),
        _ratio("effective_key_count", "As if that many keys had equal bytes.", "keys"),
        _count("heavy_key_count", "keys", "Keys that hold more than 1/P of the topic's bytes.", nullable=True),
        _ratio("top_key_ratio", "Part of the topic's bytes of its heaviest key."),
        _ratio("top_10_keys_ratio", "Part of its ten heaviest keys, those below 1/10,000 left out."),
        _ratio("best_peak_to_mean", "Smallest peak-to-mean any hash of these keys can reach: max(1, P * top key)."),
        _count("consumer_count", "members", "Members of its largest consumer group that own a partition; 0 for none."),
        _count("under_replicated_count", "partitions", "Partitions with fewer in-sync replicas than replicas."),
        _count(
            "below_min_isr_count",
            "partitions",
            "Partitions with fewer in-sync replicas than `min.insync.replicas`: producers with `acks=all` are refused.",
        ),
        _count(
            "lagging_replica_count",
            "replicas",
            "Followers out of the in-sync set: behind for longer than `replica.lag.time.max.ms`, or gone.",
        ),
        _count("leaderless_count", "partitions", "Partitions without a leader."),
        _count("reassigning_count", "partitions", "Partitions a reassignment is moving."),
        _count("not_preferred_count", "partitions", "Partitions led by another replica than the preferred one."),
        Column(
            name="replica_size_spread",
            type="double",
            unit="ratio",
            doc="Largest over smallest replica of a partition when they were read, the widest of the topic.",
            volatile=True,
        ),
        _count(
            "advised_partition_count",
            "partitions",
            "Next count that brokers and consumers divide evenly; NULL where the present one does.",
            nullable=True,
        ),
        Column(name="advice", type="string", nullable=False, doc="Why, in words; '' for none."),
        RUN_ID,
    ),
)

HOT_KEYS = Table(
    name="gold.hot_keys",
    grain="topic x window x rank, the ten heaviest keys",
    key=("cluster", "window_start", "topic", "topic_id", "rank"),
    columns=(
        CLUSTER,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        _count("rank", "", "1 for the heaviest key."),
        Column(name="key", type="string", nullable=False, doc="First 8 hex digits of the key's id: a pseudonym."),
        PARTITION,
        _count("record_count", "records", "Its records."),
        _count("size_bytes", "bytes", "Its bytes as encoded, before compression."),
        Column(name="topic_ratio", type="double", nullable=False, unit="ratio", doc="Part of the topic's bytes."),
        Column(name="is_heavy", type="boolean", nullable=False, doc="More than 1/P: no hash can spread it."),
        RUN_ID,
    ),
)

RECOMMENDATIONS = Table(
    name="gold.recommendations",
    grain="broker above its share x window x action, best first",
    key=("cluster", "window_start", "subject", "rank"),
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_START,
        Column(name="subject", type="string", nullable=False, doc="What it is for, such as `broker 1`."),
        _count("rank", "", "1 for what to do first: cheap before dear, what helps before what does not."),
        Column(
            name="action",
            type="string",
            nullable=False,
            doc="`elect_preferred`, `move_leaders`, `move_replicas`, or `replay:<candidate>`.",
        ),
        Column(name="title", type="string", nullable=False, doc="The action in a few words."),
        Column(name="text", type="string", nullable=False, doc="What it does, what it costs and what it leaves."),
        Column(name="topic", type="string", nullable=False, doc="Topic it is about; '' for several."),
        _ratio("share_ratio", "Share ratio of the broker in the window."),
        _ratio("predicted_ratio", "Share ratio of the broker after the action, on the window's traffic."),
        _ratio("predicted_ratio_low", "Lower end of the prediction; equal to it where nothing is drawn."),
        _ratio("predicted_ratio_high", "Upper end of the prediction."),
        _ratio("predicted_peak_ratio", "Largest share ratio of any broker after the action."),
        _count("moved_bytes", "bytes", "Bytes of replicas copied between brokers."),
        _count("moved_partition_count", "partitions", "Partitions whose leader or replicas change."),
        Column(
            name="is_enough", type="boolean", nullable=False, doc="The broker would be below where incidents resolve."
        ),
        Column(
            name="reassignment_json",
            type="string",
            doc="For `kafka-reassign-partitions --reassignment-json-file F --execute`; NULL where nothing is reassigned.",
        ),
        Column(
            name="election_json",
            type="string",
            doc="For `kafka-leader-election --election-type preferred --path-to-json-file F`, after it.",
        ),
        Column(
            name="rollback_json", type="string", doc="The assignment as it was, in the format of `reassignment_json`."
        ),
        Column(
            name="config_diff",
            type="string",
            doc="What changes in the producers' configuration, as a unified diff; NULL where no setting does.",
        ),
        RUN_ID,
    ),
)

RULE_MEASURES = Table(
    name="gold.rule_measures",
    grain="rule x subject x window: what a rule judges",
    key=("cluster", "window_start", "rule", "subject"),
    columns=(
        CLUSTER,
        WINDOW_START,
        Column(
            name="rule", type="string", nullable=False, doc="Rule of the configuration, such as `under_replicated`."
        ),
        Column(name="subject", type="string", nullable=False, doc="What it is about, such as `topic orders`."),
        Column(name="topic", type="string", nullable=False, doc="The topic it is about; '' for none."),
        _ratio("value", "The measure, in the unit of its rule.", ""),
        _ratio("p_value", "Chance of such a value with nothing wrong; NULL where chance plays no part.", "probability"),
        Column(name="is_enough", type="boolean", nullable=False, doc="There was enough traffic to judge."),
        Column(name="detail", type="string", nullable=False, doc="What it says, in words."),
        RUN_ID,
    ),
)

HEALTH = (TOPIC_HEALTH, HOT_KEYS, RULE_MEASURES, RECOMMENDATIONS)
