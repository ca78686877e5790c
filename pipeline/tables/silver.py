"""Silver: input cleaned, one copy, one row per fact; and what producers were like and how long brokers took, as a replay takes both."""

from pipeline.tables.table import BROKER_ID, PARTITION_COLUMNS, TOPIC_COLUMNS, Column, bigint, boolean, dated, double, string, timestamp

RECORDS_PER_ROW = 1 << 20  # at most so many records a row: more of one minute go on in further parts

ARRIVALS = dated(
    "silver.arrivals", "producer session x topic x minute x timestamp type x part, in the window of its batches",
    (*("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"), *("minute_start", "timestamp_type", "part")),
    *TOPIC_COLUMNS,
    bigint("producer_id", "Producer id; -1 for all producers without idempotence, which look alike in batches."),
    bigint("producer_epoch", "Producer epoch; -1 where pooled or transactional: newer clients raise it with every transaction, so all epochs are one session."),
    timestamp("minute_start", "UTC minute the records were created in; it may be before the window, which is that of the batch's newest record."),
    string("timestamp_type", "`CreateTime`; with `LogAppendTime` all records of a batch have the time of its append: how they arrived is lost."),
    bigint("part", "0, 1, ... in order of time, where a minute has more than 1,048,576 records."),
    bigint("record_count", "Data records, the length of the arrays; with `unreadable_record_count` as many as in `silver.partition_traffic`.", "records"),
    bigint("unreadable_record_count", "Records of batches that could not be read, by their headers; not in the arrays.", "records"),
    bigint("aborted_record_count", "Records of aborted transactions; in the arrays, as they were load.", "records"),
    bigint("outlier_record_count", "Records without a timestamp, or with one more than 10 minutes before their batch's newest, or in a batch whose timestamp is out of line: they are placed at the record ahead of them in the batch, else at the batch's event time.", "records"),
    bigint("late_record_count", "Records with a timestamp before that of the one ahead in the batch: not one thread's clock.", "records"),
    Column("gap_ms", "array<int>", "By record in order of time: milliseconds after the one before; of the first, after `minute_start`. Within a millisecond the order is drawn from sizes and keys, never from the partition.", nullable=False),
    Column("body_bytes", "array<int>", "By record: bytes before compression, with offset and timestamp deltas of one byte each and without the length in front.", nullable=False),
    Column("partition", "array<int>", "By record: where it was written; no replay of keyless records reads it.", nullable=False),
    Column("key_index", "array<int>", "By record: index into `keys` from 0; -1 a null key; where no key ids are stored -2 a key and -3 an empty one.", nullable=False),
    Column("keys", "array<bigint>", "The row's distinct keys, rising: the first 16 hex digits of `key_id` in `silver.key_hashes`, as a signed number.", nullable=False),
    string("count_kind", "`exact`, or `sampled`: of a part of the window's time or partitions, no others."),
    double("sampling_rate", "Part of the window's time that was read, times the part of the partitions; 1 for all.", "ratio", nullable=False),
    bigint("key_digest", "Sum over the records of all parts, in the first one, modulo 2^64: the first 6 hex digits of the key's id, times one more than the partition, times one more than the record's `size_bytes` as in `silver.key_traffic`; NULL if written by an older version.", nullable=True),
    schema_version=2,
)  # fmt: skip  # a table: short fields share a line
RECORD_BATCHES = dated(
    "silver.record_batches", "record batch, one copy of it",
    ("cluster", "topic", "topic_id", "partition", "base_offset"),
    *PARTITION_COLUMNS,
    bigint("base_offset", "Offset of the batch's first record."),
    bigint("last_offset", "Offset of its last record (kept through compaction)."),
    bigint("leader_id", "Who led at the batch's leader epoch, or when the window began if it had ended; -1 unknown."),
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
    bigint("missing_offset_count", "Offsets before the batch (at a closed segment's end: also after it) that no batch covers.", "offsets"),
    bigint("lateness_ms", "How far its max timestamp is behind the segment's largest earlier one; else 0."),
    boolean("is_crc_ok", "CRC matches; batches that fail are counted by their header and quarantined."),
    bigint("segment_base_offset", "Segment file the batch was read from."),
    bigint("position", "Byte position in that file.", "bytes", volatile=True),
)  # fmt: skip  # a table: short fields share a line

PARTITION_TRAFFIC = dated(
    "silver.partition_traffic", "topic-partition x leader x leader epoch x window",
    ("cluster", "window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch"),
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
    string("count_kind", "`exact` = from record batches; `sampled` = from a part of them, divided by `sampling_rate`; `upper_bound` = from offsets (records) and log sizes (bytes; batches taken as full ones). NULL in rows of older versions: exact.", nullable=True),
    double("sampling_rate", "Part of the window's time whose batches were read: 1 for all, 0 where only offsets were looked up.", "ratio"),
    schema_version=2,
)  # fmt: skip  # a table: short fields share a line

PRODUCER_NODES = dated(
    "silver.producer_nodes", "producer client x broker x window",
    ("cluster", "window_start", "instance", "client_id", "broker_id"),
    string("instance", "What was scraped; of a client that pushes its metrics to brokers its instance id."),
    string("source", "Source kind; of several about a client the nearest counts.", nullable=True),
    string("client_id", "Producer's `client.id`."),
    BROKER_ID,
    bigint("sample_count", "Scrapes in the window.", "scrapes"),
    double("request_count", "Requests (`request-total`; librdkafka: `tx`), restarts and gaps handled.", "requests"),
    double("request_rate_per_s", "Requests per second over the observed span."),
    double("outgoing_bytes", "Increase of `outgoing-byte-total` (librdkafka: `txbytes`), all requests."),
    double("outgoing_rate_bytes_per_s", "Bytes per second over the observed span.", "bytes/s"),
    double("request_latency_avg_ms", "Mean over the window's scrapes of `request-latency-avg`, itself an average over Kafka's own 2 x 30 s samples: it trails the window by up to a minute and is no average of the window. librdkafka: mean of `rtt` averages since the statistics before."),
    double("request_latency_max_ms", "Largest `request-latency-max` scraped, over Kafka's own 2 x 30 s samples; librdkafka: of `rtt`."),
    bigint("counter_reset_count", "Counter resets seen (a restarted client).", "resets"),
    double("batch_size_avg_bytes", "Client-wide `batch-size-avg`: compressed, per partition and request."),
    double("records_per_request_avg", "Client-wide `records-per-request-avg`.", "records"),
    double("queue_time_avg_ms", "Client-wide `record-queue-time-avg`: batch creation to drain."),
    double("queue_time_max_ms", "Largest client-wide `record-queue-time-max` scraped; librdkafka: of the broker's `int_latency`."),
    double("throttle_time_avg_ms", "Client-wide `produce-throttle-time-avg`."),
    double("throttle_time_max_ms", "Largest client-wide `produce-throttle-time-max` scraped."),
    double("requests_in_flight", "Client-wide `requests-in-flight`, mean of the scrapes.", "requests"),
    double("buffer_available_bytes", "Client-wide `buffer-available-bytes`, smallest scraped."),
    double("buffer_total_bytes", "`buffer.memory`; librdkafka: `queue.buffering.max.kbytes`."),
    double("buffer_blocked_ratio", "Part of the observed time that threads waited for buffer memory (`bufferpool-wait-time-ns-total`); above 1 for several."),
    double("record_rate_per_s", "Client-wide records sent: `record-send-total` (librdkafka: `txmsgs`)."),
    double("error_rate_per_s", "Client-wide `record-error-total` per second; librdkafka: failed requests to the broker (`txerrs`)."),
    double("retry_rate_per_s", "Client-wide `record-retry-total` per second; librdkafka: repeated requests to the broker (`txretries`)."),
    bigint("gap_count", "Intervals over three times the configured one; only their part in the window counts.", "gaps", nullable=True),
    bigint("covered_ms", "Time that the increases stand for; less where samples are missing.", nullable=True),
    double("inner_bytes", "Of `outgoing_bytes`, those between two scrapes within the window; NULL where there are none, or something between them is missing.", "bytes"),
    timestamp("inner_from", "The first of these scrapes.", nullable=True),
    timestamp("inner_until", "The last of them.", nullable=True),
    string("client_version", "Version of the client, where a source names it (`app-info`, a label of Micrometer or of client telemetry).", nullable=True),
    Column("client_config", "map<string,string>", "Settings of the client by its own names, from its metrics and the configuration; NULL where neither has any."),
    string("client_software_name", "Name of the client's library, such as `apache-kafka-java`, from client telemetry (KIP-714).", nullable=True),
    string("client_rack", "`client.rack`, from client telemetry.", nullable=True),
    schema_version=5,
)  # fmt: skip  # a table: short fields share a line

SILVER = (RECORD_BATCHES, PARTITION_TRAFFIC, PRODUCER_NODES)


_PRODUCER_ID = bigint("producer_id", "Producer id; -1 for all producers without idempotence, pooled.")
_PRODUCER_EPOCH = bigint("producer_epoch", "Producer epoch; -1 where pooled or transactional: newer clients raise it with every transaction, so all epochs are one session.")
_ASSUMPTIONS = string("assumptions", "What the data leave open, or where they contradict the configuration; '' for nothing.")

PRODUCER_SESSIONS = dated(
    "silver.producer_sessions", "producer session x topic x window",
    ("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
    *TOPIC_COLUMNS, _PRODUCER_ID, _PRODUCER_EPOCH,
    bigint("record_count", "Data records it sent.", "records"),
    bigint("keyless_record_count", "Of them, without a key.", "records"),
    bigint("batch_count", "Batches they came in.", "batches"),
    string("traffic_pattern", "How records lie within a millisecond: `burst` or `steady`."),
    string("strategy", "Its partitioner, as `partition-health partition --strategies` lists it; NULL where unknown.", nullable=True),
    string("source", "How it is known: `configured`, `inferred` from the batches, or `none`."),
    double("confidence", "Probability that this is its strategy, 1 if configured; variants that look alike share it.", "ratio", nullable=False),
    string("runner_up", "The next best strategy; '' for none."),
    string("client", "`kafka-clients`, `librdkafka`, or ''."),
    string("client_version", "Version that the client tells (KIP-714, `app-info`), else one that stands for the range; '' for none."),
    string("version_range", "Versions that the evidence does not exclude, in words; `4.4.0, as the client tells` where it tells."),
    Column("settings", "map<string,string>", "Settings by the client's own names.", nullable=False),
    Column("setting_sources", "map<string,string>", "By setting: `configured`, `default`, `inferred` or `unknown` (the data leave it open, and predictions are not trusted), with the bounds that the data give: `inferred, 3 to 7`.", nullable=False),
    string("reason", "What the order of batches or the keys say, in words."),
    _ASSUMPTIONS,
    string("client_id", "`client.id` of the client whose metrics fit its bytes; NULL where none or several do.", nullable=True),
    string("zone", "Zone of its producer, as brokers name theirs in `broker.rack`; NULL where nothing says.", nullable=True),
    string("zone_source", "How the zone is known: `client` (the client says its `client.rack`), `configured` (`zones.clients`), `rack_aware` (all its keyless records are led in one rack), or `unknown`.", nullable=True),
    schema_version=2,
)  # fmt: skip  # a table: short fields share a line


def _parameter(name: str, doc: str) -> tuple[Column, ...]:
    return (
        double(f"{name}_ms", f"{doc}.", "ms", nullable=False),
        double(f"{name}_low_ms", f"Lower end of `{name}_ms`.", "ms", nullable=False),
        double(f"{name}_high_ms", f"Upper end of `{name}_ms`; NULL for none.", "ms"),
        string(f"{name}_source", f"Origin of `{name}_ms`: `measured` of this connection, `inferred` by a fit, `configured` or `assumed`."),
    )


SERVICE_MODELS = dated(
    "silver.service_models", "producer session x broker x window",
    ("cluster", "window_start", "producer_id", "producer_epoch", "topic", "topic_id", "broker_id"),
    _PRODUCER_ID, _PRODUCER_EPOCH,
    string("topic", "Topic of a pooled session; '' for a session with an id: the model stands for all its topics."),
    string("topic_id", "Its id, or ''."),
    BROKER_ID,
    string("client_id", "`client.id` whose metrics the model is fitted to; NULL for none.", nullable=True),
    *_parameter("request", "What the broker takes for a request, on average"),
    *_parameter("partition", "For each partition in a request beyond the first"),
    *_parameter("kib", "For each 1,024 bytes of batches"),
    *_parameter("delay", "What a request takes beyond these; of several minutes the median"),
    Column("delay_starts_ms", "array<bigint>", "Epoch milliseconds from which each of `delays_us` holds; empty for one delay throughout.", nullable=False),
    Column("delays_us", "array<bigint>", "The delays, one for each start.", nullable=False),
    boolean("is_identifiable", "The delay follows from the data; else it is configured, or assumed to be none."),
    _ASSUMPTIONS,
)  # fmt: skip  # a table: short fields share a line

SESSIONS = (PRODUCER_SESSIONS, SERVICE_MODELS)
