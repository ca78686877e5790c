"""A batch being filled, on its way, and done (`ProducerBatch`, `MemoryRecordsBuilder`)."""

from dataclasses import dataclass, field

import numpy as np

from pipeline.simulator.clients.client import MS, Compression
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES, estimate_compressed_bytes, measure_record_bytes


@dataclass(frozen=True)
class Record:
    """A record on its way into a batch.

    Attributes:
        thread: That sends it, counted over all producers.
        topic: Index in the scenario.
        partition: Within the topic, that its key or the record itself names; or -1.
        body_bytes: See `batches.py`.
        sent_at_ns: Before `send()`.
        created_ns: After metadata was there; in whole milliseconds, its CreateTime.
    """

    thread: int
    topic: int
    partition: int
    body_bytes: int
    sent_at_ns: int
    created_ns: int


@dataclass(eq=False)
class Batch:
    """A batch of a partition queue.

    Attributes:
        queue_number: Its partition queue's number.
        number: Within the queue, by creation.
        created_ns: When its first record came.
        capacity_bytes: Of its buffer.
        claimed_bytes: Of `buffer.memory`.
        compression: Or None.
        ratio: That its compressed size is estimated by.
        record_limit: Records it may have; 0 is no limit.
        records: With the time each was appended.
        record_bytes: Of its records, uncompressed.
        is_closed: It takes no more records.
        size_bytes: As in the log; once closed for good.
        send_count: Times it was sent.
        attempt_count: Times it was sent and failed.
        last_attempt_ms: When it last came back; before, when it was created.
        backoff_ms: How long it then rests.
        earlier: If idempotent: batches of the queue that were sent and not done when this one was first sent; else None.
        is_written: The broker has it.
        drained_ns: First and last time it was taken to be sent, -1 before.
        is_done: Acknowledged, expired or given up.
    """

    queue_number: int
    number: int
    created_ns: int
    capacity_bytes: int
    claimed_bytes: int
    compression: Compression | None
    ratio: np.float32
    record_limit: int = 0
    records: list[tuple[Record, int]] = field(default_factory=list)
    record_bytes: int = 0
    is_closed: bool = False
    size_bytes: int = 0
    send_count: int = 0
    attempt_count: int = 0
    last_attempt_ms: int = 0
    backoff_ms: int = 0
    earlier: "list[Batch] | None" = None
    is_written: bool = False
    drained_ns: tuple[int, int] = (-1, -1)
    is_done: bool = False

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
