"""Sizes and limits of Kafka's `DefaultRecordBatch` (magic 2) and `LegacyRecord` (0, 1); why a walk over them ends."""

from enum import IntEnum

LOG_OVERHEAD_BYTES = 12  # offset and length, in front of every entry
MAGIC_AT = 16
BATCH_HEADER_BYTES = 61
MAX_MAGIC = 2
MIN_LENGTH = (14, 22, BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES)  # value of the length field, by magic
MIN_RECORD_BYTES = 7  # length, attributes, two deltas, key length, value length, header count
MAX_LENGTH = 2**31 - 1 - LOG_OVERHEAD_BYTES
MOST_LENGTH = 256 << 20
"""Of a batch that is read, however much room a sparse file has: `max.message.bytes` is 1 MiB where nobody sets it."""
MAX_BASE_OFFSET = 2**63 - 2**31 - 1
MAX_CODEC = (3, 3, 4)  # by magic; zstd came with magic 2
HEADER_FIELDS = (
    *("base_offset", "length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch", "base_sequence", "record_count"),
)
"""In front of a batch's records, in order."""
HEADER_CODES = "qiibIhiqqqhii"  # of `struct` and NumPy, by field; the highest byte first


class Stop(IntEnum):
    """Why a walk ended."""

    END = 0
    BEYOND_FILE = 1  # the entry runs past the end of the file: torn tail, or a wrong length
    BAD_LENGTH = 2  # negative, or too small for its magic
    BAD_MAGIC = 3
    ZERO_LENGTH = 4  # a preallocated tail, or damage
    BEYOND_CHUNK = 5  # the entry runs past the bytes at hand, not past the file
