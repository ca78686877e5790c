"""A Kafka log on disk: topic-partitions, record batches, records, problems."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Self

from pipeline.errors import InputError

MAX_PARTITION_NUMBER = 200_000
"""Larger than any topic's: a whole cluster has some hundred thousand partitions. Sums by partition are arrays up to the
largest number, so that one that is made up would take all memory: it is refused wherever it is read.
"""


class TopicPartition(NamedTuple):
    """A topic's partition; sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogName(NamedTuple):
    """A partition of a topic under its id, "" where it has none: a topic made anew under its old name is another one."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPartition:
    """What is said of a topic's partition; `topic_id` is None where the source lacks it."""

    topic: str
    topic_id: str | None
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def log_name(self) -> LogName:
        return LogName(self.topic, self.topic_id or "", self.partition)


def is_partition_number(number: int) -> bool:
    return 0 <= number <= MAX_PARTITION_NUMBER


def fits_topics(topic: str, patterns: Collection[str]) -> bool:
    """Whether a topic fits a pattern, or none is given, and no pattern that begins with `!`."""
    left_out = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    return any(fnmatchcase(topic, one) for one in wanted) and not any(fnmatchcase(topic, one) for one in left_out)


class Codec(IntEnum):
    """Compression codec of a batch, bits 0-2 of its attributes (`CompressionType.java`)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Who sets the timestamps: producer or broker; bit 3 of the attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in the input: one quarantine row."""

    path: str
    position: int | None = None  # byte position, or line number for text files; None for the file as a whole
    reason: str
    first_bytes: bytes = b""  # the bytes at the position, at most 64: never of a record, nor of a text
    severity: str = "refused"  # `refused` = what follows the position was not used; `suspect` = used, but marked

    @classmethod
    def of_error(cls, path: Path | str, error: OSError | UnicodeDecodeError | InputError) -> Self:
        if isinstance(error, InputError):
            return cls(path=str(path), position=error.position, reason=error.reason, first_bytes=error.first_bytes)
        cause = getattr(error, "strerror", None) or error
        return cls(path=str(path), reason=f"cannot be read: {cause}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """Header of a record batch (magic 2) or legacy entry (0, 1), -1 for fields it lacks; `size_bytes` counts all of the batch on disk."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes >> 3) & 1)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `key` and `value` are None where Kafka stores length -1 (an empty key is not a null key)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    size_bytes: int = 0
