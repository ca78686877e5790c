"""A recommendation and the promise made of it, rows of `gold.recommendations` and `gold.promises`; whether a prediction is trusted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

WHOLE = 0.95  # part of an advice, or of a topic's records, from which on the rest is left out of account
PromiseOutcome = Literal["kept", "broken", "not_carried_out", "unknown"]


class PromiseKey(NamedTuple):
    """Key of a promise in every window that judges it."""

    promised_ms: int
    subject: str
    action: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A recommendation judged by a later window; ratios are share ratios of its broker."""

    window_start_ms: int  # window that judges it
    promised_ms: int  # start of the window it was made for
    subject: str
    action: str
    topic: str
    rank: int
    title: str
    trust: str | None  # of the prediction, as the replay says; None where nothing was replayed
    expected_share: float  # fair share of the broker
    share_ratio: float  # when the promise was made
    predicted_ratio: float | None  # None, as its ends, where nothing was predicted
    predicted_ratio_low: float | None
    predicted_ratio_high: float | None
    predicted_records_per_batch: float | None = None
    predicted_latency_p99_ms: float | None = None
    carried_out_ratio: float | None = None  # part of what it asks for that is done; None where nothing shows it
    carried_out_ms: int | None = None  # start of the first window at whose end all of it was done
    without_ratio: float | None = None  # had nobody carried it out, on the judging window's traffic
    corrected_ratio: float | None = None  # the prediction on the judging window's traffic
    corrected_ratio_low: float | None = None
    corrected_ratio_high: float | None = None
    actual_ratio: float | None = None
    error_points: float | None = None  # actual share less the corrected one
    bar_points: float | None = None  # what the error may be beyond the predicted range
    actual_records_per_batch: float | None = None
    actual_latency_avg_ms: float | None = None
    outcome: PromiseOutcome
    reason: str
    kept_count: int = 0  # promises of the same action kept until this window
    broken_count: int = 0
    is_mailed: bool | None = None  # whether the advice left in a mail; None in older rows

    @property
    def key(self) -> PromiseKey:
        return PromiseKey(self.promised_ms, self.subject, self.action, self.topic)

    @property
    def is_decided(self) -> bool:
        return self.outcome in {"kept", "broken"}

    @property
    def is_undone(self) -> bool:
        return self.carried_out_ms is not None and self.carried_out_ratio is not None and self.carried_out_ratio < WHOLE


class PromiseScore(NamedTuple):
    kept_count: int = 0
    broken_count: int = 0

    @property
    def is_bad(self) -> bool:
        """Whether most, and more than one, were broken: a single miss may be chance."""
        return self.broken_count >= 2 and self.broken_count > self.kept_count


def score_actions(promises: Iterable[Promise]) -> dict[str, PromiseScore]:
    """Counts promises kept and broken by action; each counts once, by the majority of its windows."""
    balance: Counter[PromiseKey] = Counter()
    for promise in promises:
        if promise.is_decided:
            balance[promise.key] += 1 if promise.outcome == "kept" else -1
    scores: dict[str, PromiseScore] = {}
    for key, kept in balance.items():
        kept_count, broken_count = scores.get(key.action, PromiseScore())
        scores[key.action] = PromiseScore(kept_count + (kept > 0), broken_count + (kept <= 0))
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """An action, what it costs and what it is predicted to bring."""

    window_start_ms: int
    subject: str
    rank: int = 0  # 1 for what to do first; 0 before they are ranked
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
    moved_bytes: int = 0
    moved_partition_count: int = 0
    is_enough: bool  # the broker would be below where incidents resolve
    reassignment_json: str | None = None  # for `kafka-reassign-partitions`; None where nothing is reassigned
    election_json: str | None = None  # for `kafka-leader-election`, after it; None likewise
    rollback_json: str | None = None  # the assignment as it was; None likewise
    config_diff: str | None = None  # what changes in the producers' configuration; None where no setting does
    is_replayed: bool = False  # a plan's prediction is a replay of the window with the plan's leaders
    broker_ratios: Mapping[int, float] = field(default_factory=dict)  # share ratio of every broker after the action


class Trust(StrEnum):
    """How a stored text about trust begins."""

    TRUSTED = "trusted"
    DOUBTED = "not trustworthy"

    @classmethod
    def of(cls, stored: str) -> "Trust":
        """What a stored text says."""
        return cls.DOUBTED if stored.startswith(cls.DOUBTED) else cls.TRUSTED


def format_trust(reasons: str) -> str:
    """The text to store: `trusted` without reasons against."""
    return f"{Trust.DOUBTED}: {reasons}" if reasons else str(Trust.TRUSTED)
