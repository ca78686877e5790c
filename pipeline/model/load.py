"""Loads: what brokers carried in one window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """What one broker carried in a window, and its fair share: what the broker share rule judges; None without traffic.

    Attributes:
        size_bytes: Bytes appended to the partitions it led, all topics.
        expected_share: Its part of the cluster's capacity, 0..1.
        effective_unit_count: Independent units behind the cluster's traffic.
        ratio_without_luck: Share ratio less what hashing its lighter keys gives it by chance; None for the ratio itself.
        excess_topic: Topic that adds most to its excess; None without traffic, or where it is not computed.
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

    def is_hash_luck(self, limit_ratio: float) -> bool:
        """Whether the broker is at a limit only because more of many light keys hash to it than to others."""
        without = self.ratio_without_luck
        return without is not None and without < limit_ratio <= (self.share_ratio or 0.0)
