"""Silver: input cleaned, one copy, one row per fact."""

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

RECORD_BATCHES = Table(
    name="silver.record_batches",
    grain="record batch, one copy of it",
    key=("cluster", "topic", "topic_id", "partition", "base_offset"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(name="base_offset", type="bigint", nullable=False, doc="Offset of the batch's first record."),
        Column(
            name="last_offset",
            type="bigint",
            nullable=False,
            doc="Offset of its last record (kept through compaction).",
        ),
        Column(
            name="leader_id",
            type="bigint",
            nullable=False,
            doc="Broker that led at the batch's leader epoch; -1 unknown.",
        ),
        Column(
            name="leader_epoch", type="bigint", nullable=False, doc="`partitionLeaderEpoch`; -1 for legacy formats."
        ),
        Column(
            name="record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records in the batch, control records included.",
        ),
        Column(
            name="size_bytes",
            type="bigint",
            nullable=False,
            unit="bytes",
            doc="Whole batch on disk, header included, as compressed.",
        ),
        Column(name="codec", type="string", nullable=False, doc="`none gzip snappy lz4 zstd`."),
        Column(name="magic", type="bigint", nullable=False, doc="Record format: 0, 1 or 2."),
        Column(name="timestamp_type", type="string", nullable=False, doc="`CreateTime` or `LogAppendTime`."),
        Column(name="is_transactional", type="boolean", nullable=False, doc="Attribute bit 4."),
        Column(
            name="is_control", type="boolean", nullable=False, doc="Attribute bit 5: transaction marker, no user data."
        ),
        Column(
            name="base_timestamp",
            type="timestamp",
            doc="First record's timestamp; NULL for empty batches and where the field holds the delete horizon.",
        ),
        Column(name="max_timestamp", type="timestamp", doc="Largest timestamp in the batch; NULL where none."),
        Column(
            name="is_time_outlier",
            type="boolean",
            nullable=False,
            doc="Its max timestamp lies more than 24 h from its neighbours: the window follows append order instead.",
        ),
        Column(name="producer_id", type="bigint", nullable=False, doc="Producer id; -1 without idempotence."),
        Column(name="producer_epoch", type="bigint", nullable=False, doc="Producer epoch; -1 without idempotence."),
        Column(
            name="base_sequence",
            type="bigint",
            nullable=False,
            doc="Sequence of the first record; -1 without idempotence.",
        ),
        Column(
            name="missing_offset_count",
            type="bigint",
            nullable=False,
            unit="offsets",
            doc="Offsets before the batch (at a closed segment's end: also after it) that no batch covers.",
        ),
        Column(
            name="lateness_ms",
            type="bigint",
            nullable=False,
            unit="ms",
            doc="How far its max timestamp lies behind the largest earlier one of its segment; 0 in order.",
        ),
        Column(
            name="is_crc_ok",
            type="boolean",
            nullable=False,
            doc="CRC matches; batches that fail are counted by their header and quarantined.",
        ),
        Column(name="segment_base_offset", type="bigint", nullable=False, doc="Segment file the batch was read from."),
        Column(
            name="position",
            type="bigint",
            nullable=False,
            unit="bytes",
            doc="Byte position in that file.",
            volatile=True,
        ),
        RUN_ID,
    ),
)

PARTITION_TRAFFIC = Table(
    name="silver.partition_traffic",
    grain="topic-partition x leader x leader epoch x window",
    key=("cluster", "window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(name="leader_id", type="bigint", nullable=False, doc="Broker that carried the load; -1 unknown."),
        Column(name="leader_epoch", type="bigint", nullable=False, doc="Leader epoch of the batches."),
        Column(name="record_count", type="bigint", nullable=False, unit="records", doc="Data records."),
        Column(
            name="control_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Control records (transaction markers).",
        ),
        Column(name="batch_count", type="bigint", nullable=False, unit="batches", doc="Batches with data."),
        Column(
            name="size_bytes",
            type="bigint",
            nullable=False,
            unit="bytes",
            doc="Batch bytes as on disk, control batches included.",
        ),
        Column(name="first_offset", type="bigint", nullable=False, doc="Smallest offset."),
        Column(name="last_offset", type="bigint", nullable=False, doc="Largest offset."),
        Column(
            name="covered_offset_count",
            type="bigint",
            nullable=False,
            unit="offsets",
            doc="Offsets the batches cover: sum of last - base + 1.",
        ),
        Column(
            name="missing_offset_count",
            type="bigint",
            nullable=False,
            unit="offsets",
            doc="Offsets lost between batches.",
        ),
        Column(
            name="compacted_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records removed from inside batches by compaction: covered offsets less records.",
        ),
        Column(
            name="is_compacted",
            type="boolean",
            nullable=False,
            doc="`cleanup.policy` holds compact: gaps are expected.",
        ),
        Column(
            name="crc_error_count",
            type="bigint",
            nullable=False,
            unit="batches",
            doc="Batches whose CRC does not match.",
        ),
        Column(
            name="producer_count",
            type="bigint",
            nullable=False,
            unit="producers",
            doc="Distinct producer ids (all without one count as one).",
        ),
        Column(name="records_per_batch", type="double", unit="records", doc="Mean records per data batch."),
        Column(
            name="fill_ratio",
            type="double",
            unit="ratio",
            doc="Mean batch bytes over the configured `batch.size` (default 16384); above 1 for batches of one large record.",
        ),
        Column(
            name="batch_bytes_squared",
            type="double",
            nullable=False,
            unit="bytes^2",
            doc="Sum of squared batch bytes: gives the number of independent units behind the load.",
        ),
        Column(name="max_lateness_ms", type="bigint", nullable=False, unit="ms", doc="Largest lateness of a batch."),
        Column(
            name="time_outlier_count",
            type="bigint",
            nullable=False,
            unit="batches",
            doc="Batches placed by append order.",
        ),
        RUN_ID,
    ),
)

PRODUCER_NODES = Table(
    name="silver.producer_nodes",
    grain="producer client x broker x window",
    key=("cluster", "window_start", "instance", "client_id", "broker_id"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        Column(name="instance", type="string", nullable=False, doc="What was scraped."),
        Column(name="client_id", type="string", nullable=False, doc="Producer's `client.id`."),
        BROKER_ID,
        Column(name="sample_count", type="bigint", nullable=False, unit="scrapes", doc="Scrapes in the window."),
        Column(
            name="request_count",
            type="double",
            unit="requests",
            doc="Requests sent to the broker: increase of `request-total`, resets handled.",
        ),
        Column(name="request_rate_per_s", type="double", unit="1/s", doc="Requests per second over the observed span."),
        Column(
            name="outgoing_bytes",
            type="double",
            unit="bytes",
            doc="Increase of `outgoing-byte-total`; all requests of the connection, not only records.",
        ),
        Column(
            name="outgoing_rate_bytes_per_s",
            type="double",
            unit="bytes/s",
            doc="Bytes per second over the observed span.",
        ),
        Column(
            name="request_latency_avg_ms",
            type="double",
            unit="ms",
            doc="Mean over the window's scrapes of `request-latency-avg`, itself an average over Kafka's own 2 x 30 s samples: it trails the window.",
        ),
        Column(
            name="request_latency_max_ms",
            type="double",
            unit="ms",
            doc="Largest `request-latency-max` scraped, over Kafka's own 2 x 30 s samples.",
        ),
        Column(
            name="counter_reset_count",
            type="bigint",
            nullable=False,
            unit="resets",
            doc="Counter resets seen (a restarted client).",
        ),
        Column(
            name="batch_size_avg_bytes",
            type="double",
            unit="bytes",
            doc="Client-wide `batch-size-avg`: bytes per partition and request, compressed.",
        ),
        Column(
            name="records_per_request_avg", type="double", unit="records", doc="Client-wide `records-per-request-avg`."
        ),
        Column(
            name="queue_time_avg_ms",
            type="double",
            unit="ms",
            doc="Client-wide `record-queue-time-avg`: batch creation to drain.",
        ),
        Column(name="throttle_time_avg_ms", type="double", unit="ms", doc="Client-wide `produce-throttle-time-avg`."),
        Column(
            name="requests_in_flight",
            type="double",
            unit="requests",
            doc="Client-wide `requests-in-flight`, mean of the scrapes.",
        ),
        Column(
            name="buffer_available_bytes",
            type="double",
            unit="bytes",
            doc="Client-wide `buffer-available-bytes`, smallest scraped.",
        ),
        RUN_ID,
    ),
)

SILVER = (RECORD_BATCHES, PARTITION_TRAFFIC, PRODUCER_NODES)
