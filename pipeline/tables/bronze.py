"""Bronze: input as found."""

from __future__ import annotations

from pipeline.tables.columns import flag, instant, number, text, whole
from pipeline.tables.table import (
    BROKER_ID,
    BY_DATE,
    CLUSTER,
    PARTITION,
    RUN_ID,
    TOPIC,
    TOPIC_ID,
    WINDOW_DATE,
    WINDOW_START,
    Column,
    Table,
)

WINDOW_STATUS = Table(
    name="bronze.window_status",
    grain="window x source: what was expected and what arrived; written last, it vouches for the other tables",
    key=("cluster", "window_start", "source"),
    partitioned_by=BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        instant("window_end", "End of the window, exclusive, UTC."),
        text(
            "source",
            "Source kind in the configuration, such as `log_directories`; metrics sources are numbered from the second of "
            "a kind on: `prometheus-2`.",
        ),
        whole(
            "expected_count",
            "Items expected: brokers for log directories, brokers and partitions for a live cluster, scrapes for metrics; NULL where nothing can be expected.",
            "items",
            nullable=True,
        ),
        whole("arrived_count", "Items that arrived.", "items"),
        text(
            "missing",
            "What did not arrive and why, the first few by name; NULL where nothing is missing or nobody can tell.",
            nullable=True,
            volatile=True,
        ),
        whole("row_count", "Rows this source gave the window: record batches, samples, replicas.", "rows"),
        whole(
            "problem_count",
            "Quarantined problems of the source in this run (not only of this window).",
            "problems",
            volatile=True,
        ),
        instant(
            "newest_at",
            "Newest instant the source had data for when it was read, over all windows.",
            nullable=True,
            volatile=True,
        ),
        instant("as_of", "The run's now: the clock for live sources, the end of the recording for recorded ones."),
        flag("source_expired", "True where a rerun found less than is stored (retention): the stored rows were kept."),
        flag(
            "is_trusted",
            "True once the data gate passed over the window; NULL before. Health is judged over trusted windows only.",
            nullable=True,
        ),
        Column(
            name="table_versions",
            type="map<string,bigint>",
            doc="Delta version of each table that this row vouches for.",
            volatile=True,
        ),
        RUN_ID,
        instant("committed_at", "Clock when the row was written.", nullable=True, volatile=True),
    ),
)

CLUSTER_STATE = Table(
    name="bronze.cluster_state",
    grain="topic-partition x replica x window end",
    key=("cluster", "window_start", "topic", "topic_id", "partition", "replica_id"),
    partitioned_by=BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        whole("replica_id", "Broker that holds the replica."),
        whole("replica_position", "Place in the replica list; 0 is the preferred leader."),
        whole("leader_id", "Leader at the window's end; -1 for none or unknown."),
        whole("leader_epoch", "Leader epoch at the window's end.", nullable=True),
        flag("is_leader", "This replica leads."),
        flag("is_preferred_leader", "This replica stands first in the replica list."),
        flag("is_in_sync", "In the in-sync replica set; NULL where the source does not say.", nullable=True),
        text(
            "reassignment",
            "`adding` or `removing` while a reassignment runs, `moving` where only its running is told; NULL otherwise.",
            nullable=True,
        ),
        whole("log_start_offset", "First offset that could be read when it was read.", nullable=True, volatile=True),
        whole(
            "log_end_offset",
            "Next offset of this replica's log when it was read; of a live cluster the high watermark less the replica's lag.",
            nullable=True,
            volatile=True,
        ),
        whole(
            "high_watermark",
            "From `replication-offset-checkpoint`, or as the leader answered, when it was read.",
            nullable=True,
            volatile=True,
        ),
        whole(
            "lag_count",
            "Leader's log end offset less this replica's, when read.",
            "offsets",
            nullable=True,
            volatile=True,
        ),
        whole(
            "size_bytes",
            "Bytes of the replica's `.log` files when they were read.",
            "bytes",
            nullable=True,
            volatile=True,
        ),
        text(
            "log_directory",
            "Log directory that holds the replica, relative to the source root; of a live cluster the broker's own path.",
            nullable=True,
        ),
        Column(
            name="configs",
            type="map<string,string>",
            doc="Topic configs that matter: `min.insync.replicas`, `cleanup.policy`, `retention.ms`, `retention.bytes`, `segment.bytes`.",
        ),
        text(
            "state_source",
            "`cluster_metadata`, `live_cluster`, `topics_describe` or `only_replica` (no source names a leader: the only replica found is taken).",
        ),
        RUN_ID,
    ),
)

BROKERS = Table(
    name="bronze.brokers",
    grain="broker x window end",
    key=("cluster", "window_start", "broker_id"),
    partitioned_by=BY_DATE,
    schema_version=3,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        BROKER_ID,
        text("rack", "Rack, where the broker has one.", nullable=True),
        flag(
            "is_fenced",
            "Fenced at the window's end: registered, but not serving. NULL where the source does not say.",
            nullable=True,
        ),
        whole(
            "log_directory_count",
            "Log directories of the broker that were read or described; 0 where the broker is known but its disks were not found.",
            "directories",
        ),
        number(
            "preferred_leader_imbalance_ratio",
            "Part of the replicated partitions it is the preferred leader of that it does not lead; NULL without any.",
            "ratio",
        ),
        Column(
            name="configs",
            type="map<string,string>",
            doc="Broker configs that matter, where the source tells them.",
        ),
        Column(
            name="log_dir_bytes",
            type="map<string,bigint>",
            unit="bytes",
            doc="Bytes of the replicas in each log directory when they were read.",
            volatile=True,
        ),
        Column(
            name="log_dir_total_bytes",
            type="map<string,bigint>",
            unit="bytes",
            doc="What the volume of each log directory holds, as brokers from 3.3 on tell (DescribeLogDirs).",
            volatile=True,
        ),
        Column(
            name="log_dir_usable_bytes",
            type="map<string,bigint>",
            unit="bytes",
            doc="What is left of it.",
            volatile=True,
        ),
        text(
            "state_source",
            "`cluster_metadata`, `live_cluster`, `topics_describe` or `log_directories`: what named the broker.",
        ),
        RUN_ID,
    ),
)

CONSUMER_GROUPS = Table(
    name="bronze.consumer_groups",
    grain="group x topic-partition x moment",
    key=("cluster", "group_id", "topic", "partition", "observed_at"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        instant("observed_at", "When the group was described, UTC."),
        text("group_id", "Consumer group."),
        TOPIC,
        PARTITION,
        whole("committed_offset", "Committed offset; NULL for none.", nullable=True),
        whole("log_end_offset", "Log end offset the tool printed.", nullable=True),
        whole("lag_count", "Lag the tool printed.", "offsets", nullable=True),
        text("member_id", "Member that owns the partition; NULL for none.", nullable=True),
        text("client_host", "Host of the member.", nullable=True),
        text("client_id", "`client.id` of the member.", nullable=True),
        text("assignor", "Partition assignor, where the source says.", nullable=True),
        RUN_ID,
    ),
)

LOG_SEGMENTS = Table(
    name="bronze.log_segments",
    grain="segment file of a replica",
    key=("cluster", "broker_id", "log_directory", "topic", "topic_id", "partition", "base_offset"),
    partitioned_by=("cluster",),
    write_mode="merge",
    columns=(
        CLUSTER,
        BROKER_ID,
        text("log_directory", "Log directory, relative to the source root."),
        TOPIC,
        TOPIC_ID,
        PARTITION,
        whole("base_offset", "Offset in the file name."),
        text("path", "File, relative to the source root."),
        whole("size_bytes", "Size of the `.log` file.", "bytes"),
        flag(
            "is_scanned",
            "Batches were read (the one copy of the partition that is counted); else the columns from the scan are NULL.",
        ),
        whole("first_offset", "First offset held.", nullable=True),
        whole("last_offset", "Last offset held.", nullable=True),
        instant("min_timestamp", "Smallest batch timestamp.", nullable=True),
        instant("max_timestamp", "Largest batch timestamp.", nullable=True),
        whole("batch_count", "Record batches (legacy: entries).", "batches", nullable=True),
        whole("record_count", "Records, control records included.", "records", nullable=True),
        whole("control_batch_count", "Control batches (transaction markers).", "batches", nullable=True),
        whole(
            "missing_offset_count",
            "Offsets between batches that no batch covers (compaction, lost segments).",
            "offsets",
            nullable=True,
        ),
        whole("producer_id_count", "Distinct producer ids, -1 left out.", "producers", nullable=True),
        whole("crc_error_count", "Batches whose CRC does not match.", "batches", nullable=True),
        text("magic", "Record formats found, such as `2`.", nullable=True),
        text("codecs", "Codecs found, sorted, comma-separated.", nullable=True),
        flag("is_active", "Newest segment of its partition directory when read.", volatile=True),
        instant(
            "deletable_at",
            "Largest timestamp plus `retention.ms`, where the config is known; NULL for active or compacted.",
            nullable=True,
        ),
        whole("problem_count", "Problems found in this file; see `bronze.quarantine`.", "problems"),
        RUN_ID,
    ),
)

METRIC_SAMPLES = Table(
    name="bronze.metric_samples",
    grain="metric sample",
    schema_version=2,
    key=("cluster", "source", "instance", "observed_at", "name", "labels_text"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        instant("observed_at", "Instant of the scrape (Prometheus: of the point), UTC."),
        text(
            "source",
            "Source kind: `producer_metrics broker_metrics exporter_urls prometheus perf_test_output "
            "librdkafka_statistics`; numbered from the second of a kind on.",
        ),
        text(
            "instance",
            "What was scraped: the producer's client folder, the broker id, Prometheus' `instance`, the file's name.",
        ),
        text(
            "name",
            "Canonical metric name: one for all exporters and versions (jmx_exporter 0.x and 1.x, its example rules).",
        ),
        text("exposed_name", "Metric name as exposed; NULL in rows of before version 2.", nullable=True),
        text("labels_text", "Labels, sorted, as `k=v` joined by commas: part of the key."),
        Column(name="labels", type="map<string,string>", doc="Labels."),
        number("value", "Value; NULL for NaN (never recorded)."),
        RUN_ID,
    ),
)

QUARANTINE = Table(
    name="bronze.quarantine",
    grain="input refused or suspect: file, position, reason",
    key=("cluster", "path", "position", "reason"),
    partitioned_by=("cluster",),
    write_mode="merge",
    columns=(
        CLUSTER,
        text("source", "Source kind the input belongs to."),
        text("path", "File, relative to the source root where it lies in one."),
        whole("position", "Byte position (line number in text files); -1 for the file as a whole."),
        text("reason", "What was found and what was expected."),
        text("severity", "`refused`: not used from the position on; `suspect`: used, but marked."),
        text("first_bytes_hex", "First bytes at the position, at most 64, in hex."),
        instant("first_seen_at", "The run's now when it was first seen.", nullable=True, volatile=True),
        RUN_ID,
    ),
)

BRONZE = (WINDOW_STATUS, BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, METRIC_SAMPLES, QUARANTINE)
