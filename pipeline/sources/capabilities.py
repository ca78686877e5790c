"""Which source yields which number, and how: the table that `partition-health tables --sources` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal["exact", "estimated", "upper bound", "assumed", "at the run", "-"]

COLUMNS = (
    *("log_directories", "live_cluster", "live_cluster, read: offsets", "dump_log", "topics_describe", "metrics"),
)
"""Metrics: `producer_metrics broker_metrics prometheus exporter_urls perf_test_output librdkafka_statistics`."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What a number comes from.

    Attributes:
        numbers: Columns, in words.
        how: One word per entry of `COLUMNS`.
        note: What to know.
    """

    numbers: str
    how: tuple[How, How, How, How, How, How]
    note: str = ""


CAPABILITIES = (
    Capability(
        "gold.broker_share: size_bytes, share, share_ratio, the three causes",
        ("exact", "exact", "estimated", "exact", "-", "-"),
        "by offsets: mean bytes per offset; sampled: divided by the rate",
    ),
    Capability(
        "gold.broker_share: record_count", ("exact", "exact", "upper bound", "exact", "-", "-"), "markers take offsets"
    ),
    Capability(
        "gold.broker_share: batch_count, chance_ratio, effective_unit_count",
        ("exact", "exact", "assumed", "exact", "-", "-"),
        "by offsets: batches are taken as full, the fewest there can be",
    ),
    Capability(
        "gold.broker_share: leader_count",
        ("exact", "at the run", "at the run", "assumed", "exact", "-"),
        "dump_log: the only broker dumped leads, where no other text tells",
    ),
    Capability("gold.partition_health: size_bytes, topic shares", ("exact", "exact", "estimated", "exact", "-", "-")),
    Capability(
        "heavy_keys, hash_luck and remainder of shares, gold.hash_verdicts, gold.hot_keys, silver.key_traffic",
        ("exact", "exact", "-", "-", "-", "-"),
        "need every record: not with sampling",
    ),
    Capability(
        "gold.replay_results, gold.replay_brokers, gold.scenario_comparison: records with keys",
        ("exact", "exact", "-", "-", "-", "-"),
        "need every record: not with sampling",
    ),
    Capability(
        "gold.back_tests, and of the replay: records without keys, batches, latency",
        ("estimated", "estimated", "-", "-", "-", "-"),
        "simulated: ranges over seeds; metrics make the brokers' delays known",
    ),
    Capability("gold.latency", ("-", "-", "-", "-", "-", "exact"), "as the clients measured it; brokers do not know"),
    Capability(
        "gold.topic_health: sizes, peaks, what chance gives", ("exact", "exact", "estimated", "exact", "-", "-")
    ),
    Capability(
        "gold.topic_health: replicas that lag, move or lack a leader",
        ("exact", "at the run", "at the run", "-", "exact", "-"),
    ),
    Capability(
        "gold.rule_measures, gold.verdicts, gold.incidents, gold.alert_outbox",
        ("exact", "exact", "estimated", "exact", "exact", "exact"),
        "each rule where the numbers it is about are known, and as they are",
    ),
    Capability(
        "gold.recommendations: moves and their effects",
        ("exact", "exact", "estimated", "exact", "-", "-"),
        "of changes of clients: by the replay",
    ),
    Capability(
        "silver.record_batches: producer ids, codecs, checksums",
        ("exact", "exact", "-", "exact", "-", "-"),
        "consumers throw them away; these sources keep them",
    ),
    Capability(
        "bronze.cluster_state: leader, replicas, in-sync replicas",
        ("exact", "at the run", "at the run", "assumed", "exact", "-"),
        "log_directories: from the metadata log, as of each window's end",
    ),
    Capability(
        "bronze.cluster_state: size_bytes, lag_count",
        ("exact", "exact", "exact", "exact", "-", "-"),
        "when read; also from texts of kafka-log-dirs and kafka-get-offsets (`log_dirs_describe`, `get_offsets`)",
    ),
    Capability(
        "bronze.brokers: log_dir_total_bytes, log_dir_usable_bytes, and hours to full disks by them",
        ("-", "at the run", "at the run", "-", "-", "-"),
        "brokers from 3.3 on; without them `disk_bytes` in the configuration says what disks hold",
    ),
    Capability(
        "bronze.cluster_state: reassignment",
        ("exact", "at the run", "at the run", "-", "exact", "-"),
        "also from texts of kafka-reassign-partitions --verify (`reassign_verify`): that one runs",
    ),
    Capability(
        "bronze.consumer_groups: offsets, lag, members",
        ("-", "at the run", "at the run", "-", "-", "-"),
        "also from texts of kafka-consumer-groups (`consumer_groups`)",
    ),
    Capability(
        "gold.verdicts: source_arrival", ("exact", "exact", "exact", "exact", "-", "exact"), "what did not arrive"
    ),
)


def given_by(column: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a source gives and what it does not, by the names in `CAPABILITIES`.

    Args:
        column: An entry of `COLUMNS`.
    """
    place = COLUMNS.index(column)
    gives = tuple(f"{c.numbers} ({c.how[place]})" for c in CAPABILITIES if c.how[place] != "-")
    lacks = tuple(c.numbers for c in CAPABILITIES if c.how[place] == "-")
    return gives, lacks
