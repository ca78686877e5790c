"""The gate of `ingest`: which suites check what was read and cleaned, and the rows each is given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from expectations.gate import NOTHING, Asked, Batches, Versions, run_gate, same_columns
from expectations.queries import DIGEST_OF_KEY, KEY_RECORDS, list_key_batches
from expectations.reports import SuiteReport, raise_for_data_gate
from expectations.suite_files import named_columns, read_suite
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.tables import Table
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import CONSUMER_GROUPS, QUARANTINE, WINDOW_STATUS
from pipeline.tables.keys import KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

_FEW_ROWS = (WINDOW_STATUS, BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES)  # per source or broker
_MANY_ROWS = (PARTITION_TRAFFIC, RECORD_BATCHES, CONSUMER_GROUPS, PRODUCER_NODES, ARRIVALS)
_PARTITION = "topic, topic_id, partition"


def check_ingested(spark: SparkSession, run: RunContext, versions: Versions = NOTHING) -> tuple[SuiteReport, ...]:
    """The data gate of `ingest`, which marks the windows; `DataGateError` if a critical check failed, after all had their turn."""
    from pipeline.storage.window_status import trust_windows

    starts_ms, max_age_ms = [window.start_ms for window in run.windows], milliseconds_of(run.cluster.freshness)
    parameters = {"windows_ms": starts_ms, "max_age_ms": max_age_ms}
    reports = run_gate(spark, "ingest", run, list_ingested(run), versions=versions, parameters=parameters)
    raise_for_data_gate(reports)
    trust_windows(run.warehouse, run.cluster_name, run.windows)
    return reports


def list_ingested(run: RunContext) -> Batches:
    from pipeline.config.section import is_record_source  # brings pydantic
    from pipeline.storage.predicates import format_datafusion_text
    from pipeline.storage.window_status import windows_in_doubt

    own = f"run_id = {format_datafusion_text(run.run_id)}"  # of tables without windows
    # not of windows in doubt: one table may lack what another has
    doubted = {window.start_ms for window in windows_in_doubt(run.warehouse, run.cluster_name, run.windows)}
    columns = ("window_start_ms", "source", "source_expired", "table_versions")
    status = [told for told in run.tuples(WINDOW_STATUS, run.windows, *columns) if told[0] not in doubted]

    def windows_with(table: Table, source: str = "") -> list[TimeWindow]:
        """The run's windows whose rows of a table, read from a source or any, this run vouches for."""
        starts_ms = {
            start_ms
            for start_ms, name, is_expired, versions in status
            if (name == source if source else is_record_source(name)) and not is_expired
            if dict(versions).get(table.name) is not None
        }
        return [window for window in run.windows if window.start_ms in starts_ms]

    return {
        **{name_suite(table): partial(run.load, table, run.windows) for table in _FEW_ROWS},
        **{name_suite(table): load_named(table, run.windows) for table in _MANY_ROWS},
        "cluster_state_gate": Asked(_REPLICAS, run.windows),
        "brokers_gate": Asked(_BROKERS, run.windows, is_few=True),
        "quarantine_gate": load_named(QUARANTINE, run.windows, own),
        "log_counts_gate": Asked(_LOGS, sorted({*run.split_by_rows(run.windows)[0], *windows_with(RECORD_BATCHES)})),
        "leaders_gate": Asked(_LEADERS, run.windows),
        "key_traffic_gate": Asked(KEY_RECORDS, windows_with(KEY_TRAFFIC)),
        "arrival_counts_gate": Asked(_ARRIVALS, windows_with(ARRIVALS)),
        "metric_samples_gate": Asked(_SAMPLES.format(window_us=1000 * run.window_ms), run.windows),
        "log_segments_gate": Asked(_DIRECTORIES.format(own=own), run.windows),
        "log_ends_gate": Asked(_LOG_ENDS.format(own=own), run.windows),
        "log_coverage_gate": Asked(_COVERAGE, windows_with(RECORD_BATCHES, "log_directories")),
        **list_key_batches(run, windows_with(KEY_HASHES), windows_with(KEY_MATRICES)),
    }


# Samples of metrics, each with the number of windows between the one it is in and the one it was taken in
_AGE_US = "arrow_cast(observed_at, 'Int64') - arrow_cast(window_start, 'Int64')"
_SAMPLES = f"""
    SELECT window_start, source, instance, observed_at, name, labels_text,
           cast(floor(cast({_AGE_US} AS double) / {{window_us}}) AS bigint) AS windows_off
    FROM bronze.metric_samples"""


def name_suite(table: Table) -> str:
    return f"{table.name.partition('.')[2]}_gate"


def load_named(table: Table, windows: Sequence[TimeWindow], wanted: str = "true") -> Asked:
    columns = named_columns(read_suite(name_suite(table)), table.column_names)
    return Asked(f"SELECT {', '.join(columns)} FROM {table.name} WHERE {wanted}", windows)


_OF_PARTITION = f"window_start, {_PARTITION}"
# Rows of `bronze.cluster_state` with the number of their partition's replicas, and of those that lead it
_REPLICAS = f"""
    SELECT {_OF_PARTITION}, replica_id, replica_position, leader_id, is_leader, is_preferred_leader,
           count(1) OVER (PARTITION BY {_OF_PARTITION}) AS replica_count,
           sum(CASE WHEN is_leader THEN 1 ELSE 0 END) OVER (PARTITION BY {_OF_PARTITION}) AS leading_count
    FROM bronze.cluster_state"""

# Rows of `bronze.brokers`, and one without a source for each broker that only holds replicas
_BROKERS = """
    SELECT coalesce(listed.window_start, holders.window_start) AS window_start,
           coalesce(listed.broker_id, holders.broker_id) AS broker_id, state_source, away_ms, log_directory_count,
           preferred_leader_imbalance_ratio
    FROM bronze.brokers AS listed
    FULL JOIN (SELECT DISTINCT window_start, replica_id AS broker_id FROM bronze.cluster_state) AS holders
    ON listed.window_start = holders.window_start AND listed.broker_id = holders.broker_id"""

# What each topic-partition got under each leader: by traffic, summed up while logs are scanned, and by its batches
_LOGS = """
    SELECT window_start, topic, topic_id, partition, leader_id, leader_epoch,
           sum(records) AS record_count, sum(bytes) AS size_bytes, sum(offsets) AS covered_offset_count,
           sum(batch_records) AS batch_record_count, sum(batch_bytes) AS batch_size_bytes,
           sum(batch_offsets) AS batch_offset_count
    FROM (
        SELECT *, min(is_exact) OVER (PARTITION BY window_start, topic, topic_id, partition) AS all_exact
        FROM (
            SELECT window_start, topic, topic_id, partition, leader_id, leader_epoch,
                   CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 1 ELSE 0 END AS is_exact,
                   record_count + control_record_count AS records, size_bytes AS bytes, covered_offset_count AS offsets,
                   0 AS batch_records, 0 AS batch_bytes, 0 AS batch_offsets
            FROM silver.partition_traffic
            UNION ALL
            SELECT window_start, topic, topic_id, partition, leader_id, leader_epoch, 1 AS is_exact,
                   0 AS records, 0 AS bytes, 0 AS offsets, sum(record_count) AS batch_records,
                   sum(size_bytes) AS batch_bytes, sum(last_offset - base_offset + 1) AS batch_offsets
            FROM silver.record_batches
            GROUP BY window_start, topic, topic_id, partition, leader_id, leader_epoch
        ) AS counted
    ) AS counted
    WHERE all_exact = 1
    GROUP BY window_start, topic, topic_id, partition, leader_id, leader_epoch"""

# Traffic of a leader epoch that was still on at a window's end, with the leader of that epoch as the cluster's state has it
_LEADERS = """
    SELECT traffic.window_start, traffic.topic, traffic.topic_id, traffic.partition, traffic.leader_epoch,
           traffic.leader_id, state.leader_id AS epoch_leader_id
    FROM silver.partition_traffic AS traffic
    JOIN (
        SELECT DISTINCT window_start, topic, topic_id, partition, leader_id, leader_epoch FROM bronze.cluster_state
        WHERE leader_id >= 0 AND leader_epoch IS NOT NULL
    ) AS state
    ON state.window_start = traffic.window_start AND state.topic = traffic.topic AND state.topic_id = traffic.topic_id
       AND state.partition = traffic.partition AND state.leader_epoch = traffic.leader_epoch
    WHERE traffic.leader_id >= 0"""

# Rows of `bronze.log_segments`, with the broker whose replica lies in their directory and whether their topic is compacted
_DIRECTORIES = f"""
    SELECT segments.*, coalesce(holder_id, broker_id) AS holder_id, coalesce(is_compacted, true) AS is_compacted
    FROM (SELECT * FROM bronze.log_segments WHERE {{own}}) AS segments
    LEFT JOIN (
        SELECT {_PARTITION}, log_directory, max(replica_id) AS holder_id FROM bronze.cluster_state WHERE log_directory IS NOT NULL
        GROUP BY {_PARTITION}, log_directory HAVING min(replica_id) = max(replica_id)
    ) AS state ON {same_columns("state", f"{_PARTITION}, log_directory", "segments")}
    LEFT JOIN (SELECT topic, topic_id, bool_or(is_compacted) AS is_compacted FROM silver.partition_traffic GROUP BY topic, topic_id)
        AS topics ON {same_columns("topics", "topic, topic_id", "segments")}"""

_CUT = "least(segments.last_offset, traffic.last_offset) - greatest(segments.first_offset, traffic.first_offset) + 1"
_GRAIN = f"window_start, {', '.join(f'traffic.{name}' for name in _PARTITION.split(', '))}, covered_offset_count"
# Traffic of each topic-partition and window, with how many offsets from its first to its last the segments read hold
_COVERAGE = f"""
    SELECT {_GRAIN}, sum(CASE WHEN segments.first_offset IS NULL THEN 0 ELSE {_CUT} END) AS held_offset_count
    FROM (
        SELECT window_start, {_PARTITION}, min(first_offset) AS first_offset, max(last_offset) AS last_offset,
               sum(covered_offset_count) AS covered_offset_count
        FROM silver.partition_traffic GROUP BY window_start, {_PARTITION}
        HAVING max(CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 0 ELSE 1 END) = 0
    ) AS traffic
    LEFT JOIN (SELECT {_PARTITION}, first_offset, last_offset FROM bronze.log_segments WHERE is_scanned) AS segments
    ON {same_columns("segments", _PARTITION, "traffic")} AND segments.first_offset <= traffic.last_offset
       AND segments.last_offset >= traffic.first_offset
    GROUP BY {_GRAIN}"""

# The last offset that this run's scan found in each log it read to its newest segment, and the log's end by its index
_LOG_ENDS = f"""
    SELECT segments.topic, segments.topic_id, segments.partition, broker_id, last_offset, log_end_offset
    FROM (
        SELECT {_PARTITION}, broker_id, last_offset FROM bronze.log_segments
        WHERE {{own}} AND is_active AND is_scanned AND last_offset IS NOT NULL
    ) AS segments
    JOIN (
        SELECT DISTINCT {_PARTITION}, replica_id, log_end_offset FROM bronze.cluster_state
        WHERE {{own}} AND log_end_offset IS NOT NULL
    ) AS state
    ON {same_columns("state", _PARTITION, "segments")} AND state.replica_id = segments.broker_id"""

_LISTS = ("gap_ms", "body_bytes", "partition", "key_index")
_UNEVEN = " OR ".join(f"coalesce(array_length({name}), 0) <> record_count" for name in _LISTS)
# Data records of topics and windows by batches and by arrivals; digests are equal if each key has its own records
_ARRIVALS = f"""
    SELECT window_start, topic, topic_id, sum(stored) AS record_count, sum(arrived) AS arrival_record_count,
           sum(outliers) AS outlier_record_count, sum(uneven) AS uneven_row_count,
           CASE WHEN count(held) > 0 AND count(digest) = count(1) THEN sum(digest) - sum(held) ELSE 0 END
               AS digest_difference
    FROM (
        SELECT window_start, topic, topic_id, CASE WHEN coalesce(count_kind, 'exact') = 'exact' THEN 1 ELSE 0 END AS is_exact,
               record_count AS stored, 0 AS arrived, 0 AS outliers, 0 AS uneven, 0 AS digest, cast(NULL AS bigint) AS held
        FROM silver.partition_traffic
        UNION ALL
        SELECT window_start, topic, topic_id, 1 AS is_exact, 0 AS stored,
               record_count + unreadable_record_count AS arrived, outlier_record_count AS outliers,
               CASE WHEN {_UNEVEN} THEN 1 ELSE 0 END AS uneven, key_digest AS digest, NULL AS held
        FROM silver.arrivals
        WHERE count_kind = 'exact'
        UNION ALL
        SELECT window_start, topic, topic_id, 1 AS is_exact, 0 AS stored, 0 AS arrived, 0 AS outliers, 0 AS uneven,
               CASE WHEN kind <> 'other_keys' THEN 0 END AS digest,
               CASE WHEN kind = 'key' THEN {DIGEST_OF_KEY} ELSE 0 END AS held
        FROM silver.key_traffic
    ) AS counted
    GROUP BY window_start, topic, topic_id
    HAVING min(is_exact) = 1"""
