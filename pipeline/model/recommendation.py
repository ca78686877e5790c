"""Recommendation for a broker above its share. A row of `gold.recommendations`."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """An action, what it costs and what it is predicted to bring."""

    window_start_ms: int
    subject: str
    rank: int  # 1 for what to do first
    action: str  # `elect_preferred`, `move_leaders`, `move_replicas`, `replay:<candidate>`, `rekey` or `check_broker`
    title: str
    text: str
    topic: str  # topic it is about; "" for several
    share_ratio: float
    # after the action, on the window's traffic; None, as the next three, where nobody knows
    predicted_ratio: float | None
    predicted_ratio_low: float | None  # lower end; equal where nothing is drawn
    predicted_ratio_high: float | None
    predicted_peak_ratio: float | None  # largest share ratio of any broker after the action
    moved_bytes: int
    moved_partition_count: int
    is_enough: bool  # the broker would be below where incidents resolve
    reassignment_json: str | None = None  # for `kafka-reassign-partitions`; None where nothing is reassigned
    election_json: str | None = None  # for `kafka-leader-election`, after it; None likewise
    rollback_json: str | None = None  # the assignment as it was; None likewise
    config_diff: str | None = None  # what changes in the producers' configuration; None where no setting does
    is_replayed: bool = False  # a plan's prediction is a replay of the window with the plan's leaders
    # share ratio of every broker after the action; empty where it is not computed
    broker_ratios: Mapping[int, float] = field(default_factory=dict)
