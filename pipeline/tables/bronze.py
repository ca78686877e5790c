"""Bronze: input as found."""

from __future__ import annotations

from pipeline.tables.table import (
    BROKER_ID,
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

_BY_DATE = ("cluster", "window_date")

WINDOW_STATUS = Table(
    name="bronze.window_status",
    grain="window x source: what was expected and what arrived; written last, it vouches for the other tables",
    key=("cluster", "window_start", "source"),
    partitioned_by=_BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        Column(name="window_end", type="timestamp", nullable=False, doc="End of the window, exclusive, UTC."),
        Column(
            name="source",
            type="string",
            nullable=False,
            doc="Source kind in the configuration, such as `log_directories`; metrics sources are numbered from the second of "
            "a kind on: `prometheus-2`.",
        ),
        Column(
            name="expected_count",
            type="bigint",
            unit="items",
            doc="Items expected: brokers for log directories, brokers and partitions for a live cluster, scrapes for metrics; NULL where nothing can be expected.",
        ),
        Column(name="arrived_count", type="bigint", nullable=False, unit="items", doc="Items that arrived."),
        Column(
            name="missing",
            type="string",
            doc="What did not arrive and why, the first few by name; NULL where nothing is missing or nobody can tell.",
            volatile=True,
        ),
        Column(
            name="row_count",
            type="bigint",
            nullable=False,
            unit="rows",
            doc="Rows this source gave the window: record batches, samples, replicas.",
        ),
        Column(
            name="problem_count",
            type="bigint",
            nullable=False,
            unit="problems",
            doc="Quarantined problems of the source in this run (not only of this window).",
            volatile=True,
        ),
        Column(
            name="newest_at",
            type="timestamp",
            doc="Newest instant the source had data for when it was read, over all windows.",
            volatile=True,
        ),
        Column(
            name="as_of",
            type="timestamp",
            nullable=False,
            doc="The run's now: the clock for live sources, the end of the recording for recorded ones.",
        ),
        Column(
            name="source_expired",
            type="boolean",
            nullable=False,
            doc="True where a rerun found less than is stored (retention): the stored rows were kept.",
        ),
        Column(
            name="is_trusted",
            type="boolean",
            doc="True once the data gate passed over the window; NULL before. Health is judged over trusted windows only.",
        ),
        Column(
            name="table_versions",
            type="map<string,bigint>",
            doc="Delta version of each table that this row vouches for.",
            volatile=True,
        ),
        RUN_ID,
        Column(name="committed_at", type="timestamp", doc="Clock when the row was written.", volatile=True),
    ),
)

CLUSTER_STATE = Table(
    name="bronze.cluster_state",
    grain="topic-partition x replica x window end",
    key=("cluster", "window_start", "topic", "topic_id", "partition", "replica_id"),
    partitioned_by=_BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(name="replica_id", type="bigint", nullable=False, doc="Broker that holds the replica."),
        Column(
            name="replica_position",
            type="bigint",
            nullable=False,
            doc="Place in the replica list; 0 is the preferred leader.",
        ),
        Column(
            name="leader_id", type="bigint", nullable=False, doc="Leader at the window's end; -1 for none or unknown."
        ),
        Column(name="leader_epoch", type="bigint", doc="Leader epoch at the window's end."),
        Column(name="is_leader", type="boolean", nullable=False, doc="This replica leads."),
        Column(
            name="is_preferred_leader",
            type="boolean",
            nullable=False,
            doc="This replica stands first in the replica list.",
        ),
        Column(
            name="is_in_sync", type="boolean", doc="In the in-sync replica set; NULL where the source does not say."
        ),
        Column(
            name="reassignment",
            type="string",
            doc="`adding` or `removing` while a reassignment runs; NULL otherwise.",
        ),
        Column(
            name="log_start_offset",
            type="bigint",
            doc="First offset that could be read when it was read.",
            volatile=True,
        ),
        Column(
            name="log_end_offset",
            type="bigint",
            doc="Next offset of this replica's log when it was read; of a live cluster the high watermark less the replica's lag.",
            volatile=True,
        ),
        Column(
            name="high_watermark",
            type="bigint",
            doc="From `replication-offset-checkpoint`, or as the leader answered, when it was read.",
            volatile=True,
        ),
        Column(
            name="lag_count",
            type="bigint",
            unit="offsets",
            doc="Leader's log end offset less this replica's, when read.",
            volatile=True,
        ),
        Column(
            name="size_bytes",
            type="bigint",
            unit="bytes",
            doc="Bytes of the replica's `.log` files when they were read.",
            volatile=True,
        ),
        Column(
            name="log_directory",
            type="string",
            doc="Log directory that holds the replica, relative to the source root; of a live cluster the broker's own path.",
        ),
        Column(
            name="configs",
            type="map<string,string>",
            doc="Topic configs that matter: `min.insync.replicas`, `cleanup.policy`, `retention.ms`, `retention.bytes`, `segment.bytes`.",
        ),
        Column(
            name="state_source",
            type="string",
            nullable=False,
            doc="`cluster_metadata`, `live_cluster`, `topics_describe` or `only_replica` (no source names a leader: the only replica found is taken).",
        ),
        RUN_ID,
    ),
)

BROKERS = Table(
    name="bronze.brokers",
    grain="broker x window end",
    key=("cluster", "window_start", "broker_id"),
    partitioned_by=_BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        BROKER_ID,
        Column(name="rack", type="string", doc="Rack, where the broker has one."),
        Column(
            name="is_fenced",
            type="boolean",
            doc="Fenced at the window's end: registered, but not serving. NULL where the source does not say.",
        ),
        Column(
            name="log_directory_count",
            type="bigint",
            nullable=False,
            unit="directories",
            doc="Log directories of the broker that were read or described; 0 where the broker is known but its disks were not found.",
        ),
        Column(
            name="preferred_leader_imbalance_ratio",
            type="double",
            unit="ratio",
            doc="Part of the replicated partitions it is the preferred leader of that it does not lead; NULL without any.",
        ),
        Column(
            name="configs",
            type="map<string,string>",
            doc="Broker configs that matter, where the source tells them.",
        ),
        Column(
            name="state_source",
            type="string",
            nullable=False,
            doc="`cluster_metadata`, `live_cluster`, `topics_describe` or `log_directories`: what named the broker.",
        ),
        RUN_ID,
    ),
)

CONSUMER_GROUPS = Table(
    name="bronze.consumer_groups",
    grain="group x topic-partition x moment",
    key=("cluster", "group_id", "topic", "partition", "observed_at"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        Column(name="observed_at", type="timestamp", nullable=False, doc="When the group was described, UTC."),
        Column(name="group_id", type="string", nullable=False, doc="Consumer group."),
        TOPIC,
        PARTITION,
        Column(name="committed_offset", type="bigint", doc="Committed offset; NULL for none."),
        Column(name="log_end_offset", type="bigint", doc="Log end offset the tool printed."),
        Column(name="lag_count", type="bigint", unit="offsets", doc="Lag the tool printed."),
        Column(name="member_id", type="string", doc="Member that owns the partition; NULL for none."),
        Column(name="client_host", type="string", doc="Host of the member."),
        Column(name="client_id", type="string", doc="`client.id` of the member."),
        Column(name="assignor", type="string", doc="Partition assignor, where the source says."),
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
        Column(name="log_directory", type="string", nullable=False, doc="Log directory, relative to the source root."),
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(name="base_offset", type="bigint", nullable=False, doc="Offset in the file name."),
        Column(name="path", type="string", nullable=False, doc="File, relative to the source root."),
        Column(name="size_bytes", type="bigint", nullable=False, unit="bytes", doc="Size of the `.log` file."),
        Column(
            name="is_scanned",
            type="boolean",
            nullable=False,
            doc="Batches were read (the one copy of the partition that is counted); else the columns from the scan are NULL.",
        ),
        Column(name="first_offset", type="bigint", doc="First offset held."),
        Column(name="last_offset", type="bigint", doc="Last offset held."),
        Column(name="min_timestamp", type="timestamp", doc="Smallest batch timestamp."),
        Column(name="max_timestamp", type="timestamp", doc="Largest batch timestamp."),
        Column(name="batch_count", type="bigint", unit="batches", doc="Record batches (legacy: entries)."),
        Column(name="record_count", type="bigint", unit="records", doc="Records, control records included."),
        Column(name="control_batch_count", type="bigint", unit="batches", doc="Control batches (transaction markers)."),
        Column(
            name="missing_offset_count",
            type="bigint",
            unit="offsets",
            doc="Offsets between batches that no batch covers (compaction, lost segments).",
        ),
        Column(name="producer_id_count", type="bigint", unit="producers", doc="Distinct producer ids, -1 left out."),
        Column(name="crc_error_count", type="bigint", unit="batches", doc="Batches whose CRC does not match."),
        Column(name="magic", type="string", doc="Record formats found, such as `2`."),
        Column(name="codecs", type="string", doc="Codecs found, sorted, comma-separated."),
        Column(
            name="is_active",
            type="boolean",
            nullable=False,
            doc="Newest segment of its partition directory when read.",
            volatile=True,
        ),
        Column(
            name="deletable_at",
            type="timestamp",
            doc="Largest timestamp plus `retention.ms`, where the config is known; NULL for active or compacted.",
        ),
        Column(
            name="problem_count",
            type="bigint",
            nullable=False,
            unit="problems",
            doc="Problems found in this file; see `bronze.quarantine`.",
        ),
        RUN_ID,
    ),
)

METRIC_SAMPLES = Table(
    name="bronze.metric_samples",
    grain="metric sample",
    schema_version=2,
    key=("cluster", "source", "instance", "observed_at", "name", "labels_text"),
    partitioned_by=_BY_DATE,
    is_large=True,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        Column(
            name="observed_at",
            type="timestamp",
            nullable=False,
            doc="Instant of the scrape (Prometheus: of the point), UTC.",
        ),
        Column(
            name="source",
            type="string",
            nullable=False,
            doc="Source kind: `producer_metrics broker_metrics exporter_urls prometheus perf_test_output "
            "librdkafka_statistics`; numbered from the second of a kind on.",
        ),
        Column(
            name="instance",
            type="string",
            nullable=False,
            doc="What was scraped: the producer's client folder, the broker id, Prometheus' `instance`, the file's name.",
        ),
        Column(
            name="name",
            type="string",
            nullable=False,
            doc="Canonical metric name: one for all exporters and versions (jmx_exporter 0.x and 1.x, its example rules).",
        ),
        Column(name="exposed_name", type="string", doc="Metric name as exposed; NULL in rows of before version 2."),
        Column(
            name="labels_text",
            type="string",
            nullable=False,
            doc="Labels, sorted, as `k=v` joined by commas: part of the key.",
        ),
        Column(name="labels", type="map<string,string>", doc="Labels."),
        Column(name="value", type="double", doc="Value; NULL for NaN (never recorded)."),
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
        Column(name="source", type="string", nullable=False, doc="Source kind the input belongs to."),
        Column(
            name="path", type="string", nullable=False, doc="File, relative to the source root where it lies in one."
        ),
        Column(
            name="position",
            type="bigint",
            nullable=False,
            doc="Byte position (line number in text files); -1 for the file as a whole.",
        ),
        Column(name="reason", type="string", nullable=False, doc="What was found and what was expected."),
        Column(
            name="severity",
            type="string",
            nullable=False,
            doc="`refused`: not used from the position on; `suspect`: used, but marked.",
        ),
        Column(
            name="first_bytes_hex",
            type="string",
            nullable=False,
            doc="First bytes at the position, at most 64, in hex.",
        ),
        Column(name="first_seen_at", type="timestamp", doc="The run's now when it was first seen.", volatile=True),
        RUN_ID,
    ),
)

BRONZE = (WINDOW_STATUS, BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, METRIC_SAMPLES, QUARANTINE)
