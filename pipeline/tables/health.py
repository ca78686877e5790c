"""Gold tables of topics, their hot keys, and what to do about a hot broker."""

from __future__ import annotations

from pipeline.tables.columns import bigint, boolean, double, string, timestamp
from pipeline.tables.table import PARTITION, RUN_ID, TOPIC, TOPIC_COLUMNS, WINDOW, Column, Table

TOPIC_HEALTH = Table(
    name="gold.topic_health",
    grain="topic x window",
    key=("cluster", "window_start", "topic", "topic_id"),
    columns=(
        *WINDOW,
        *TOPIC_COLUMNS,
        bigint("partition_count", "Partitions.", "partitions"),
        bigint("size_bytes", "Bytes appended."),
        bigint("record_count", "Data records appended.", "records"),
        bigint("batch_count", "Data batches appended.", "batches"),
        double("peak_to_mean", "Largest over mean partition, by bytes; NULL without traffic.", "ratio"),
        double("cv", "Population standard deviation over mean of the partitions' bytes.", "ratio"),
        double("effective_partitions", "As if that many partitions were used evenly.", "partitions"),
        string("placement", "What is placed independently: `keys` where most bytes have a key, else `batches`."),
        double("unit_count", "Effective number of such units, `(sum w)^2 / sum w^2`.", "units"),
        double("required_unit_count", "Units it takes to distinguish a peak at the limit from chance.", "units"),
        double("record_chance_cv", "CV that placing every record at random gives: sqrt((P-1)/N_eff).", "ratio"),
        double("batch_chance_cv", "The same for batches.", "ratio"),
        double("key_chance_cv", "The same for keys; NULL where they are not known.", "ratio"),
        double("chance_peak_to_mean", "Peak-to-mean chance exceeds once in 1,000 windows, by `placement`.", "ratio"),
        double("peak_p_value", "Chance that independent placement gives this peak or more.", "probability"),
        string("chance_method", "`normal`; `bootstrap` (1,000 placements, seeded) for many partitions, heavy tails."),
        double("keyed_ratio", "Part of the bytes whose key has an id."),
        bigint("key_count", "Distinct keys that have an id; NULL where keys were not read.", "keys", nullable=True),
        double("effective_key_count", "As if that many keys had equal bytes.", "keys"),
        bigint("heavy_key_count", "Keys that hold more than 1/P of the topic's bytes.", "keys", nullable=True),
        double("top_key_ratio", "Part of the topic's bytes of its heaviest key."),
        double("top_10_keys_ratio", "Part of its ten heaviest keys, those below 1/10,000 left out."),
        double("best_peak_to_mean", "Smallest peak-to-mean of any hash of these keys: max(1, P * top key).", "ratio"),
        bigint("consumer_count", "Members of its largest consumer group that own a partition; 0 for none.", "members"),
        bigint("under_replicated_count", "Partitions with fewer in-sync replicas than replicas.", "partitions"),
        bigint("below_min_isr_count", "Partitions below `min.insync.replicas`: `acks=all` is refused.", "partitions"),
        bigint("lagging_replica_count", "Followers behind over `replica.lag.time.max.ms`, or gone.", "replicas"),
        bigint("leaderless_count", "Partitions without a leader.", "partitions"),
        bigint("reassigning_count", "Partitions a reassignment is moving.", "partitions"),
        bigint("not_preferred_count", "Partitions led by another replica than the preferred one.", "partitions"),
        double(
            "replica_size_spread",
            "Largest over smallest replica of a partition when read, the widest of the topic.",
            "ratio",
            volatile=True,
        ),
        bigint(
            "advised_partition_count",
            "Next count that brokers and consumers divide evenly; NULL where the present one does.",
            "partitions",
            nullable=True,
        ),
        string("advice", "Why, in words; '' for none."),
        RUN_ID,
    ),
)

GROUP_BALANCE = Table(
    name="gold.group_balance",
    grain="consumer group x topic x window",
    key=("cluster", "window_start", "group_id", "topic"),
    columns=(
        *WINDOW,
        string("group_id", "Consumer group."),
        TOPIC,
        bigint("partition_count", "Partitions of the topic.", "partitions"),
        bigint("member_count", "Members that own some of them.", "members"),
        bigint(
            "idle_member_count",
            "Members that own none of them, but some of the group's other topics; others are not described.",
            "members",
        ),
        bigint(
            "lag_count", "Lag of all partitions when last described; NULL where not known.", "offsets", nullable=True
        ),
        Column(
            "lag_growth",
            "map<string,double>",
            "Growth of lag by partition, since the window before was described, else since this window's first description.",
            "offsets/s",
        ),
        double("busiest_ratio", "Part of the topic's bytes that the busiest member reads; NULL without traffic."),
        Column(
            "busiest_ratio_under",
            "map<string,double>",
            "The same had the group been assigned anew: `range roundrobin sticky cooperative-sticky uniform`; `range` is "
            "the brokers' as well.",
        ),
        bigint(
            "useful_member_count",
            "Members beyond which the busiest one reads no less: bytes over those of the largest partition, rounded up.",
            "members",
            nullable=True,
        ),
        RUN_ID,
    ),
)

HOT_KEYS = Table(
    name="gold.hot_keys",
    grain="topic x window x rank, the ten heaviest keys",
    key=("cluster", "window_start", "topic", "topic_id", "rank"),
    columns=(
        *WINDOW,
        *TOPIC_COLUMNS,
        bigint("rank", "1 for the heaviest key."),
        string("key", "First 8 hex digits of the key's id: a pseudonym."),
        PARTITION,
        bigint("record_count", "Its records.", "records"),
        bigint("size_bytes", "Its bytes as encoded, before compression."),
        double("topic_ratio", "Part of the topic's bytes.", nullable=False),
        boolean("is_heavy", "More than 1/P: no hash can spread it."),
        RUN_ID,
    ),
)

RECOMMENDATIONS = Table(
    name="gold.recommendations",
    grain="broker above its share x window x action, best first",
    key=("cluster", "window_start", "subject", "rank"),
    schema_version=4,
    columns=(
        *WINDOW,
        string("subject", "What it is for, such as `broker 1`."),
        bigint("rank", "1 for what to do first: cheap before dear, what helps before what does not."),
        string(
            "action",
            "`elect_preferred`, `move_leaders`, `move_replicas`, `replay:<candidate>`, `rekey`, or `check_broker`.",
        ),
        string("title", "The action in a few words."),
        string("text", "What it does, what it costs and what it leaves."),
        string("topic", "Topic it is about; '' for several."),
        double("share_ratio", "Share ratio of the broker in the window."),
        double(
            "predicted_ratio",
            "Share ratio of the broker after the action, on the window's traffic; NULL where nobody knows.",
        ),
        double("predicted_ratio_low", "Lower end of the prediction; equal to it where nothing is drawn.", "ratio"),
        double("predicted_ratio_high", "Upper end of the prediction.", "ratio"),
        double("predicted_peak_ratio", "Largest share ratio of any broker after the action."),
        bigint("moved_bytes", "Bytes of replicas copied between brokers."),
        bigint("moved_partition_count", "Partitions whose leader or replicas change.", "partitions"),
        boolean("is_enough", "The broker would be below where incidents resolve."),
        string(
            "reassignment_json",
            "For `kafka-reassign-partitions --reassignment-json-file F --execute`; NULL where nothing is reassigned.",
            nullable=True,
        ),
        string(
            "election_json",
            "For `kafka-leader-election --election-type preferred --path-to-json-file F`, after it.",
            nullable=True,
        ),
        string("rollback_json", "The assignment as it was, in the format of `reassignment_json`.", nullable=True),
        string("config_diff", "Diff of producers' configuration; NULL where none changes.", nullable=True),
        Column("broker_ratios", "map<string,double>", "Share ratio by broker, after the action.", "ratio"),
        RUN_ID,
    ),
)

PROMISES = Table(
    name="gold.promises",
    grain="advice of an earlier window x window that judges what became of it",
    key=("cluster", "window_start", "promised_at", "subject", "action", "topic"),
    schema_version=2,
    columns=(
        *WINDOW,
        timestamp("promised_at", "Window whose traffic the advice was for: its rows of `gold.recommendations`."),
        string("subject", "What it is for, such as `broker 1`."),
        string("action", "Kind of advice, as in `gold.recommendations`."),
        string("topic", "Topic it is about; '' for several."),
        bigint("rank", "Its rank among the advice of its window."),
        string("title", "The action in a few words."),
        string("trust", "Of the prediction: `trusted`, or why not; NULL where nothing was replayed.", nullable=True),
        double("expected_share", "Fair share of the broker when it was promised.", "ratio"),
        double("share_ratio", "Share ratio of the broker when it was promised."),
        double("predicted_ratio", "Share ratio promised, on the traffic of then; NULL where none was."),
        double("predicted_ratio_low", "Lower end of the promise.", "ratio"),
        double("predicted_ratio_high", "Upper end of the promise.", "ratio"),
        double("predicted_records_per_batch", "Records per batch promised, of the topic.", "records"),
        double("predicted_latency_p99_ms", "Latency promised that 99 % of the topic's records stay within."),
        double("carried_out_ratio", "Part of it that is done at the window's end; NULL where nothing shows it."),
        timestamp("carried_out_at", "First window at whose end all of it was done; NULL for none.", nullable=True),
        double("without_ratio", "Share ratio on this window's traffic, had nothing been done."),
        double("corrected_ratio", "The promise on this window's traffic: other topics, and volumes, as they are now."),
        double("corrected_ratio_low", "Lower end of `corrected_ratio`.", "ratio"),
        double("corrected_ratio_high", "Upper end of `corrected_ratio`.", "ratio"),
        double("actual_ratio", "Share ratio of the broker in this window; NULL without traffic."),
        double("error_points", "Actual share less the corrected promise.", "percentage points"),
        double(
            "bar_points", "What it may be off beyond its range: 1.5, or a tenth of the fair share if less.", "points"
        ),
        double("actual_records_per_batch", "Records per batch of the topic in this window.", "records"),
        double("actual_latency_avg_ms", "Mean latency in this window; clients' metrics have no quantile."),
        string("outcome", "`kept`, `broken`, `not_carried_out`, or `unknown`."),
        string("reason", "Why, in words."),
        bigint("kept_count", "Promises of this kind of advice kept so far, each as most windows say.", "promises"),
        bigint(
            "broken_count", "Those broken so far; more than the kept, and two or more, cost it its rank.", "promises"
        ),
        Column(
            "is_mailed", "boolean", "The advice had left in a message when the window was judged; NULL in older rows."
        ),
        RUN_ID,
    ),
)

RULE_MEASURES = Table(
    name="gold.rule_measures",
    grain="rule x subject x window: what a rule judges",
    key=("cluster", "window_start", "rule", "subject"),
    columns=(
        *WINDOW,
        string("rule", "Rule of the configuration, such as `under_replicated`."),
        string("subject", "What it is about, such as `topic orders`."),
        string("topic", "The topic it is about; '' for none."),
        double("value", "The measure, in the unit of its rule."),
        double("p_value", "Chance of such a value with nothing wrong; NULL where chance plays no part.", "probability"),
        boolean("is_enough", "There was enough traffic to judge."),
        string("detail", "What it says, in words."),
        RUN_ID,
    ),
)

FORECAST = Table(
    name="gold.forecast",
    grain="broker, topic or disk x measure x each of the next seven days, made at the end of a window, once an hour at most",
    key=("cluster", "window_start", "subject", "measure", "horizon_hours"),
    columns=(
        *WINDOW,
        string("subject", "What it is about: `broker 1`, `topic orders`, or `disk /data of broker 1`."),
        string("measure", "`share_ratio`, `bytes_per_s` (appended) or `used_bytes` (on disk)."),
        bigint("horizon_hours", "Hours from the window's end to the end of the day ahead: 24, 48 to 168.", "hours"),
        timestamp(
            "highest_at", "Start of the hour of that day with the highest forecast; NULL without one.", nullable=True
        ),
        double("value", "Forecast for that hour; NULL with too little history.", "that of `measure`"),
        double("value_low", "Lower end of its range: nine of ten hours are to be inside.", "that of `measure`"),
        double("value_high", "Upper end of its range.", "that of `measure`"),
        double("mean_value", "Mean forecast of the day's hours.", "that of `measure`"),
        string("season", "`week` or `day`: the median over the same hour of earlier ones; '' without a forecast."),
        double("back_test_coverage_ratio", "Part of the history that ranges made from another part of it held."),
        double(
            "back_test_error_ratio",
            "Root mean squared error over that of the mean of a week (of a disk: of no growth).",
        ),
        double("back_test_days", "Days of the history that were forecast from earlier ones.", "days"),
        boolean("is_trusted", "The back-test is good enough to warn by: 0.8 or more, 0.8 or less, 7 days or more."),
        string("reason", "Why not, in words; '' where it is."),
        RUN_ID,
    ),
)

HEALTH = (TOPIC_HEALTH, GROUP_BALANCE, HOT_KEYS, RULE_MEASURES, RECOMMENDATIONS, PROMISES, FORECAST)
