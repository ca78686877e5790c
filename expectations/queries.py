"""Queries of the gates that join tables with what they have to agree with: keys, hashes, sums; measures and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expectations.gate import Asked, Batches, same_columns
from expectations.suite_files import OF_STRATEGIES
from pipeline.model.window import TimeWindow, milliseconds_of

if TYPE_CHECKING:
    from pipeline.runs import RunContext


_TOPIC = "window_start, topic, topic_id"
_PARTITION = f"{_TOPIC}, partition"
_QUESTION = "strategy, strategy_version, partition_count"
_NUMBER = " + ".join(f"{16**at} * (strpos('0123456789abcdef', substr(key_id, {6 - at}, 1)) - 1)" for at in range(6))
DIGEST_OF_KEY = f"({_NUMBER}) * (partition + 1) * (record_count + size_bytes)"  # adds to `arrivals.key_digest`


def list_key_batches(run: RunContext, hashed: Sequence[TimeWindow], asked: Sequence[TimeWindow]) -> Batches:
    """The rows of the suites about single keys of windows whose hashes and answers this run vouches for, until they expire."""
    kept_from_ms = run.now_ms - milliseconds_of(run.config.keys.retention)
    kept = [window for window in hashed if window.start_ms >= kept_from_ms]
    batches = {"key_hashes_gate": Asked(_HASHES, kept)}
    if run.config.keys.strategies:
        batches |= zip(OF_STRATEGIES, (Asked(_ANSWERS, kept), Asked(_CELLS, asked)), strict=True)
    return batches


# Keys of the windows with their hashes, those without a row too
_HASHES = """
    SELECT used.window_date, used.key_id, is_empty, murmur2, crc32, fnv1a, murmur3, java_string, kafkajs_legacy
    FROM (SELECT DISTINCT cast(window_start AS date) AS window_date, key_id FROM silver.key_traffic WHERE kind = 'key') AS used
    LEFT JOIN silver.key_hashes AS hashes ON hashes.window_date = used.window_date AND hashes.key_id = used.key_id"""

# Data records of each topic-partition, as its batches have them and as its keys do, of windows whose keys were read
KEY_RECORDS = f"""
    SELECT {_PARTITION}, sum(stored) AS record_count, sum(keyed) AS key_record_count,
           sum(unreadable) AS unreadable_record_count
    FROM (
        SELECT {_PARTITION}, record_count AS stored, 0 AS keyed, 0 AS unreadable FROM silver.partition_traffic
        UNION ALL
        SELECT {_PARTITION}, 0 AS stored, record_count AS keyed,
               CASE WHEN kind = 'unreadable' THEN record_count ELSE 0 END AS unreadable
        FROM silver.key_traffic
    ) AS counted
    GROUP BY {_PARTITION}"""

# Answers of the windows' dates, and whether their key has hashes
_ANSWERS = f"""
    SELECT answers.window_date, answers.key_id, {_QUESTION}, chosen_partition, hashes.key_id AS hashed_key_id
    FROM silver.key_answers AS answers
    LEFT JOIN silver.key_hashes AS hashes ON {same_columns("hashes", "window_date, key_id", "answers")}"""

_ASKED = f"{_PARTITION}, {_QUESTION}"
_NAMES = ", ".join(f"coalesce(cells.{name}, keyed.{name}) AS {name}" for name in _ASKED.split(", "))
# Sums over keys, and a row for each partition that lacks what another of its topic has, with its keyed records
_CELLS = f"""
    SELECT {_NAMES}, chosen_partition, key_count, record_count, coalesce(asked_record_count, 0) AS asked_record_count,
           keyed_record_count
    FROM (SELECT *, sum(record_count) OVER (PARTITION BY {_ASKED}) AS asked_record_count FROM silver.key_matrices AS sums) AS cells
    FULL JOIN (
        SELECT sums.window_start, sums.topic, sums.topic_id, partition, {_QUESTION}, keyed_record_count
        FROM (
            SELECT {_PARTITION}, sum(record_count) AS keyed_record_count
            FROM silver.key_traffic WHERE kind IN ('key', 'other_keys') GROUP BY {_PARTITION}
        ) AS sums
        JOIN (SELECT DISTINCT {_TOPIC}, {_QUESTION} FROM silver.key_matrices) AS questions
        ON {same_columns("questions", _TOPIC, "sums")}
    ) AS keyed ON {same_columns("keyed", _ASKED, "cells")}"""


def join_shares(run: RunContext, windows: Sequence[TimeWindow]) -> Asked:
    """Rows of `gold.broker_share`, and of brokers that lack one, with what each led and the configured capacity."""
    broker = "coalesce(share.broker_id, led.broker_id)"
    cases = "".join(f" WHEN {broker} = {number} THEN {float(value)}" for number, value in run.cluster.capacity.items())
    sql = f"""
        SELECT coalesce(share.window_start, led.window_start) AS window_start,
               {broker} AS broker_id, {f"CASE{cases} ELSE 1.0 END" if cases else "1.0"} AS configured_capacity,
               size_bytes, record_count, batch_count, leader_count, led_size_bytes, led_record_count, led_batch_count,
               led_leader_count, capacity, share, expected_share, share_ratio, chance_ratio, chance_p_value, leaders_term, topic_mix_term, partition_skew_term,
               heavy_keys_term, hash_luck_term, remainder_term, ratio_without_luck, peak_ratio, unit_inflation,
               cast(sum(led_size_bytes) OVER (PARTITION BY coalesce(share.window_start, led.window_start)) AS double)
                   AS all_bytes,
               sum(expected_share) OVER (PARTITION BY coalesce(share.window_start, led.window_start)) AS all_expected
        FROM gold.broker_share AS share
        FULL JOIN (
            SELECT window_start, broker_id, sum(bytes) AS led_size_bytes, sum(records) AS led_record_count,
                   sum(batches) AS led_batch_count, sum(leaders) AS led_leader_count
            FROM (
                SELECT window_start, leader_id AS broker_id, size_bytes AS bytes, record_count AS records,
                       batch_count AS batches, 0 AS leaders
                FROM silver.partition_traffic WHERE leader_id >= 0
                UNION ALL
                SELECT window_start, leader_id AS broker_id, 0 AS bytes, 0 AS records, 0 AS batches, 1 AS leaders
                FROM bronze.cluster_state WHERE is_leader AND leader_id >= 0
                UNION ALL
                SELECT window_start, broker_id, 0 AS bytes, 0 AS records, 0 AS batches, 0 AS leaders FROM bronze.brokers
            ) AS parts
            GROUP BY window_start, broker_id
        ) AS led ON led.window_start = share.window_start AND led.broker_id = share.broker_id
        """
    return Asked(sql, windows, is_few=True)


# Rows of `gold.partition_health`, and of partitions that lack one, with their traffic, leader and topic
PARTITIONS = f"""
    SELECT coalesce(health.window_start, led.window_start) AS window_start, coalesce(health.topic, led.topic) AS topic,
           coalesce(health.topic_id, led.topic_id) AS topic_id, coalesce(health.partition, led.partition) AS partition,
           leader_id, led_by, health.size_bytes, led_size_bytes, health.record_count, led_record_count,
           health.batch_count, led_batch_count, topic_share, ratio_to_mean, topic_partition_count,
           topic_peak_to_mean, topic_cv, topic_effective_partitions, excess_bytes, heavy_keys_bytes,
           hash_luck_bytes, remainder_bytes, all_count, all_bytes, largest_bytes, deviation_bytes
    FROM gold.partition_health AS health
    FULL JOIN (
        SELECT {_PARTITION}, sum(bytes) AS led_size_bytes, sum(records) AS led_record_count,
               sum(batches) AS led_batch_count, max(led_by) AS led_by
        FROM (
            SELECT {_PARTITION}, size_bytes AS bytes, record_count AS records, batch_count AS batches, -1 AS led_by
            FROM silver.partition_traffic
            UNION ALL
            SELECT {_PARTITION}, 0 AS bytes, 0 AS records, 0 AS batches, leader_id AS led_by
            FROM bronze.cluster_state WHERE is_leader
        ) AS parts
        GROUP BY {_PARTITION}
    ) AS led ON {same_columns("led", _PARTITION, "health")}
    LEFT JOIN (
        SELECT {_TOPIC}, count(1) AS all_count, cast(sum(size_bytes) AS double) AS all_bytes,
               cast(max(size_bytes) AS double) AS largest_bytes, stddev_pop(size_bytes) AS deviation_bytes
        FROM gold.partition_health GROUP BY {_TOPIC}
    ) AS topics ON {same_columns("topics", _TOPIC, "health")}"""

# Rows of `gold.topic_health`, and of topics that lack one, with the sums of their partitions and their heaviest key
TOPICS = f"""
    SELECT coalesce(health.window_start, parts.window_start) AS window_start,
           coalesce(health.topic, parts.topic) AS topic, coalesce(health.topic_id, parts.topic_id) AS topic_id,
           health.partition_count, all_count, health.size_bytes, all_bytes, health.record_count, all_record_count,
           health.batch_count, all_batch_count, peak_to_mean, part_peak_to_mean, cv, part_cv, effective_partitions,
           part_effective_partitions, peak_p_value, keyed_ratio, top_key_ratio, heaviest_ratio
    FROM gold.topic_health AS health
    FULL JOIN (
        SELECT {_TOPIC}, count(1) AS all_count, sum(size_bytes) AS all_bytes, sum(record_count) AS all_record_count,
               sum(batch_count) AS all_batch_count, max(topic_peak_to_mean) AS part_peak_to_mean,
               max(topic_cv) AS part_cv, max(topic_effective_partitions) AS part_effective_partitions
        FROM gold.partition_health GROUP BY {_TOPIC}
    ) AS parts ON {same_columns("parts", _TOPIC, "health")}
    LEFT JOIN (SELECT {_TOPIC}, topic_ratio AS heaviest_ratio FROM gold.hot_keys WHERE rank = 1) AS heaviest
    ON {same_columns("heaviest", _TOPIC, "health")}"""

# Rows of `gold.hot_keys` with what `silver.key_traffic` has of that key, of its partition and of the topic
KEYS = f"""
    SELECT hot.window_start, hot.topic, hot.topic_id, hot.rank, hot.key, hot.partition, hot.record_count,
           hot.size_bytes, hot.topic_ratio, key_record_count, key_size_bytes, largest_bytes, held_bytes, topic_bytes,
           ranked_count
    FROM gold.hot_keys AS hot
    LEFT JOIN (
        SELECT {_TOPIC}, partition, key, max(key_records) AS key_record_count, max(key_bytes) AS key_size_bytes,
               max(held) AS held_bytes, max(largest) AS largest_bytes
        FROM (
            SELECT {_TOPIC}, partition, substring(key_id, 1, 8) AS key, size_bytes AS held,
                   sum(record_count) OVER (PARTITION BY {_TOPIC}, key_id) AS key_records,
                   sum(size_bytes) OVER (PARTITION BY {_TOPIC}, key_id) AS key_bytes,
                   max(size_bytes) OVER (PARTITION BY {_TOPIC}, key_id) AS largest
            FROM silver.key_traffic WHERE kind = 'key'
        ) AS keys
        GROUP BY {_TOPIC}, partition, key
    ) AS stored ON {same_columns("stored", _PARTITION, "hot")} AND stored.key = hot.key
    LEFT JOIN (SELECT {_TOPIC}, cast(sum(size_bytes) AS double) AS topic_bytes FROM silver.key_traffic GROUP BY {_TOPIC}) AS sums
    ON {same_columns("sums", _TOPIC, "hot")}
    LEFT JOIN (SELECT {_TOPIC}, count(1) AS ranked_count FROM gold.hot_keys GROUP BY {_TOPIC}) AS ranked
    ON {same_columns("ranked", _TOPIC, "hot")}"""

_COLUMNS = "window_start, broker_id, request_count, request_latency_avg_ms, request_latency_max_ms"
# Rows of `gold.latency`, and of pairs that lack one, with the sums of their clients
NODES = f"""
    SELECT coalesce(latency.window_start, nodes.window_start) AS window_start,
           coalesce(latency.client_id, nodes.client_id) AS client_id,
           coalesce(latency.broker_id, nodes.broker_id) AS broker_id, request_count, node_request_count,
           request_latency_max_ms, node_latency_max_ms, request_latency_avg_ms, node_latency_avg_ms,
           latency.window_start IS NOT NULL AS is_there
    FROM gold.latency AS latency
    FULL JOIN (
        SELECT window_start, client_id, broker_id, sum(request_count) AS node_request_count,
               max(request_latency_max_ms) AS node_latency_max_ms,
               sum(request_latency_avg_ms * request_count)
                   / nullif(sum(CASE WHEN request_latency_avg_ms IS NOT NULL THEN request_count END), 0)
                   AS node_latency_avg_ms
        FROM (
            SELECT client_id, {_COLUMNS} FROM silver.producer_nodes WHERE client_id <> '*'
            UNION ALL SELECT '*' AS client_id, {_COLUMNS} FROM silver.producer_nodes
        ) AS everyone
        GROUP BY window_start, client_id, broker_id
    ) AS nodes ON {same_columns("nodes", "window_start, client_id, broker_id", "latency")}"""

# Rows of `gold.group_balance`, and of groups' topics that lack one, with their topics' partitions
GROUPS = """
    SELECT coalesce(balance.window_start, read.window_start) AS window_start,
           coalesce(balance.group_id, read.group_id) AS group_id, coalesce(balance.topic, read.topic) AS topic,
           partition_count, topic_partition_count, member_count, largest_member_count, busiest_ratio, idle_member_count
    FROM gold.group_balance AS balance
    FULL JOIN (
        SELECT window_start, group_id, topic, max(members) AS largest_member_count
        FROM (
            SELECT window_start, group_id, topic, observed_at, count(DISTINCT member_id) AS members FROM bronze.consumer_groups
            GROUP BY window_start, group_id, topic, observed_at
        ) AS moments
        GROUP BY window_start, group_id, topic
    ) AS read ON read.window_start = balance.window_start AND read.group_id = balance.group_id
                 AND read.topic = balance.topic
    LEFT JOIN (
        SELECT window_start, topic, count(DISTINCT partition) AS topic_partition_count FROM gold.partition_health
        GROUP BY window_start, topic
    ) AS topics ON topics.window_start = balance.window_start AND topics.topic = balance.topic"""


def join_zones(run: RunContext, windows: Sequence[TimeWindow]) -> Asked:
    """Rows of `gold.zone_traffic`, or topics without, of windows that know zones, with what partitions and followers got."""
    has_zones = "true" if run.cluster.zones.brokers else "coalesce(rack, '') <> ''"
    by_kind = ", ".join(
        f"sum(CASE WHEN kind = '{kind}' THEN size_bytes ELSE 0 END) AS {name}"
        for kind, name in (("produce", "produced_bytes"), ("replication", "copied_bytes"))
    )
    sql = f"""
        SELECT coalesce(zones.window_start, topics.window_start) AS window_start,
               coalesce(zones.topic, topics.topic) AS topic, coalesce(zones.topic_id, topics.topic_id) AS topic_id,
               kind, from_zone, to_zone, zone_source, size_bytes, is_between_zones, cost, produced_bytes, copied_bytes,
               topic_bytes, followed_bytes
        FROM gold.zone_traffic AS zones
        FULL JOIN (
            SELECT {_TOPIC}, sum(size_bytes) AS topic_bytes, sum(size_bytes * follower_count) AS followed_bytes
            FROM (
                SELECT traffic.window_start, traffic.topic, traffic.topic_id, traffic.partition, leader_id, size_bytes,
                       count(replica_id) AS follower_count
                FROM (
                    SELECT {_TOPIC}, partition, leader_id, sum(size_bytes) AS size_bytes FROM silver.partition_traffic
                    WHERE window_start IN (SELECT window_start FROM bronze.brokers WHERE {has_zones})
                    GROUP BY {_TOPIC}, partition, leader_id HAVING sum(size_bytes) > 0
                ) AS traffic
                LEFT JOIN (SELECT {_TOPIC}, partition, replica_id FROM bronze.cluster_state) AS replicas
                ON {same_columns("replicas", _PARTITION, "traffic")} AND replica_id <> leader_id
                GROUP BY traffic.window_start, traffic.topic, traffic.topic_id, traffic.partition, leader_id, size_bytes
            ) AS led
            GROUP BY {_TOPIC}
        ) AS topics ON {same_columns("topics", _TOPIC, "zones")}
        LEFT JOIN (SELECT {_TOPIC}, {by_kind} FROM gold.zone_traffic GROUP BY {_TOPIC}) AS sums
        ON {same_columns("sums", _TOPIC, "zones")}
        """
    return Asked(sql, windows)
