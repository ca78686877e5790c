"""Silver: input cleaned, one copy, one row per fact."""

from __future__ import annotations

from pipeline.tables.columns import bigint, boolean, double, string, timestamp
from pipeline.tables.table import (
    BROKER_ID,
    BY_DATE,
    DATED_WINDOW,
    PARTITION_COLUMNS,
    RUN_ID,
    TOPIC_COLUMNS,
    Column,
    Table,
)

RECORDS_PER_ROW = 1 << 20  # at most so many records a row: more of one minute go on in further parts

ARRIVALS = Table(
    name="silver.arrivals",
    grain="producer session x topic x minute x timestamp type x part, in the window of its batches",
    key=(
        *("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
        *("minute_start", "timestamp_type", "part"),
    ),
    partitioned_by=BY_DATE,
    columns=(
        *DATED_WINDOW,
        *TOPIC_COLUMNS,
        bigint("producer_id", "Producer id; -1 for all producers without idempotence, which look alike in batches."),
        bigint(
            "producer_epoch",
            "Producer epoch; -1 where pooled or transactional: newer clients raise it with every transaction, so all epochs are one session.",
        ),
        timestamp(
            "minute_start",
            "UTC minute the records were created in; it may be before the window, which is that of the batch's newest record.",
        ),
        string(
            "timestamp_type",
            "`CreateTime`; with `LogAppendTime` all records of a batch have the time of its append: how they arrived is lost.",
        ),
        bigint("part", "0, 1, ... in order of time, where a minute has more than 1,048,576 records."),
        bigint(
            "record_count",
            "Data records, the length of the arrays; with `unreadable_record_count` as many as in `silver.partition_traffic`.",
            "records",
        ),
        bigint(
            "unreadable_record_count",
            "Records of batches that could not be read, by their headers; not in the arrays.",
            "records",
        ),
        bigint("aborted_record_count", "Records of aborted transactions; in the arrays, as they were load.", "records"),
        bigint(
            "outlier_record_count",
            "Records without a timestamp, or with one more than 10 minutes before their batch's newest, or in a batch whose timestamp is out of line: they are placed at the record ahead of them in the batch, else at the batch's event time.",
            "records",
        ),
        bigint(
            "late_record_count",
            "Records with a timestamp before that of the one ahead in the batch: not one thread's clock.",
            "records",
        ),
        Column(
            "gap_ms",
            "array<int>",
            "By record in order of time: milliseconds after the one before; of the first, after `minute_start`. Within a millisecond the order is drawn from sizes and keys, never from the partition.",
            nullable=False,
        ),
        Column(
            "body_bytes",
            "array<int>",
            "By record: bytes before compression, with offset and timestamp deltas of one byte each and without the length in front.",
            nullable=False,
        ),
        Column(
            "partition",
            "array<int>",
            "By record: where it was written; no replay of keyless records reads it.",
            nullable=False,
        ),
        Column(
            "key_index",
            "array<int>",
            "By record: index into `keys` from 0; -1 a null key; where no key ids are stored -2 a key and -3 an empty one.",
            nullable=False,
        ),
        Column(
            "keys",
            "array<bigint>",
            "The row's distinct keys, rising: the first 16 hex digits of `key_id` in `silver.key_hashes`, as a signed number.",
            nullable=False,
        ),
        string("count_kind", "`exact`, or `sampled`: of a part of the window's time or partitions, no others."),
        double(
            "sampling_rate",
            "Part of the window's time that was read, times the part of the partitions; 1 for all.",
            "ratio",
            nullable=False,
        ),
        RUN_ID,
    ),
)


RECORD_BATCHES = Table(
    name="silver.record_batches",
    grain="record batch, one copy of it",
    key=("cluster", "topic", "topic_id", "partition", "base_offset"),
    partitioned_by=BY_DATE,
    columns=(
        *DATED_WINDOW,
        *PARTITION_COLUMNS,
        bigint("base_offset", "Offset of the batch's first record."),
        bigint("last_offset", "Offset of its last record (kept through compaction)."),
        bigint("leader_id", "Broker that led at the batch's leader epoch; -1 unknown."),
        bigint("leader_epoch", "`partitionLeaderEpoch`; -1 for legacy formats."),
        bigint("record_count", "Records in the batch, control records included.", "records"),
        bigint("size_bytes", "Whole batch on disk, header included, as compressed."),
        string("codec", "`none gzip snappy lz4 zstd`."),
        bigint("magic", "Record format: 0, 1 or 2."),
        string("timestamp_type", "`CreateTime` or `LogAppendTime`."),
        boolean("is_transactional", "Attribute bit 4."),
        boolean("is_control", "Attribute bit 5: transaction marker, no user data."),
        timestamp("base_timestamp", "First record's timestamp; NULL if empty or a delete horizon.", nullable=True),
        timestamp("max_timestamp", "Largest timestamp in the batch; NULL where none.", nullable=True),
        boolean("is_time_outlier", "Max timestamp over 24 h from its neighbours: the window follows append order."),
        bigint("producer_id", "Producer id; -1 without idempotence."),
        bigint("producer_epoch", "Producer epoch; -1 without idempotence."),
        bigint("base_sequence", "Sequence of the first record; -1 without idempotence."),
        bigint(
            "missing_offset_count",
            "Offsets before the batch (at a closed segment's end: also after it) that no batch covers.",
            "offsets",
        ),
        bigint("lateness_ms", "How far its max timestamp is behind the segment's largest earlier one; else 0."),
        boolean("is_crc_ok", "CRC matches; batches that fail are counted by their header and quarantined."),
        bigint("segment_base_offset", "Segment file the batch was read from."),
        bigint("position", "Byte position in that file.", "bytes", volatile=True),
        RUN_ID,
    ),
)

PARTITION_TRAFFIC = Table(
    name="silver.partition_traffic",
    grain="topic-partition x leader x leader epoch x window",
    key=("cluster", "window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch"),
    partitioned_by=BY_DATE,
    schema_version=2,
    columns=(
        *DATED_WINDOW,
        *PARTITION_COLUMNS,
        bigint("leader_id", "Broker that carried the load; -1 unknown."),
        bigint("leader_epoch", "Leader epoch of the batches."),
        bigint("record_count", "Data records.", "records"),
        bigint("control_record_count", "Control records (transaction markers).", "records"),
        bigint("batch_count", "Batches with data.", "batches"),
        bigint("size_bytes", "Batch bytes as on disk, control batches included."),
        bigint("first_offset", "Smallest offset."),
        bigint("last_offset", "Largest offset."),
        bigint("covered_offset_count", "Offsets the batches cover: sum of last - base + 1.", "offsets"),
        bigint("missing_offset_count", "Offsets lost between batches.", "offsets"),
        bigint("compacted_record_count", "Records compaction took: covered offsets less records.", "records"),
        boolean("is_compacted", "`cleanup.policy` holds compact: gaps are expected."),
        bigint("crc_error_count", "Batches whose CRC does not match.", "batches"),
        bigint("producer_count", "Distinct producer ids (all without one count as one).", "producers"),
        double("records_per_batch", "Mean records per data batch.", "records"),
        double("fill_ratio", "Mean batch bytes over `batch.size` (or 16384); above 1 for one large record."),
        double("batch_bytes_squared", "Sum of squared batch bytes: gives unit counts.", "bytes^2", nullable=False),
        bigint("max_lateness_ms", "Largest lateness of a batch."),
        bigint("time_outlier_count", "Batches placed by append order.", "batches"),
        string(
            "count_kind",
            "`exact` = from record batches; `sampled` = from a part of them, divided by `sampling_rate`; `upper_bound` = from offsets (records) and log sizes (bytes; batches taken as full ones). NULL in rows of older versions: exact.",
            nullable=True,
        ),
        double(
            "sampling_rate",
            "Part of the window's time whose batches were read: 1 for all, 0 where only offsets were looked up.",
            "ratio",
        ),
        RUN_ID,
    ),
)

PRODUCER_NODES = Table(
    name="silver.producer_nodes",
    grain="producer client x broker x window",
    key=("cluster", "window_start", "instance", "client_id", "broker_id"),
    partitioned_by=BY_DATE,
    schema_version=4,
    columns=(
        *DATED_WINDOW,
        string("instance", "What was scraped."),
        string("source", "Source kind; of several about a client the nearest counts.", nullable=True),
        string("client_id", "Producer's `client.id`."),
        BROKER_ID,
        bigint("sample_count", "Scrapes in the window.", "scrapes"),
        double("request_count", "Requests (`request-total`; librdkafka: `tx`), restarts and gaps handled.", "requests"),
        double("request_rate_per_s", "Requests per second over the observed span."),
        double("outgoing_bytes", "Increase of `outgoing-byte-total` (librdkafka: `txbytes`), all requests."),
        double("outgoing_rate_bytes_per_s", "Bytes per second over the observed span.", "bytes/s"),
        double(
            "request_latency_avg_ms",
            "Mean over the window's scrapes of `request-latency-avg`, itself an average over Kafka's own 2 x 30 s samples: it trails the window by up to a minute and is no average of the window. librdkafka: mean of `rtt` averages since the statistics before.",
        ),
        double(
            "request_latency_max_ms",
            "Largest `request-latency-max` scraped, over Kafka's own 2 x 30 s samples; librdkafka: of `rtt`.",
        ),
        bigint("counter_reset_count", "Counter resets seen (a restarted client).", "resets"),
        double("batch_size_avg_bytes", "Client-wide `batch-size-avg`: compressed, per partition and request."),
        double("records_per_request_avg", "Client-wide `records-per-request-avg`.", "records"),
        double("queue_time_avg_ms", "Client-wide `record-queue-time-avg`: batch creation to drain."),
        double(
            "queue_time_max_ms",
            "Largest client-wide `record-queue-time-max` scraped; librdkafka: of the broker's `int_latency`.",
        ),
        double("throttle_time_avg_ms", "Client-wide `produce-throttle-time-avg`."),
        double("throttle_time_max_ms", "Largest client-wide `produce-throttle-time-max` scraped."),
        double("requests_in_flight", "Client-wide `requests-in-flight`, mean of the scrapes.", "requests"),
        double("buffer_available_bytes", "Client-wide `buffer-available-bytes`, smallest scraped."),
        double("buffer_total_bytes", "`buffer.memory`; librdkafka: `queue.buffering.max.kbytes`."),
        double(
            "buffer_blocked_ratio",
            "Part of the observed time that threads waited for buffer memory (`bufferpool-wait-time-ns-total`); above 1 for several.",
        ),
        double("record_rate_per_s", "Client-wide records sent: `record-send-total` (librdkafka: `txmsgs`)."),
        double(
            "error_rate_per_s",
            "Client-wide `record-error-total` per second; librdkafka: failed requests to the broker (`txerrs`).",
        ),
        double(
            "retry_rate_per_s",
            "Client-wide `record-retry-total` per second; librdkafka: repeated requests to the broker (`txretries`).",
        ),
        bigint(
            "gap_count",
            "Intervals over three times the configured one; only their part in the window counts.",
            "gaps",
            nullable=True,
        ),
        bigint("covered_ms", "Time that the increases stand for; less where samples are missing.", nullable=True),
        double(
            "inner_bytes",
            "Of `outgoing_bytes`, those between two scrapes within the window; NULL where there are none, or something between them is missing.",
            "bytes",
        ),
        timestamp("inner_from", "The first of these scrapes.", nullable=True),
        timestamp("inner_until", "The last of them.", nullable=True),
        string("client_version", "Version of the Java client, where a source names it (`app-info`).", nullable=True),
        Column(
            "client_config",
            "map<string,string>",
            "Settings of the client by its own names, from its metrics and the configuration; NULL where neither has any.",
        ),
        RUN_ID,
    ),
)

SILVER = (RECORD_BATCHES, PARTITION_TRAFFIC, PRODUCER_NODES)
