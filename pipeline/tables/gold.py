"""Gold: what people read."""

from typing import get_args

from pipeline.model.verdict import VerdictKind
from pipeline.tables.table import BROKER_ID, PARTITION_COLUMNS, TOPIC_COLUMNS, Check, bigint, boolean, double, not_negative, string, windowed

BROKER_SHARE = windowed(
    "gold.broker_share", "broker x window", ("cluster", "window_start", "broker_id"),
    BROKER_ID,
    bigint("size_bytes", "Bytes appended to the partitions the broker led, all topics."),
    bigint("record_count", "Data records appended to them.", "records"),
    bigint("batch_count", "Batches appended to them.", "batches"),
    bigint("leader_count", "Partitions led at the window's end.", "partitions"),
    double("capacity", "Capacity weight from the configuration; 1 by default.", nullable=False),
    double("share", "Bytes over the cluster's bytes; NULL without traffic.", "ratio"),
    double("expected_share", "Its capacity over the cluster's, each for as long as the broker stood in the window; 0 where it was away throughout.", "ratio", nullable=False),
    double("share_ratio", "`share / expected_share`; NULL without traffic."),
    double("chance_ratio", "Share ratio that chance alone exceeds once in a thousand windows, batches being placed independently."),
    double("chance_p_value", "Chance that independent batches give one broker this ratio or more.", "probability"),
    double("effective_unit_count", "Independent units behind the shares: (sum of batch bytes)^2 over the sum of squares, over `unit_inflation`.", "batches"),
    double("leaders_term", "Excess from leading more or fewer partitions than its capacity's part.", "share"),
    double("topic_mix_term", "Excess from leading partitions of busier topics.", "share"),
    double("partition_skew_term", "Excess from its partitions being hotter than their topics' mean.", "share"),
    double("heavy_keys_term", "Part of `partition_skew_term` from keys above 1/P of their topic each: no hash can spread them.", "share"),
    double("hash_luck_term", "Part of `partition_skew_term` that chance gives when that many lighter keys are hashed.", "share"),
    double("remainder_term", "Rest of `partition_skew_term`: batching, a partitioner's defect, a slow broker's feedback; all of it where keys are unknown.", "share"),
    double("ratio_without_luck", "`share_ratio` less what its lighter keys add, where hashing so many keys gives that by chance; else `share_ratio`.", "ratio"),
    double("unit_inflation", "Batches that are placed together as one unit, estimated from how shares scatter within the window; `effective_unit_count` is divided by it. NULL where batches were not read.", "batches"),
    double("peak_ratio", "Largest load in a slot (window / 60, at least 5 s) over its fair part of the mean slot."),
    string("excess_topic", "Topic that adds most to its excess; `gate.topics` is looked up by it. NULL without traffic.", nullable=True),
    double("ratio_without_topic", "`share_ratio` less what `excess_topic` adds beyond its fair part: a higher limit of that topic holds if this is below the general one.", "ratio"),
    double("rack_aware_term", "Part of `remainder_term` from rack-aware producers (KIP-1123): what their zones' leaders get more, or less, than if all leaders got it; NULL where no session is known.", "share"),
    schema_version=5,
    checks=(
        Check("broker_id", least=-1),
        *not_negative("size_bytes", "record_count", "batch_count", "leader_count", "capacity", "share_ratio"),
        Check("share", least=0, most=1),
        Check("expected_share", least=0, most=1.000001),  # a sum of parts
    ),
)  # fmt: skip  # a table: short fields share a line

PARTITION_HEALTH = windowed(
    "gold.partition_health", "topic-partition x window", ("cluster", "window_start", "topic", "topic_id", "partition"),
    *PARTITION_COLUMNS,
    bigint("leader_id", "Leader at the window's end; -1 unknown."),
    bigint("size_bytes", "Bytes appended."),
    bigint("record_count", "Data records appended.", "records"),
    bigint("batch_count", "Data batches appended.", "batches"),
    double("topic_share", "Bytes over the topic's bytes; NULL without traffic.", "ratio"),
    double("ratio_to_mean", "Bytes over the mean of the topic's partitions.", "ratio"),
    bigint("topic_partition_count", "Partitions of the topic.", "partitions"),
    double("topic_peak_to_mean", "Largest over mean of the topic's partitions.", "ratio"),
    double("topic_cv", "Population standard deviation over mean of the topic's partitions.", "ratio"),
    double("topic_effective_partitions", "1 / sum of squared shares: partitions as if even.", "partitions"),
    double("topic_chance_cv", "CV that independent batches give by chance: sqrt((P-1)/N_eff).", "ratio"),
    bigint("excess_bytes", "Bytes above the topic's mean per partition (negative: below)."),
    double("heavy_keys_bytes", "Part of the excess from keys that hold more than 1/P of the topic each."),
    double("hash_luck_bytes", "Part of the excess chance gives, hashing lighter keys."),
    double("remainder_bytes", "Rest of the excess: batching, a partitioner's defect, a slow broker's feedback; all of it where keys are unknown."),
    schema_version=2,
    checks=(Check("leader_id", least=-1), *not_negative("partition", "size_bytes", "record_count", "batch_count", "topic_partition_count"), Check("topic_share", least=0, most=1)),
)  # fmt: skip  # a table: short fields share a line

LATENCY = windowed(
    "gold.latency", "producer client x broker x window; client `*` = all clients",
    ("cluster", "window_start", "client_id", "broker_id"),
    string("client_id", "Producer's `client.id`, or `*` for all producers of the window."),
    BROKER_ID,
    double("request_count", "Produce-connection requests in the window.", "requests"),
    double("request_latency_avg_ms", "`request-latency-avg`; for `*` weighted by requests."),
    double("request_latency_max_ms", "Largest `request-latency-max`."),
    double("ratio_to_peers", "Mean latency over the median of the same client's other brokers.", "ratio"),
    double("ratio_to_history", "Mean latency over the median of the pair's up to 24 windows before; NULL without three.", "ratio"),
)  # fmt: skip  # a table: short fields share a line

VERDICTS = windowed(
    "gold.verdicts", "rule x subject x window", ("cluster", "window_start", "rule", "subject"),
    string("rule", "Rule, such as `broker_share`."),
    string("subject", "What was judged, such as `broker 1`."),
    double("value", "The measure: for `broker_share` the share ratio."),
    double("limit_value", "Limit that the measure was compared with.", nullable=False),
    double("chance_value", "Value that chance alone reaches once in a thousand windows."),
    boolean("is_above", "The window alone is above limit, floor and chance."),
    bigint("above_count", "Windows above among the last n, this one included.", "windows"),
    string("verdict", "`ok warn fail not_enough_traffic incomplete stale`; `fail` = above in k of n windows (and their mean)."),
    string("reason", "Why, in words."),
    string("judged_from", "Digest of the window's ingest, whether it was replayed, and the configuration: while it is the same, a run does not judge the window again.", nullable=True, volatile=True),
    schema_version=2, has_change_feed=True, checks=(Check("verdict", one_of=get_args(VerdictKind)), *not_negative("above_count")),
)  # fmt: skip  # a table: short fields share a line

GOLD = (BROKER_SHARE, PARTITION_HEALTH, LATENCY, VERDICTS)
ZONE_TRAFFIC = windowed(
    "gold.zone_traffic", "topic x kind x zones x window; no rows where no broker has a rack",
    ("cluster", "window_start", "topic", "topic_id", "kind", "from_zone", "to_zone", "zone_source"),
    *TOPIC_COLUMNS,
    string("kind", "`produce` to leaders, `replication` from leaders to followers, `fetch` by consumer groups whose members' zones are configured."),
    string("from_zone", "Zone the bytes leave; '' where it is not known."),
    string("to_zone", "Zone they go to; '' where it is not known."),
    string("zone_source", "How the client's zone is known: `client` (it says its `client.rack`), `configured` (`zones.clients`), `rack_aware` (its records keep to one rack), `assumed` (producers spread over zones by `zones.weights`, else evenly), `unknown`; of replication `brokers`."),
    bigint("size_bytes", "Bytes of batches as in the log; each replica, and each group, gets each byte once."),
    boolean("is_between_zones", "The two zones differ; NULL where one is not known.", nullable=True),
    double("cost", "Of bytes between zones, by `zones.price_per_gb` for 10^9 bytes; NULL without a price or a zone.", "currency"),
    double("cost_per_month", "The same for 730 hours like this window.", "currency"),
)  # fmt: skip  # a table: short fields share a line
