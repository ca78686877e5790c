"""Loads: what partitions and brokers carried in one window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """What one leader of a partition carried in a window.

    A partition whose leader changed within the window has one of these per leader, and `is_leader` is True for one at
    most. A partition without traffic has one with zeros, so that it still counts as led.

    Attributes:
        topic: Topic name.
        topic_id: Topic id, or "" where unknown. A recreated topic is another topic.
        partition: Partition number.
        leader_id: Broker that carried the load; negative for unknown.
        size_bytes: Bytes appended, batch headers and control batches included.
        record_count: Data records.
        batch_count: Data batches.
        batch_bytes_squared: Sum of squared batch sizes, bytes^2.
        is_leader: This broker leads the partition at the window's end.
    """

    topic: str
    partition: int
    leader_id: int
    size_bytes: int
    record_count: int
    batch_count: int
    batch_bytes_squared: float
    topic_id: str = ""
    is_leader: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """What one broker carried in a window, beside its fair share: what the broker share rule judges.

    Attributes:
        window_start_ms: Start of the window, UTC milliseconds.
        broker_id: The broker.
        size_bytes: Bytes appended to the partitions it led, all topics.
        record_count: Data records.
        share: Its part of the cluster's bytes; None without traffic.
        expected_share: Its part of the cluster's capacity, 0..1.
        share_ratio: `share / expected_share`; None without traffic.
        effective_unit_count: Independent units behind the cluster's traffic; None without traffic.
        ratio_without_luck: Share ratio less what hashing its lighter keys gives it by chance; None for the ratio itself.
        excess_topic: Topic that adds most to its excess; None without traffic, or where nobody worked it out.
    """

    window_start_ms: int
    broker_id: int
    size_bytes: int
    record_count: int
    share: float | None
    expected_share: float
    share_ratio: float | None
    effective_unit_count: float | None
    ratio_without_luck: float | None = None
    excess_topic: str | None = None
