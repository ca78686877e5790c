"""Gold: what people read."""

from __future__ import annotations

from pipeline.tables.table import BROKER_ID, CLUSTER, PARTITION, RUN_ID, TOPIC, TOPIC_ID, WINDOW_START, Column, Table

BROKER_SHARE = Table(
    name="gold.broker_share",
    grain="broker x window",
    key=("cluster", "window_start", "broker_id"),
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_START,
        BROKER_ID,
        Column(
            name="size_bytes",
            type="bigint",
            nullable=False,
            unit="bytes",
            doc="Bytes appended to the partitions the broker led, all topics.",
        ),
        Column(
            name="record_count", type="bigint", nullable=False, unit="records", doc="Data records appended to them."
        ),
        Column(name="batch_count", type="bigint", nullable=False, unit="batches", doc="Batches appended to them."),
        Column(
            name="leader_count",
            type="bigint",
            nullable=False,
            unit="partitions",
            doc="Partitions led at the window's end.",
        ),
        Column(
            name="capacity", type="double", nullable=False, doc="Capacity weight from the configuration; 1 by default."
        ),
        Column(name="share", type="double", unit="ratio", doc="Bytes over the cluster's bytes; NULL without traffic."),
        Column(
            name="expected_share",
            type="double",
            nullable=False,
            unit="ratio",
            doc="Capacity over the cluster's capacity.",
        ),
        Column(name="share_ratio", type="double", unit="ratio", doc="`share / expected_share`; NULL without traffic."),
        Column(
            name="chance_ratio",
            type="double",
            unit="ratio",
            doc="Share ratio that chance alone exceeds once in a thousand windows, batches being placed independently.",
        ),
        Column(
            name="chance_p_value",
            type="double",
            unit="probability",
            doc="Chance that independent placement gives this ratio or more, for this broker alone.",
        ),
        Column(
            name="effective_unit_count",
            type="double",
            unit="batches",
            doc="(Sum of batch bytes)^2 over the sum of squares, over `unit_inflation`: independent units behind the shares.",
        ),
        Column(
            name="leaders_term",
            type="double",
            unit="share",
            doc="Excess from leading more or fewer partitions than its capacity's part.",
        ),
        Column(
            name="topic_mix_term", type="double", unit="share", doc="Excess from leading partitions of busier topics."
        ),
        Column(
            name="partition_skew_term",
            type="double",
            unit="share",
            doc="Excess from its partitions being hotter than their topics' mean.",
        ),
        Column(
            name="heavy_keys_term",
            type="double",
            unit="share",
            doc="Part of `partition_skew_term` from keys that hold more than 1/P of their topic each: no hash can spread them.",
        ),
        Column(
            name="hash_luck_term",
            type="double",
            unit="share",
            doc="Part of `partition_skew_term` that chance gives when that many lighter keys are hashed.",
        ),
        Column(
            name="remainder_term",
            type="double",
            unit="share",
            doc="The rest of `partition_skew_term`: batching, a partitioner's defect, a slow broker's feedback. All of it where keys are not known.",
        ),
        Column(
            name="ratio_without_luck",
            type="double",
            unit="ratio",
            doc="`share_ratio` less what its lighter keys give it, where hashing so many keys gives that by chance; else `share_ratio`.",
        ),
        Column(
            name="unit_inflation",
            type="double",
            unit="batches",
            doc="Batches that are placed together as one unit, told from how shares scatter within the window; `effective_unit_count` is divided by it. NULL where batches were not read.",
        ),
        Column(
            name="peak_ratio",
            type="double",
            unit="ratio",
            doc="Largest load in a slot (a sixtieth of the window, 5 s at least) over its fair part of the mean slot.",
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
        Column(name="leader_id", type="bigint", nullable=False, doc="Leader at the window's end; -1 unknown."),
        Column(name="size_bytes", type="bigint", nullable=False, unit="bytes", doc="Bytes appended."),
        Column(name="record_count", type="bigint", nullable=False, unit="records", doc="Data records appended."),
        Column(name="batch_count", type="bigint", nullable=False, unit="batches", doc="Data batches appended."),
        Column(
            name="topic_share", type="double", unit="ratio", doc="Bytes over the topic's bytes; NULL without traffic."
        ),
        Column(name="ratio_to_mean", type="double", unit="ratio", doc="Bytes over the mean of the topic's partitions."),
        Column(
            name="topic_partition_count",
            type="bigint",
            nullable=False,
            unit="partitions",
            doc="Partitions of the topic.",
        ),
        Column(
            name="topic_peak_to_mean", type="double", unit="ratio", doc="Largest over mean of the topic's partitions."
        ),
        Column(
            name="topic_cv",
            type="double",
            unit="ratio",
            doc="Population standard deviation over mean of the topic's partitions.",
        ),
        Column(
            name="topic_effective_partitions",
            type="double",
            unit="partitions",
            doc="1 / sum of squared shares: as if that many partitions were used evenly.",
        ),
        Column(
            name="topic_chance_cv",
            type="double",
            unit="ratio",
            doc="CV that independent placement of the batches gives by chance: sqrt((P-1)/N_eff).",
        ),
        Column(
            name="excess_bytes",
            type="bigint",
            nullable=False,
            unit="bytes",
            doc="Bytes above the topic's mean per partition (negative: below).",
        ),
        Column(
            name="heavy_keys_bytes",
            type="double",
            unit="bytes",
            doc="Part of the excess from keys that hold more than 1/P of the topic each.",
        ),
        Column(
            name="hash_luck_bytes",
            type="double",
            unit="bytes",
            doc="Part of the excess that chance gives when that many lighter keys are hashed.",
        ),
        Column(
            name="remainder_bytes",
            type="double",
            unit="bytes",
            doc="The rest of the excess: batching, a partitioner's defect, a slow broker's feedback. All of it where keys are not known.",
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
        Column(
            name="client_id",
            type="string",
            nullable=False,
            doc="Producer's `client.id`, or `*` for all producers of the window.",
        ),
        BROKER_ID,
        Column(name="request_count", type="double", unit="requests", doc="Produce-connection requests in the window."),
        Column(
            name="request_latency_avg_ms",
            type="double",
            unit="ms",
            doc="`request-latency-avg`; for `*` weighted by requests.",
        ),
        Column(name="request_latency_max_ms", type="double", unit="ms", doc="Largest `request-latency-max`."),
        Column(
            name="ratio_to_peers",
            type="double",
            unit="ratio",
            doc="Mean latency over the median of the same client's other brokers.",
        ),
        Column(
            name="ratio_to_history",
            type="double",
            unit="ratio",
            doc="Mean latency over the median of the same pair's up to 24 windows before; NULL without three of them.",
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
        Column(name="rule", type="string", nullable=False, doc="Rule, such as `broker_share`."),
        Column(name="subject", type="string", nullable=False, doc="What was judged, such as `broker 1`."),
        Column(name="value", type="double", doc="The measure: for `broker_share` the share ratio."),
        Column(name="limit_value", type="double", nullable=False, doc="Limit the measure was held against."),
        Column(name="chance_value", type="double", doc="Value that chance alone reaches once in a thousand windows."),
        Column(
            name="is_above", type="boolean", nullable=False, doc="The window alone is above limit, floor and chance."
        ),
        Column(
            name="above_count",
            type="bigint",
            nullable=False,
            unit="windows",
            doc="Windows above among the last n, this one included.",
        ),
        Column(
            name="verdict",
            type="string",
            nullable=False,
            doc="`ok warn fail not_enough_traffic incomplete stale`; `fail` = above in k of n windows.",
        ),
        Column(name="reason", type="string", nullable=False, doc="Why, in words."),
        RUN_ID,
    ),
)

GOLD = (BROKER_SHARE, PARTITION_HEALTH, LATENCY, VERDICTS)
