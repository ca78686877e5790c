"""Bronze: input as found."""

from pipeline.tables.table import BROKER_ID, BY_DATE, DATED_WINDOW, PARTITION, PARTITION_COLUMNS, RUN_ID, TOPIC, Column, Table, bigint, boolean, dated, double, of_cluster, string, timestamp

NOT_AS_HOSTS_SAY = "not as hosts say:"
"""In `missing` of a collected window: parts were lost, or hold other rows than their host counted."""

WINDOW_STATUS = Table(
    name="bronze.window_status",
    grain="window x source: what was expected and what arrived; written last, it vouches for the other tables",
    key=("cluster", "window_start", "source"), partitioned_by=BY_DATE, schema_version=3,
    columns=(
        *DATED_WINDOW,
        timestamp("window_end", "End of the window, exclusive, UTC."),
        string("source", "Source kind; metrics sources are numbered from the second of a kind on: `prometheus-2`."),
        bigint("expected_count", "Items expected: brokers for log directories, brokers and partitions for a live cluster, scrapes for metrics, and partitions whose leader is not known; NULL where nothing can be expected.", "items", nullable=True),
        bigint("arrived_count", "Items that arrived.", "items"),
        string("missing", "What did not arrive and why, the first few by name; NULL where nothing is missing or the source cannot say.", nullable=True, volatile=True),
        bigint("row_count", "Rows this source gave the window: record batches, samples, replicas.", "rows"),
        bigint("problem_count", "Quarantined problems of the source, all windows.", "problems", volatile=True),
        timestamp("newest_at", "Newest instant the source had data for when it was read, over all windows.", nullable=True, volatile=True),
        timestamp("as_of", "The run's now: the clock for live sources, the end of the recording for recorded ones."),
        boolean("source_expired", "A rerun found less than is stored (retention): the stored rows were kept."),
        boolean("is_trusted", "True once the data gate passed over the window, NULL before. Health is judged over trusted windows only.", nullable=True),
        Column("table_versions", "map<string,bigint>", "Delta version of each table it vouches for.", volatile=True),
        RUN_ID,
        timestamp("committed_at", "Clock when the row was written.", nullable=True, volatile=True),
        bigint("tries", "Commits of the window since the data gate last passed over it; no run takes it up after the sixth.", nullable=True, volatile=True),
    ),
)  # fmt: skip  # a table: short fields share a line

CLUSTER_STATE = dated(
    "bronze.cluster_state", "topic-partition x replica x window end",
    ("cluster", "window_start", "topic", "topic_id", "partition", "replica_id"),
    *PARTITION_COLUMNS,
    timestamp("observed_at", "When this was the state; NULL if unknown.", nullable=True, volatile=True),
    bigint("replica_id", "Broker that holds the replica."),
    bigint("replica_position", "Place in the replica list; 0 is the preferred leader."),
    bigint("leader_id", "Leader at the window's end; -1 for none or unknown."),
    bigint("leader_epoch", "Its leader epoch; NULL if unknown.", nullable=True),
    bigint("observed_leader_id", "Leader when a live cluster was asked.", nullable=True, volatile=True),
    bigint("observed_leader_epoch", "Its leader epoch.", nullable=True, volatile=True),
    boolean("is_leader", "This replica leads."),
    boolean("is_preferred_leader", "This replica stands first in the replica list."),
    boolean("is_in_sync", "In the in-sync replica set; NULL where the source does not say.", nullable=True),
    string("reassignment", "`adding` or `removing` while a reassignment runs, `moving` where only its running is known; else NULL.", nullable=True),
    bigint("log_start_offset", "First offset that could be read when it was read.", nullable=True, volatile=True),
    bigint("log_end_offset", "Next offset of this replica's log when it was read; of a live cluster the high watermark less the replica's lag.", nullable=True, volatile=True),
    bigint("high_watermark", "By the checkpoint file or leader when read.", nullable=True, volatile=True),
    bigint("lag_count", "Leader's log end offset less this one's.", "offsets", nullable=True, volatile=True),
    bigint("size_bytes", "Bytes of its `.log` files when read.", nullable=True, volatile=True),
    string("log_directory", "Log directory of the replica, relative to the source's root; of a live cluster the broker's own path.", nullable=True),
    Column("configs", "map<string,string>", "Topic configs that matter: `min.insync.replicas`, `cleanup.policy`, `retention.ms`, `retention.bytes`, `segment.bytes`, `message.timestamp.after.max.ms`."),
    string("state_source", "`cluster_metadata live_cluster topics_describe`; `only_replica`: no source names a leader, so the only replica found leads."),
    schema_version=3,
)  # fmt: skip  # a table: short fields share a line

BROKERS = dated(
    "bronze.brokers", "broker x window end", ("cluster", "window_start", "broker_id"),
    BROKER_ID,
    string("rack", "Rack, where the broker has one.", nullable=True),
    timestamp("observed_at", "When this was the state; NULL if unknown.", nullable=True, volatile=True),
    boolean("is_fenced", "Fenced at the window's end: registered, not serving; NULL if not said.", nullable=True),
    bigint("away_ms", "How long it was out of the cluster; NULL if unknown.", nullable=True),
    boolean("takes_replicas", "False where Kafka would place no new replica: it is not registered, all its log directories are cordoned, or `doubt` says something; NULL where the source registers no brokers.", nullable=True),
    string("doubt", "Records of the metadata log about brokers that could not be read: rack and fencing may be wrong; NULL without any.", nullable=True),
    bigint("log_directory_count", "Log directories read or described; 0 where the broker is known but its disks were not found.", "directories"),
    double("preferred_leader_imbalance_ratio", "Part of the replicated partitions that prefer it as leader and that it does not lead; NULL without any."),
    Column("configs", "map<string,string>", "Broker configs that matter, where known."),
    Column("log_dir_bytes", "map<string,bigint>", "Bytes by log directory, when read.", volatile=True),
    Column("log_dir_total_bytes", "map<string,bigint>", "Size of the volume of each log directory (DescribeLogDirs of brokers from 3.3 on).", volatile=True),
    Column("log_dir_usable_bytes", "map<string,bigint>", "What is left of it.", volatile=True),
    string("state_source", "Named by: `cluster_metadata live_cluster topics_describe log_directories`."),
    schema_version=5,
)  # fmt: skip  # a table: short fields share a line

CONSUMER_GROUPS = dated(
    "bronze.consumer_groups", "group x topic-partition x moment",
    ("cluster", "group_id", "topic", "partition", "observed_at"),
    timestamp("observed_at", "When the group was described, UTC."),
    string("group_id", "Consumer group."),
    TOPIC, PARTITION,
    bigint("committed_offset", "Committed offset; NULL for none.", nullable=True),
    bigint("log_end_offset", "Log end offset the tool printed.", nullable=True),
    bigint("lag_count", "Lag the tool printed.", "offsets", nullable=True),
    string("member_id", "Member that owns the partition; NULL for none.", nullable=True),
    string("client_host", "Host of the member.", nullable=True),
    string("client_id", "`client.id` of the member.", nullable=True),
    string("assignor", "Partition assignor, where the source says.", nullable=True),
)  # fmt: skip  # a table: short fields share a line

LOG_SEGMENTS = of_cluster(
    "bronze.log_segments", "segment file of a replica",
    ("cluster", "broker_id", "log_directory", "topic", "topic_id", "partition", "base_offset"),
    BROKER_ID,
    string("log_directory", "Log directory, relative to the source root."),
    *PARTITION_COLUMNS,
    bigint("base_offset", "Offset in the file name."),
    string("path", "File, relative to the source root."),
    bigint("size_bytes", "Size of the `.log` file."),
    boolean("is_scanned", "The copy of the partition whose batches were read; else scan columns are NULL."),
    bigint("first_offset", "First offset held.", nullable=True),
    bigint("last_offset", "Last offset held.", nullable=True),
    timestamp("min_timestamp", "Smallest batch timestamp.", nullable=True),
    timestamp("max_timestamp", "Largest batch timestamp.", nullable=True),
    bigint("batch_count", "Record batches (legacy: entries).", "batches", nullable=True),
    bigint("record_count", "Records, control records included.", "records", nullable=True),
    bigint("control_batch_count", "Control batches (transaction markers).", "batches", nullable=True),
    bigint("missing_offset_count", "Offsets no batch covers (compaction, loss).", "offsets", nullable=True),
    bigint("producer_id_count", "Distinct producer ids, -1 left out.", "producers", nullable=True),
    bigint("crc_error_count", "Batches whose CRC does not match.", "batches", nullable=True),
    string("magic", "Record formats found, such as `2`.", nullable=True),
    string("codecs", "Codecs found, sorted, comma-separated.", nullable=True),
    boolean("is_active", "Newest segment of its partition directory when read.", volatile=True),
    timestamp("deletable_at", "Largest timestamp plus `retention.ms`; NULL if active, compacted, or without a known config.", nullable=True),
    bigint("problem_count", "Problems found in this file; see `bronze.quarantine`.", "problems"),
    partitioned_by=("cluster",), write_mode="merge",
)  # fmt: skip  # a table: short fields share a line

METRIC_SAMPLES = dated(
    "bronze.metric_samples", "metric sample", ("cluster", "source", "instance", "observed_at", "name", "labels_text"),
    timestamp("observed_at", "Instant of the scrape (Prometheus: of the point), UTC."),
    string("source", "Source kind: `producer_metrics broker_metrics exporter_urls prometheus librdkafka_statistics`; numbered from the second of a kind on."),
    string("instance", "What was scraped: client folder, broker id, Prometheus' `instance`, or file name."),
    string("name", "Canonical metric name, one for all exporters and their versions."),
    string("exposed_name", "Metric name as exposed; NULL in rows of before version 2.", nullable=True),
    string("labels_text", "Labels, sorted, as `k=v` joined by commas, which have a backslash before them within a label, as `=` and `\\` have: part of the key."),
    Column("labels", "map<string,string>", "Labels."),
    double("value", "Value; NULL for NaN (never recorded)."),
    schema_version=2,
)  # fmt: skip  # a table: short fields share a line

QUARANTINE = of_cluster(
    "bronze.quarantine", "input refused or suspect: file, position, reason", ("cluster", "path", "position", "reason"),
    string("source", "Source kind the input belongs to."),
    string("path", "File, relative to the source root where it lies in one."),
    bigint("position", "Byte position (line number in text files); -1 for the file as a whole."),
    string("reason", "What was found and what was expected."),
    string("severity", "`refused`: not used from the position on; `suspect`: used, but marked."),
    string("first_bytes_hex", "Of a batch its header in hex, of an index or snapshot at most 64 bytes; nothing of texts and of what may be records."),
    timestamp("first_seen_at", "The run's now when it was first seen.", nullable=True, volatile=True),
    partitioned_by=("cluster",), write_mode="merge",
)  # fmt: skip  # a table: short fields share a line

BRONZE = (WINDOW_STATUS, BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, METRIC_SAMPLES, QUARANTINE)
