"""Gold tables of topics, their hot keys, and what to do about a hot broker."""

from __future__ import annotations

from pipeline.tables.columns import flag, number, text, whole
from pipeline.tables.table import CLUSTER, PARTITION, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table

TOPIC_HEALTH = Table(
    name="gold.topic_health",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        whole("partition_count", "Partitions.", "partitions"),
        whole("size_bytes", "Bytes appended.", "bytes"),
        whole("record_count", "Data records appended.", "records"),
        whole("batch_count", "Data batches appended.", "batches"),
        number("peak_to_mean", "Largest over mean partition, by bytes; NULL without traffic.", "ratio"),
        number("cv", "Population standard deviation over mean of the partitions' bytes.", "ratio"),
        number("effective_partitions", "As if that many partitions were used evenly.", "partitions"),
        text("placement", "What is placed independently: `keys` where most bytes have a key, else `batches`."),
        number("unit_count", "Effective number of such units, `(sum w)^2 / sum w^2`.", "units"),
        number("required_unit_count", "Units it takes to tell a peak at the limit from chance.", "units"),
        number("record_chance_cv", "CV that placing every record at random gives: sqrt((P-1)/N_eff).", "ratio"),
        number("batch_chance_cv", "The same for batches.", "ratio"),
        number("key_chance_cv", "The same for keys; NULL where they are not known.", "ratio"),
        number(
            "chance_peak_to_mean",
            "Peak-to-mean that chance exceeds once in a thousand windows, by `placement`.",
            "ratio",
        ),
        number("peak_p_value", "Chance that independent placement gives this peak or more.", "probability"),
        text(
            "chance_method",
            "`normal`, or `bootstrap` (1,000 placements, seeded by the window) for many partitions or heavy tails.",
        ),
        number("keyed_ratio", "Part of the bytes whose key has a name.", "ratio"),
        whole("key_count", "Distinct keys that have a name; NULL where keys were not read.", "keys", nullable=True),
        number("effective_key_count", "As if that many keys had equal bytes.", "keys"),
        whole("heavy_key_count", "Keys that hold more than 1/P of the topic's bytes.", "keys", nullable=True),
        number("top_key_ratio", "Part of the topic's bytes of its heaviest key.", "ratio"),
        number("top_10_keys_ratio", "Part of its ten heaviest keys, those below 1/10,000 left out.", "ratio"),
        number(
            "best_peak_to_mean", "Smallest peak-to-mean any hash of these keys can reach: max(1, P * top key).", "ratio"
        ),
        whole("consumer_count", "Members of its largest consumer group that own a partition; 0 for none.", "members"),
        whole("under_replicated_count", "Partitions with fewer in-sync replicas than replicas.", "partitions"),
        whole(
            "below_min_isr_count",
            "Partitions with fewer in-sync replicas than `min.insync.replicas`: producers with `acks=all` are refused.",
            "partitions",
        ),
        whole(
            "lagging_replica_count",
            "Followers out of the in-sync set: behind for longer than `replica.lag.time.max.ms`, or gone.",
            "replicas",
        ),
        whole("leaderless_count", "Partitions without a leader.", "partitions"),
        whole("reassigning_count", "Partitions a reassignment is moving.", "partitions"),
        whole("not_preferred_count", "Partitions led by another replica than the preferred one.", "partitions"),
        number(
            "replica_size_spread",
            "Largest over smallest replica of a partition when they were read, the widest of the topic.",
            "ratio",
            volatile=True,
        ),
        whole(
            "advised_partition_count",
            "Next count that brokers and consumers divide evenly; NULL where the present one does.",
            "partitions",
            nullable=True,
        ),
        text("advice", "Why, in words; '' for none."),
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
        whole("rank", "1 for the heaviest key."),
        text("key", "First 8 hex digits of the key's id: a pseudonym."),
        PARTITION,
        whole("record_count", "Its records.", "records"),
        whole("size_bytes", "Its bytes as encoded, before compression.", "bytes"),
        number("topic_ratio", "Part of the topic's bytes.", "ratio", nullable=False),
        flag("is_heavy", "More than 1/P: no hash can spread it."),
        RUN_ID,
    ),
)

RECOMMENDATIONS = Table(
    name="gold.recommendations",
    grain="broker above its share x window x action, best first",
    key=("cluster", "window_start", "subject", "rank"),
    schema_version=3,
    columns=(
        CLUSTER,
        WINDOW_START,
        text("subject", "What it is for, such as `broker 1`."),
        whole("rank", "1 for what to do first: cheap before dear, what helps before what does not."),
        text("action", "`elect_preferred`, `move_leaders`, `move_replicas`, `replay:<candidate>`, or `rekey`."),
        text("title", "The action in a few words."),
        text("text", "What it does, what it costs and what it leaves."),
        text("topic", "Topic it is about; '' for several."),
        number("share_ratio", "Share ratio of the broker in the window.", "ratio"),
        number("predicted_ratio", "Share ratio of the broker after the action, on the window's traffic.", "ratio"),
        number("predicted_ratio_low", "Lower end of the prediction; equal to it where nothing is drawn.", "ratio"),
        number("predicted_ratio_high", "Upper end of the prediction.", "ratio"),
        number("predicted_peak_ratio", "Largest share ratio of any broker after the action.", "ratio"),
        whole("moved_bytes", "Bytes of replicas copied between brokers.", "bytes"),
        whole("moved_partition_count", "Partitions whose leader or replicas change.", "partitions"),
        flag("is_enough", "The broker would be below where incidents resolve."),
        text(
            "reassignment_json",
            "For `kafka-reassign-partitions --reassignment-json-file F --execute`; NULL where nothing is reassigned.",
            nullable=True,
        ),
        text(
            "election_json",
            "For `kafka-leader-election --election-type preferred --path-to-json-file F`, after it.",
            nullable=True,
        ),
        text("rollback_json", "The assignment as it was, in the format of `reassignment_json`.", nullable=True),
        text(
            "config_diff",
            "What changes in the producers' configuration, as a unified diff; NULL where no setting does.",
            nullable=True,
        ),
        Column(
            name="broker_ratios",
            type="map<string,double>",
            unit="ratio",
            doc="Share ratio of every broker after the action, by broker id.",
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
        text("rule", "Rule of the configuration, such as `under_replicated`."),
        text("subject", "What it is about, such as `topic orders`."),
        text("topic", "The topic it is about; '' for none."),
        number("value", "The measure, in the unit of its rule."),
        number("p_value", "Chance of such a value with nothing wrong; NULL where chance plays no part.", "probability"),
        flag("is_enough", "There was enough traffic to judge."),
        text("detail", "What it says, in words."),
        RUN_ID,
    ),
)

HEALTH = (TOPIC_HEALTH, HOT_KEYS, RULE_MEASURES, RECOMMENDATIONS)
