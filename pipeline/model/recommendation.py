"""What to do about a broker above its share. A row of `gold.recommendations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """An action, what it costs and what it is predicted to bring.

    Attributes:
        rank: 1 for what to do first.
        action: `elect_preferred`, `move_leaders`, `move_replicas`, `replay:<candidate>` or `rekey`.
        topic: Topic it is about; "" for several.
        predicted_ratio: After the action, on the window's traffic.
        predicted_ratio_low: Lower end; equal where nothing is drawn.
        predicted_peak_ratio: Largest share ratio of any broker after the action.
        is_enough: The broker would be below where incidents resolve.
        reassignment_json: For `kafka-reassign-partitions`; None where nothing is reassigned.
        election_json: For `kafka-leader-election`, after it; None likewise.
        rollback_json: The assignment as it was; None likewise.
        config_diff: What changes in the producers' configuration; None where no setting does.
        broker_ratios: Share ratio of every broker after the action; empty where it is not computed.
    """

    window_start_ms: int
    subject: str
    rank: int
    action: str
    title: str
    text: str
    topic: str
    share_ratio: float
    predicted_ratio: float
    predicted_ratio_low: float
    predicted_ratio_high: float
    predicted_peak_ratio: float
    moved_bytes: int
    moved_partition_count: int
    is_enough: bool
    reassignment_json: str | None = None
    election_json: str | None = None
    rollback_json: str | None = None
    config_diff: str | None = None
    broker_ratios: Mapping[int, float] = field(default_factory=dict)
