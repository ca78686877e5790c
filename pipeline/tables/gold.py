"""Gold: what people read."""

from __future__ import annotations

from pipeline.tables.columns import flag, number, text, whole
from pipeline.tables.table import BROKER_ID, CLUSTER, PARTITION, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Table

BROKER_SHARE = Table(
    name="gold.broker_share",
    grain="broker x window",
    key=("cluster", "window_start", "broker_id"),
    schema_version=3,
    columns=(
        CLUSTER,
        WINDOW_START,
        BROKER_ID,
        whole("size_bytes", "Bytes appended to the partitions the broker led, all topics.", "bytes"),
        whole("record_count", "Data records appended to them.", "records"),
        whole("batch_count", "Batches appended to them.", "batches"),
        whole("leader_count", "Partitions led at the window's end.", "partitions"),
        number("capacity", "Capacity weight from the configuration; 1 by default.", nullable=False),
        number("share", "Bytes over the cluster's bytes; NULL without traffic.", "ratio"),
        number("expected_share", "Capacity over the cluster's capacity.", "ratio", nullable=False),
        number("share_ratio", "`share / expected_share`; NULL without traffic.", "ratio"),
        number(
            "chance_ratio",
            "Share ratio that chance alone exceeds once in a thousand windows, batches being placed independently.",
            "ratio",
        ),
        number(
            "chance_p_value",
            "Chance that independent placement gives this ratio or more, for this broker alone.",
            "probability",
        ),
        number(
            "effective_unit_count",
            "(Sum of batch bytes)^2 over the sum of squares, over `unit_inflation`: independent units behind the shares.",
            "batches",
        ),
        number("leaders_term", "Excess from leading more or fewer partitions than its capacity's part.", "share"),
        number("topic_mix_term", "Excess from leading partitions of busier topics.", "share"),
        number("partition_skew_term", "Excess from its partitions being hotter than their topics' mean.", "share"),
        number(
            "heavy_keys_term",
            "Part of `partition_skew_term` from keys that hold more than 1/P of their topic each: no hash can spread them.",
            "share",
        ),
        number(
            "hash_luck_term",
            "Part of `partition_skew_term` that chance gives when that many lighter keys are hashed.",
            "share",
        ),
        number(
            "remainder_term",
            "The rest of `partition_skew_term`: batching, a partitioner's defect, a slow broker's feedback. All of it where keys are not known.",
            "share",
        ),
        number(
            "ratio_without_luck",
            "`share_ratio` less what its lighter keys give it, where hashing so many keys gives that by chance; else `share_ratio`.",
            "ratio",
        ),
        number(
            "unit_inflation",
            "Batches that are placed together as one unit, estimated from how shares scatter within the window; `effective_unit_count` is divided by it. NULL where batches were not read.",
            "batches",
        ),
        number(
            "peak_ratio",
            "Largest load in a slot (a sixtieth of the window, 5 s at least) over its fair part of the mean slot.",
            "ratio",
        ),
        text(
            "excess_topic",
            "Topic that adds most to the broker's excess; `gate.topics` is looked up by it. NULL without traffic.",
            nullable=True,
        ),
        RUN_ID,
    ),
)

PARTITION_HEALTH = Table(
    name="gold.partition_health",
    grain="topic-partition x window",
    key=("cluster", "window_start", "topic", "topic_id", "partition"),
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        whole("leader_id", "Leader at the window's end; -1 unknown."),
        whole("size_bytes", "Bytes appended.", "bytes"),
        whole("record_count", "Data records appended.", "records"),
        whole("batch_count", "Data batches appended.", "batches"),
        number("topic_share", "Bytes over the topic's bytes; NULL without traffic.", "ratio"),
        number("ratio_to_mean", "Bytes over the mean of the topic's partitions.", "ratio"),
        whole("topic_partition_count", "Partitions of the topic.", "partitions"),
        number("topic_peak_to_mean", "Largest over mean of the topic's partitions.", "ratio"),
        number("topic_cv", "Population standard deviation over mean of the topic's partitions.", "ratio"),
        number(
            "topic_effective_partitions",
            "1 / sum of squared shares: as if that many partitions were used evenly.",
            "partitions",
        ),
        number(
            "topic_chance_cv",
            "CV that independent placement of the batches gives by chance: sqrt((P-1)/N_eff).",
            "ratio",
        ),
        whole("excess_bytes", "Bytes above the topic's mean per partition (negative: below).", "bytes"),
        number("heavy_keys_bytes", "Part of the excess from keys that hold more than 1/P of the topic each.", "bytes"),
        number(
            "hash_luck_bytes", "Part of the excess that chance gives when that many lighter keys are hashed.", "bytes"
        ),
        number(
            "remainder_bytes",
            "The rest of the excess: batching, a partitioner's defect, a slow broker's feedback. All of it where keys are not known.",
            "bytes",
        ),
        RUN_ID,
    ),
)

LATENCY = Table(
    name="gold.latency",
    grain="producer client x broker x window; client `*` = all clients",
    key=("cluster", "window_start", "client_id", "broker_id"),
    columns=(
        CLUSTER,
        WINDOW_START,
        text("client_id", "Producer's `client.id`, or `*` for all producers of the window."),
        BROKER_ID,
        number("request_count", "Produce-connection requests in the window.", "requests"),
        number("request_latency_avg_ms", "`request-latency-avg`; for `*` weighted by requests.", "ms"),
        number("request_latency_max_ms", "Largest `request-latency-max`.", "ms"),
        number("ratio_to_peers", "Mean latency over the median of the same client's other brokers.", "ratio"),
        number(
            "ratio_to_history",
            "Mean latency over the median of the same pair's up to 24 windows before; NULL without three of them.",
            "ratio",
        ),
        RUN_ID,
    ),
)

VERDICTS = Table(
    name="gold.verdicts",
    grain="rule x subject x window",
    key=("cluster", "window_start", "rule", "subject"),
    columns=(
        CLUSTER,
        WINDOW_START,
        text("rule", "Rule, such as `broker_share`."),
        text("subject", "What was judged, such as `broker 1`."),
        number("value", "The measure: for `broker_share` the share ratio."),
        number("limit_value", "Limit the measure was held against.", nullable=False),
        number("chance_value", "Value that chance alone reaches once in a thousand windows."),
        flag("is_above", "The window alone is above limit, floor and chance."),
        whole("above_count", "Windows above among the last n, this one included.", "windows"),
        text("verdict", "`ok warn fail not_enough_traffic incomplete stale`; `fail` = above in k of n windows."),
        text("reason", "Why, in words."),
        RUN_ID,
    ),
)

GOLD = (BROKER_SHARE, PARTITION_HEALTH, LATENCY, VERDICTS)
