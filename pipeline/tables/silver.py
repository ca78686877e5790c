"""Silver: input cleaned, one copy, one row per fact."""

from __future__ import annotations

from pipeline.tables.columns import flag, instant, number, text, whole
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
    is_large=True,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        whole("base_offset", "Offset of the batch's first record."),
        whole("last_offset", "Offset of its last record (kept through compaction)."),
        whole("leader_id", "Broker that led at the batch's leader epoch; -1 unknown."),
        whole("leader_epoch", "`partitionLeaderEpoch`; -1 for legacy formats."),
        whole("record_count", "Records in the batch, control records included.", "records"),
        whole("size_bytes", "Whole batch on disk, header included, as compressed.", "bytes"),
        text("codec", "`none gzip snappy lz4 zstd`."),
        whole("magic", "Record format: 0, 1 or 2."),
        text("timestamp_type", "`CreateTime` or `LogAppendTime`."),
        flag("is_transactional", "Attribute bit 4."),
        flag("is_control", "Attribute bit 5: transaction marker, no user data."),
        instant(
            "base_timestamp",
            "First record's timestamp; NULL for empty batches and where the field holds the delete horizon.",
            nullable=True,
        ),
        instant("max_timestamp", "Largest timestamp in the batch; NULL where none.", nullable=True),
        flag(
            "is_time_outlier",
            "Its max timestamp lies more than 24 h from its neighbours: the window follows append order instead.",
        ),
        whole("producer_id", "Producer id; -1 without idempotence."),
        whole("producer_epoch", "Producer epoch; -1 without idempotence."),
        whole("base_sequence", "Sequence of the first record; -1 without idempotence."),
        whole(
            "missing_offset_count",
            "Offsets before the batch (at a closed segment's end: also after it) that no batch covers.",
            "offsets",
        ),
        whole(
            "lateness_ms",
            "How far its max timestamp lies behind the largest earlier one of its segment; 0 in order.",
            "ms",
        ),
        flag("is_crc_ok", "CRC matches; batches that fail are counted by their header and quarantined."),
        whole("segment_base_offset", "Segment file the batch was read from."),
        whole("position", "Byte position in that file.", "bytes", volatile=True),
        RUN_ID,
    ),
)

PARTITION_TRAFFIC = Table(
    name="silver.partition_traffic",
    grain="topic-partition x leader x leader epoch x window",
    key=("cluster", "window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch"),
    partitioned_by=_BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        whole("leader_id", "Broker that carried the load; -1 unknown."),
        whole("leader_epoch", "Leader epoch of the batches."),
        whole("record_count", "Data records.", "records"),
        whole("control_record_count", "Control records (transaction markers).", "records"),
        whole("batch_count", "Batches with data.", "batches"),
        whole("size_bytes", "Batch bytes as on disk, control batches included.", "bytes"),
        whole("first_offset", "Smallest offset."),
        whole("last_offset", "Largest offset."),
        whole("covered_offset_count", "Offsets the batches cover: sum of last - base + 1.", "offsets"),
        whole("missing_offset_count", "Offsets lost between batches.", "offsets"),
        whole(
            "compacted_record_count",
            "Records removed from inside batches by compaction: covered offsets less records.",
            "records",
        ),
        flag("is_compacted", "`cleanup.policy` holds compact: gaps are expected."),
        whole("crc_error_count", "Batches whose CRC does not match.", "batches"),
        whole("producer_count", "Distinct producer ids (all without one count as one).", "producers"),
        number("records_per_batch", "Mean records per data batch.", "records"),
        number(
            "fill_ratio",
            "Mean batch bytes over the configured `batch.size` (default 16384); above 1 for batches of one large record.",
            "ratio",
        ),
        number(
            "batch_bytes_squared",
            "Sum of squared batch bytes: gives the number of independent units behind the load.",
            "bytes^2",
            nullable=False,
        ),
        whole("max_lateness_ms", "Largest lateness of a batch.", "ms"),
        whole("time_outlier_count", "Batches placed by append order.", "batches"),
        text(
            "count_kind",
            "`exact` = from record batches; `sampled` = from a part of them, divided by `sampling_rate`; `upper_bound` = from offsets (records) and log sizes (bytes; batches taken as full ones). NULL in rows of older versions: exact.",
            nullable=True,
        ),
        number(
            "sampling_rate",
            "Part of the window's time whose batches were read; 1 for all, 0 where only offsets were looked up.",
            "ratio",
        ),
        RUN_ID,
    ),
)

PRODUCER_NODES = Table(
    name="silver.producer_nodes",
    grain="producer client x broker x window",
    key=("cluster", "window_start", "instance", "client_id", "broker_id"),
    partitioned_by=_BY_DATE,
    schema_version=2,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        text("instance", "What was scraped."),
        text(
            "source",
            "Source kind; of several that tell of a client in a window the nearest to it counts.",
            nullable=True,
        ),
        text("client_id", "Producer's `client.id`."),
        BROKER_ID,
        whole("sample_count", "Scrapes in the window.", "scrapes"),
        number(
            "request_count",
            "Requests sent to the broker: increase of `request-total` (librdkafka: `tx`), restarts and gaps handled.",
            "requests",
        ),
        number("request_rate_per_s", "Requests per second over the observed span.", "1/s"),
        number(
            "outgoing_bytes",
            "Increase of `outgoing-byte-total` (librdkafka: `txbytes`); all requests of the connection, not only records.",
            "bytes",
        ),
        number("outgoing_rate_bytes_per_s", "Bytes per second over the observed span.", "bytes/s"),
        number(
            "request_latency_avg_ms",
            "Mean over the window's scrapes of `request-latency-avg`, itself an average over Kafka's own 2 x 30 s samples: it trails the window by up to a minute and is no average of the window. librdkafka: mean of `rtt` averages since the statistics before.",
            "ms",
        ),
        number(
            "request_latency_max_ms",
            "Largest `request-latency-max` scraped, over Kafka's own 2 x 30 s samples; librdkafka: of `rtt`.",
            "ms",
        ),
        whole("counter_reset_count", "Counter resets seen (a restarted client).", "resets"),
        number(
            "batch_size_avg_bytes",
            "Client-wide `batch-size-avg`: bytes per partition and request, compressed.",
            "bytes",
        ),
        number("records_per_request_avg", "Client-wide `records-per-request-avg`.", "records"),
        number("queue_time_avg_ms", "Client-wide `record-queue-time-avg`: batch creation to drain.", "ms"),
        number("throttle_time_avg_ms", "Client-wide `produce-throttle-time-avg`.", "ms"),
        number("requests_in_flight", "Client-wide `requests-in-flight`, mean of the scrapes.", "requests"),
        number("buffer_available_bytes", "Client-wide `buffer-available-bytes`, smallest scraped.", "bytes"),
        number(
            "buffer_total_bytes",
            "`buffer.memory` as the client tells it (`buffer-total-bytes`); librdkafka: `queue.buffering.max.kbytes`.",
            "bytes",
        ),
        number(
            "buffer_blocked_ratio",
            "Share of the observed time that threads waited for buffer memory: increase of `bufferpool-wait-time-ns-total`; above 1 where several threads wait.",
            "ratio",
        ),
        number(
            "record_rate_per_s",
            "Client-wide records sent per second: increase of `record-send-total` (librdkafka: `txmsgs`).",
            "1/s",
        ),
        number(
            "error_rate_per_s",
            "Client-wide `record-error-total` per second; librdkafka: failed requests of the broker (`txerrs`).",
            "1/s",
        ),
        number(
            "retry_rate_per_s",
            "Client-wide `record-retry-total` per second; librdkafka: repeated requests of the broker (`txretries`).",
            "1/s",
        ),
        whole(
            "gap_count",
            "Intervals longer than three times the configured one; only their share within the window is counted.",
            "gaps",
            nullable=True,
        ),
        whole(
            "covered_ms",
            "Time that the increases stand for; less than the window where samples are missing.",
            "ms",
            nullable=True,
        ),
        text(
            "client_version",
            "Version of the Java client, where a source tells it (`app-info` in the output of kafka-producer-perf-test).",
            nullable=True,
        ),
        Column(
            name="client_config",
            type="map<string,string>",
            doc="Settings of the client by its own names: buffer sizes as its metrics tell them, and what the configuration says; NULL where nobody tells any.",
        ),
        RUN_ID,
    ),
)

SILVER = (RECORD_BATCHES, PARTITION_TRAFFIC, PRODUCER_NODES)
