"""A producer session as the replay knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.within_ms import Pattern
from pipeline.simulator.clients.client import Compression

TopicWindow: TypeAlias = tuple[int, str, str]
"""Start of the window, topic, topic id."""
SessionKey: TypeAlias = tuple[int, int, int, str, str]
"""Start of the window, producer id, producer epoch; topic and topic id where producers are pooled, else ""."""


@dataclass(frozen=True, eq=False)
class ProducerSession:
    """What was found about a producer session in a topic and window; producer id and epoch are -1 where pooled.

    Attributes:
        record_count: Records whose arrival is known.
        bytes_by_broker: Bytes of its batches in the log, by the broker that led.
        judged_bytes_by_broker: The same of odd minutes, on which nothing is fitted.
        timestamp_type: `CreateTime`, or `LogAppendTime` where any is.
        counts: Records that are special, by what they are; see `SessionTraffic`.
        sampling_rate: Part of the window's time that was read.
    """

    start_ms: int
    topic: str
    topic_id: str
    producer_id: int
    producer_epoch: int
    record_count: int
    keyless_count: int
    pattern: Pattern
    batch_count: int
    bytes_by_broker: Mapping[int, int]
    judged_bytes_by_broker: Mapping[int, int]
    baseline: Baseline
    compression: Compression | None
    timestamp_type: str
    counts: Mapping[str, int]
    sampling_rate: float

    @property
    def topic_key(self) -> tuple[str, str]:
        """Name and id of the topic."""
        return self.topic, self.topic_id

    @property
    def topic_window(self) -> TopicWindow:
        """The topic in its window."""
        return self.start_ms, self.topic, self.topic_id

    @property
    def key(self) -> SessionKey:
        """What stands for one producer: pooled ones are distinguished by topic at least."""
        return (
            self.start_ms,
            self.producer_id,
            self.producer_epoch,
            *(self.topic_key if self.producer_id < 0 else ("", "")),
        )
