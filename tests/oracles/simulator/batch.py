"""A batch being filled, on its way, and done (`ProducerBatch`, `MemoryRecordsBuilder`)."""

from dataclasses import dataclass, field

import numpy as np

from pipeline.simulator.clients.client import MS, Compression
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES, estimate_compressed_bytes, measure_record_bytes


@dataclass(frozen=True)
class Record:
    """A record on its way into a batch."""

    thread: int  # that sends it, counted over all producers
    topic: int  # index in the scenario
    partition: int  # within the topic, that its key or the record itself names; or -1
    body_bytes: int  # see `batches.py`
    sent_at_ns: int  # before `send()`
    created_ns: int  # after metadata was there; in whole milliseconds, its CreateTime


@dataclass(eq=False)
class Batch:
    """A batch of a partition queue."""

    queue_number: int  # its partition queue's number
    number: int  # within the queue, by creation
    created_ns: int  # when its first record came
    capacity_bytes: int  # of its buffer
    claimed_bytes: int  # of `buffer.memory`
    compression: Compression | None
    ratio: np.float32  # that its compressed size is estimated by
    record_limit: int = 0  # records it may have; 0 is no limit
    records: list[tuple[Record, int]] = field(default_factory=list)  # with the time each was appended
    record_bytes: int = 0  # of its records, uncompressed
    is_closed: bool = False  # it takes no more records
    size_bytes: int = 0  # as in the log; once closed for good
    send_count: int = 0  # times it was sent
    attempt_count: int = 0  # times it was sent and failed
    last_attempt_ms: int = 0  # when it last came back; before, when it was created
    backoff_ms: int = 0  # how long it then rests
    # if idempotent: batches of the queue that were sent and not done when this one was first sent; else None
    earlier: "list[Batch] | None" = None
    is_written: bool = False  # the broker has it
    drained_ns: tuple[int, int] = (-1, -1)  # first and last time it was taken to be sent, -1 before
    is_done: bool = False  # acknowledged, expired or given up

    @property
    def is_next(self) -> bool:
        """No batch of the queue that was sent before is still on its way; one on its second try waits for that."""
        return self.earlier is None or all(batch.is_done for batch in self.earlier)

    @property
    def is_in_sequence(self) -> bool:
        """The broker has all that were sent before."""
        return self.earlier is None or all(batch.is_written or batch.is_done for batch in self.earlier)

    @property
    def plain_bytes(self) -> int:
        """Header and records, uncompressed."""
        return BATCH_HEADER_BYTES + self.record_bytes

    def estimate_bytes(self) -> int:
        """Its size as the client takes it to be: exact, or estimated if compressed."""
        if self.size_bytes:
            return self.size_bytes
        if self.compression is None:
            return self.plain_bytes
        return estimate_compressed_bytes(self.record_bytes, self.ratio)

    @property
    def is_full(self) -> bool:
        """It is closed, or no byte is left."""
        if self.is_closed or (self.record_limit and len(self.records) >= self.record_limit):
            return True
        return bool(self.records) and self.capacity_bytes <= self.estimate_bytes()

    def measure(self, record: Record) -> int:
        """Bytes a record would take here, uncompressed."""
        if not self.records:
            return measure_record_bytes(record.body_bytes, 0, 0)
        first, _ = self.records[0]
        delta_ms = record.created_ns // MS - first.created_ns // MS
        return measure_record_bytes(record.body_bytes, len(self.records), delta_ms)

    def has_room(self, record: Record) -> bool:
        """Tells whether a record may join; it counts uncompressed even where the batch is compressed."""
        if self.is_full:
            return False
        return not self.records or self.capacity_bytes >= self.estimate_bytes() + self.measure(record)

    def append(self, record: Record, now_ns: int) -> int:
        """Puts a record in, and returns by how many bytes the estimate grew; for the first record, the whole estimate."""
        before_bytes = self.estimate_bytes() if self.records else 0
        self.record_bytes += self.measure(record)
        self.records.append((record, now_ns))
        return self.estimate_bytes() - before_bytes

    def close(self) -> np.float32 | None:
        """Closes it for good, and returns the compression ratio observed, or None if not compressed."""
        self.is_closed = True
        if self.size_bytes:
            return None
        if self.compression is None:
            self.size_bytes = self.plain_bytes
            return None
        compressed_bytes = self.record_bytes * self.compression.ratio_ppm // 1_000_000
        framed_bytes = min(self.record_bytes, compressed_bytes + self.compression.overhead_bytes)
        written_bytes = max(compressed_bytes, framed_bytes)
        self.size_bytes = BATCH_HEADER_BYTES + written_bytes
        return np.float32(np.float32(written_bytes) / np.float32(self.record_bytes))
