"""The numbers that sources may give, by the columns that hold them: the rows of `partition-health tables --sources`."""

from enum import Enum
from typing import Literal, Self

How = Literal["exact", "estimated", "upper bound", "assumed", "at the run", "-"]


class Number(Enum):
    """A number, or several that have the same source: columns in words, and behind a bar what to know about them."""

    columns: str
    note: str

    def __new__(cls, text: str) -> Self:
        number = object.__new__(cls)
        number.columns, _, number.note = text.partition(" | ")
        number._value_ = number.columns
        return number

    SHARES = "gold.broker_share: size_bytes, share, share_ratio, the three causes, gold.zone_traffic | by offsets: mean bytes per offset; sampled: divided by the rate"
    RECORD_COUNTS = "gold.broker_share: record_count | markers take offsets"
    BATCH_COUNTS = "gold.broker_share: batch_count, chance_ratio, effective_unit_count | by offsets: batches are taken as full, the fewest there can be"
    LEADER_COUNTS = "gold.broker_share: leader_count | dump_log: the only broker dumped leads, where no other text names a leader"
    PARTITION_SIZES = "gold.partition_health: size_bytes, topic shares"
    KEYS = "heavy_keys, hash_luck and remainder of shares, gold.hash_verdicts, gold.hot_keys, silver.key_traffic | need every record: not with sampling"
    KEYED_REPLAY = "gold.replay_results, gold.replay_brokers, gold.scenario_comparison: records with keys | need every record: not with sampling"
    SIMULATED_REPLAY = "gold.back_tests, and of the replay: records without keys, batches, latency | simulated: ranges over seeds; metrics make the brokers' delays known"
    LATENCY = "gold.latency | as the clients measured it; brokers do not know"
    TOPIC_SIZES = "gold.topic_health: sizes, peaks, what chance gives"
    TOPIC_REPLICAS = "gold.topic_health: replicas that lag, move or lack a leader"
    RULES = "gold.rule_measures, gold.verdicts, gold.incidents, gold.alert_outbox | each rule where the numbers it is about are known, and as they are"
    FORECAST = "gold.forecast | as the shares, topic sizes and volumes it is made from"
    RECOMMENDATIONS = "gold.recommendations: moves and their effects, gold.promises: what became of them | of changes of clients: by the replay"
    BATCH_HEADERS = "silver.record_batches: producer ids, codecs, checksums | consumers throw them away; these sources keep them"
    REPLICAS = "bronze.cluster_state: leader, replicas, in-sync replicas | log_directories: from the metadata log, as of each window's end"
    REPLICA_SIZES = "bronze.cluster_state: size_bytes, lag_count | when read; also from texts of kafka-log-dirs and kafka-get-offsets (`log_dirs_describe`, `get_offsets`)"
    VOLUMES = "bronze.brokers: log_dir_total_bytes, log_dir_usable_bytes, and hours to full disks by them | brokers from 3.3 on; without them `disk_bytes` in the configuration says what disks hold"
    REASSIGNMENTS = "bronze.cluster_state: reassignment | also from texts of kafka-reassign-partitions --verify (`reassign_verify`): that one runs"
    GROUPS = "bronze.consumer_groups: offsets, lag, members, gold.group_balance: what assignors give | also from texts of kafka-consumer-groups (`consumer_groups`)"
    AVAILABILITY = "gold.verdicts: source_arrival | what did not arrive"


def rated(how: How, *numbers: Number) -> dict[Number, How]:
    return dict.fromkeys(numbers, how)
