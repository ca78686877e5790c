"""Silver tables about keys, from the deep scan. Pseudonymous, not anonymous: what can be reversed, and by whom.

* `silver.key_traffic` names a key by `key_id` alone, keyed with the deployment secret: who holds that can test a guessed key. Without
  it an id shows that records have one key, and how often it came; counts themselves can point at a known heavy key.
* `silver.key_hashes` and `silver.key_answers` let all who can read them test a guess: six 32-bit hashes leave short or guessable keys no
  cover. Their folders only their owner may open; rows are dropped after `keys.retention`. Keys of `keys.clear_topics` are there in clear.
* `silver.key_matrices` holds sums over keys; a cell with one key in it still shows that key's traffic.

Gold tables, reports and mail show the first 8 hex digits of an id.
"""

from pipeline.tables.table import BY_DATE, PARTITION_COLUMNS, Column, bigint, boolean, dated, of_cluster, string

KEY_ID = string("key_id", "BLAKE2b-128 of the key, keyed with the deployment secret: 32 hex digits; '' where not about one key.")
_COUNT_ERROR = bigint("count_error", "Records of the key that `other_keys` may hold besides: the true count is at most `record_count` plus this; 0 is exact.", "records")
_STRATEGY_VERSION = string("strategy_version", "Digits that change with the file of a user-defined strategy; '' for built-in ones.")

KEY_TRAFFIC = dated(
    "silver.key_traffic", "topic-partition x kind x key id x window",
    ("cluster", "window_start", "topic", "topic_id", "partition", "kind", "key_id"),
    *PARTITION_COLUMNS,
    string("kind", "`key` one key, the empty one too; `no_key` null keys; `other_keys` what the memory limit (or mode `counts_only`) leaves without an id; `unreadable` batches whose records cannot be read, counted by their header."),
    KEY_ID,
    bigint("record_count", "Data records; over the kinds they sum to those of `silver.record_batches`.", "records"),
    bigint("size_bytes", "Records as encoded, before compression, without batch headers; `unreadable`: batches on disk."),
    _COUNT_ERROR,
    bigint("size_error_bytes", "As `count_error`, for `size_bytes`."),
)  # fmt: skip  # a table: short fields share a line


def _hash(name: str, doc: str) -> Column:
    return bigint(name, f"{doc}, as an unsigned 32-bit number.", nullable=True)


KEY_HASHES = of_cluster(
    "silver.key_hashes", "key id x UTC date it was seen on", ("cluster", "window_date", "key_id"),
    Column("window_date", "date", "UTC date of a window that has the key; rows are dropped `keys.retention` after it.", nullable=False),
    KEY_ID,
    boolean("is_empty", "The key has no bytes (it is not a null key)."),
    _hash("murmur2", "Kafka's murmur2 of the bytes"),
    _hash("crc32", "CRC-32 of the bytes"),
    _hash("fnv1a", "32-bit FNV-1a of the bytes"),
    _hash("murmur3", "MurmurHash3 x86 32 of the bytes, seed 0"),
    _hash("java_string", "`String.hashCode` of the text; NULL where the bytes are not UTF-8"),
    _hash("kafkajs_legacy", "KafkaJS's murmur2 before 2.0 in double precision"),
    Column("clear_key", "binary", "The key itself, for topics of `keys.clear_topics`; their ids differ from those of the same key elsewhere."),
    partitioned_by=BY_DATE, write_mode="merge",
)  # fmt: skip  # a table: short fields share a line

KEY_ANSWERS = of_cluster(
    "silver.key_answers", "key id x user-defined strategy x version x partition count x UTC date",
    ("cluster", "window_date", "key_id", "strategy", "strategy_version", "partition_count"),
    Column("window_date", "date", "As in `silver.key_hashes`, and dropped with its rows.", nullable=False),
    KEY_ID,
    string("strategy", "`module:name` in the configuration."),
    _STRATEGY_VERSION,
    bigint("partition_count", "Partition count that the strategy was asked about.", "partitions"),
    bigint("chosen_partition", "What it answered."),
    partitioned_by=BY_DATE, write_mode="merge",
)  # fmt: skip  # a table: short fields share a line

KEY_MATRICES = dated(
    "silver.key_matrices", "topic-partition x strategy x partition count x partition it would choose x window",
    (*("cluster", "window_start", "topic", "topic_id", "partition"), *("strategy", "strategy_version", "partition_count", "chosen_partition")),
    *PARTITION_COLUMNS,
    string("strategy", "Name of the strategy asked."),
    _STRATEGY_VERSION,
    bigint("partition_count", "Partition count that the strategy was asked about.", "partitions"),
    bigint("chosen_partition", "Where it would put the records; -1: the key does not decide or is refused; -2: keys that the memory limit left without an id."),
    bigint("key_count", "Distinct keys, counted per segment: a key of two segments counts twice.", "keys"),
    bigint("record_count", "Keyed data records.", "records"),
    bigint("size_bytes", "As `silver.key_traffic.size_bytes`."),
)  # fmt: skip  # a table: short fields share a line

KEYS = (KEY_TRAFFIC, KEY_HASHES, KEY_ANSWERS, KEY_MATRICES)
EXPIRING = (KEY_HASHES, KEY_ANSWERS)
"""Tables from which keys can be recovered: kept for `keys.retention`, each in a folder that only its owner may open."""
