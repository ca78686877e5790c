"""What a log directory says about the traffic, read batch header by batch header.

Written apart from the project's own codec, so that tests can hold one against the other.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id and
# epoch, base sequence, record count
HEADER = struct.Struct(">qiibIhiqqqhii")
CONTROL_BIT = 1 << 5


@dataclass
class PartitionFacts:
    """Counts over all segments of one partition directory."""

    batch_count: int = 0
    record_count: int = 0
    control_record_count: int = 0
    bytes_by_minute: Counter[int] = field(default_factory=Counter)

    @property
    def bytes_since_start(self) -> int:
        """Without the minutes before the start."""
        return sum(size for minute, size in self.bytes_by_minute.items() if minute >= 0)


def read_batches(log: Path) -> Iterator[tuple[int, int, int, int]]:
    """(size in bytes, attributes, max timestamp in ms, records) of every batch of a segment."""
    data = log.read_bytes()
    position = 0
    while position < len(data):
        header = HEADER.unpack_from(data, position)
        size = header[1] + 12
        yield size, header[5], header[8], header[12]
        position += size


def is_whole(log: Path) -> bool:
    """Whether the segment ends where its last batch does."""
    data = log.read_bytes()
    position = 0
    while position + HEADER.size <= len(data):
        position += HEADER.unpack_from(data, position)[1] + 12
    return position == len(data)


def read_partition(directory: Path, start_ms: int, window_ms: int = 60_000) -> PartitionFacts:
    """Counts of a partition directory; minutes are numbered from ``start_ms``, by a batch's max timestamp."""
    facts = PartitionFacts()
    for log in sorted(directory.glob("*.log")):
        for size, attributes, max_timestamp_ms, count in read_batches(log):
            facts.batch_count += 1
            if attributes & CONTROL_BIT:
                facts.control_record_count += count
            else:
                facts.record_count += count
            facts.bytes_by_minute[(max_timestamp_ms - start_ms) // window_ms] += size
    return facts


def read_capture(folder: Path) -> dict[tuple[str, int, int], PartitionFacts]:
    """Facts per (topic, partition, leader) of an unpacked capture, each read from its leader's directory."""
    manifest = json.loads((folder / "manifest.json").read_text())
    start_ms = manifest["clock"]["start_ms"]
    return {
        (topic, partition, leader): read_partition(folder / f"brokers/{leader}/{topic}-{partition}", start_ms)
        for topic, placement in manifest["topics"].items()
        for partition, (leader, *_) in enumerate(placement)
    }


def measure_share_ratios(
    facts: dict[tuple[str, int, int], PartitionFacts], topics: Iterable[str] | None = None
) -> dict[int, dict[int, float]]:
    """Minute → broker → its bytes over the mean of all brokers, for all topics or some."""
    chosen = None if topics is None else set(topics)
    loads: dict[int, Counter[int]] = {}
    brokers = {leader for _, _, leader in facts}
    for (topic, _, leader), fact in facts.items():
        if chosen is None or topic in chosen:
            for minute, size in fact.bytes_by_minute.items():
                loads.setdefault(minute, Counter())[leader] += size
    return {
        minute: {broker: load[broker] * len(brokers) / load.total() for broker in sorted(brokers)}
        for minute, load in sorted(loads.items())
    }
