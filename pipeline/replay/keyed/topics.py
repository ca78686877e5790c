"""Replays the keys of one topic in one window: the hash that placed them, and each candidate's partitions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from pipeline.arrays import Ints
from pipeline.calibration.caveats import Caveat, Statement
from pipeline.config.replay import IN_USE
from pipeline.errors import ConfigError
from pipeline.measures.hash_verdicts import Explained, HashVerdict, judge_hash
from pipeline.partitioners.registry import choose_for_no_key
from pipeline.replay.keyed.plan import KeyedPlan, KeyedTopicPlan, resolve_strategy
from pipeline.replay.keyed.sums import BYTES, KEYS, NAMED, RECORDS, MoveTotals, TopicSums, add_cells
from pipeline.replay.loads import UNKNOWN, Estimate, Loads, known_loads, spread_unknown

AS_RECORDED = "as recorded"
"""In place of a strategy, or of what becomes of records without a key: all of it stays where it was."""
_NO_KEY = "no_key"
_NO_CELLS = np.zeros((0, 2), np.int64)
_NO_LOADS = known_loads(_NO_CELLS.ravel())


class BaselineSource(StrEnum):
    CONFIGURATION = "configuration"
    VERDICT = "hash verdict"
    BATCHES = "batches"
    NONE = "none"


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyedOutcome:
    """A candidate's partitions for a topic's records, by their keys."""

    strategy: str | None  # its name, or `AS_RECORDED`; None where the current strategy would have to be known
    partition_count: int
    records: Loads = _NO_LOADS
    sizes: Loads = _NO_LOADS
    key_counts: Ints = field(default_factory=_NO_CELLS.ravel)
    assignment: int | None = None  # its number in the plan; None where nothing is assigned
    keyless_rule: str = ""  # what becomes of records without a key
    unknown_record_count: int = 0  # records that may lie anywhere; `unknown_size_bytes` are theirs
    unknown_size_bytes: int = 0
    moves: MoveTotals = field(default_factory=MoveTotals)
    assumptions: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class KeyedTopic:
    """Everything summed up about one topic in one window, the window by number in the plan."""

    plan: KeyedTopicPlan
    window: int
    has_window_before: bool
    sums: TopicSums

    @property
    def partition_count(self) -> int:
        return self.plan.partition_counts[self.window]

    def recorded_cells(self, kind: str) -> Ints:
        """Records and bytes of one kind per partition; int64[p, 2], with every partition known or seen."""
        return add_cells(np.zeros((self.partition_count, 2), np.int64), self.sums.recorded.get(kind, _NO_CELLS))

    @cached_property
    def recorded(self) -> Ints:
        """The same of all kinds."""
        return add_cells(*(self.recorded_cells(kind) for kind in {NAMED, *self.sums.recorded}))

    @property
    def keyless_count(self) -> int:
        return int(self.recorded_cells(_NO_KEY)[:, RECORDS].sum())

    @cached_property
    def explained(self) -> dict[str, Explained]:
        """By family: keys and records that lie where it puts them."""
        parts = {}
        for number, (_, totals) in sorted(self.sums.assigned.items()):
            assignment, judged = self.plan.assignments[number], self._judged_by(totals)
            if not assignment.candidate:
                moved = totals.moved_keys, totals.moved_records
                parts[assignment.family] = Explained(judged.key_count - moved[0], judged.record_count - moved[1])
        return parts

    def _judged_by(self, totals: MoveTotals) -> Explained:
        keys = self.sums.keys
        return Explained(keys.key_count - totals.kept_keys, keys.record_count - totals.kept_records)

    @property
    def judged(self) -> Explained:
        """Keys to explain: all but the empty one. Families of texts keep bytes that are no text, too."""
        assigned = self.sums.assigned.items()
        parts = [self._judged_by(own[1]) for number, own in assigned if not self.plan.assignments[number].candidate]
        return Explained(
            max((one.key_count for one in parts), default=0), max((one.record_count for one in parts), default=0)
        )

    @cached_property
    def verdict(self) -> HashVerdict:
        return judge_hash(self.explained, self.judged.key_count, self.judged.record_count, self.partition_count)

    @cached_property
    def _in_use(self) -> tuple[int | None, BaselineSource]:
        """The assignment that is in use: the configured one, else that of the verdict."""
        for number, assignment in enumerate(self.plan.assignments):
            if assignment.candidate == IN_USE:
                return number, BaselineSource.CONFIGURATION
        for number, assignment in enumerate(self.plan.assignments):
            if not assignment.candidate and assignment.family == self.verdict.verdict:
                return number, BaselineSource.VERDICT
        return None, BaselineSource.NONE

    @property
    def baseline_source(self) -> BaselineSource:
        return self._in_use[1]

    @cached_property
    def outcomes(self) -> Mapping[str, KeyedOutcome]:
        """By name of the candidate, the current setup first."""
        in_use, _ = self._in_use
        outcomes = {IN_USE: self._leave() if in_use is None else self._assign(in_use)}
        for number, assignment in enumerate(self.plan.assignments):
            if assignment.candidate not in {"", IN_USE}:
                if assignment.family in {"", self.verdict.verdict}:
                    outcomes[assignment.candidate] = self._assign(number)
                elif assignment.candidate not in outcomes:
                    # a candidate that keeps the current strategy, which is not known
                    outcomes[assignment.candidate] = KeyedOutcome(
                        strategy=None,
                        partition_count=assignment.partition_counts[self.window],
                        assumptions=(Caveat.NOT_REPLAYABLE.say(),),
                    )
        return outcomes

    def _leave(self) -> KeyedOutcome:
        records, sizes = (known_loads(np.ascontiguousarray(column)) for column in self.recorded.T)
        outcome = KeyedOutcome(
            strategy=AS_RECORDED,
            partition_count=len(self.recorded),
            records=records,
            sizes=sizes,
            key_counts=np.zeros(len(self.recorded), np.int64),
            keyless_rule=AS_RECORDED,
        )
        return replace(outcome, assumptions=tuple(self._assume(outcome)))

    def _assign(self, number: int) -> KeyedOutcome:
        assignment = self.plan.assignments[number]
        count = assignment.partition_counts[self.window]
        cells, moves = self.sums.assigned.get(number, (np.zeros((count, 3), np.int64), MoveTotals()))
        known = cells[:, [RECORDS, BYTES]]
        # keys that stay on partitions that are gone
        unknown = self.recorded_cells(NAMED).sum(axis=0) - known.sum(axis=0)
        keyless = self.recorded_cells(_NO_KEY)
        to_partition = None  # the members of a family differ over missing keys
        if not assignment.family and assignment.function is not None:
            to_partition = choose_for_no_key(resolve_strategy(assignment.strategy), count)
        if to_partition is not None:
            known[to_partition] += keyless.sum(axis=0)
        else:
            known += add_cells(keyless[:count], np.zeros((count, 2), np.int64))
            unknown += keyless[count:].sum(axis=0)
        others = (kind for kind in self.sums.recorded if kind not in {NAMED, _NO_KEY})
        unknown += sum(self.recorded_cells(kind).sum(axis=0) for kind in others)
        outcome = KeyedOutcome(
            strategy=assignment.strategy,
            partition_count=count,
            assignment=number,
            records=spread_unknown(known[:, RECORDS], int(unknown[RECORDS])),
            sizes=spread_unknown(known[:, BYTES], int(unknown[BYTES])),
            key_counts=cells[:, KEYS],
            keyless_rule=AS_RECORDED if to_partition is None else f"to partition {to_partition}",
            unknown_record_count=int(unknown[RECORDS]),
            unknown_size_bytes=int(unknown[BYTES]),
            moves=moves,
        )
        return replace(outcome, assumptions=tuple(self._assume(outcome)))

    def _assume(self, outcome: KeyedOutcome) -> Iterator[Statement]:
        _, source = self._in_use
        if source is BaselineSource.NONE:
            yield Caveat.KEYS_AS_RECORDED.say()
        if outcome.assignment is not None:
            if source is BaselineSource.VERDICT and self.plan.assignments[outcome.assignment].family:
                yield Caveat.EMPTY_KEY_STAYS.say()
            if outcome.keyless_rule == AS_RECORDED and self.recorded_cells(_NO_KEY).any():
                yield Caveat.KEYLESS_STAYS.say()
        if outcome.unknown_record_count:
            yield Caveat.SPREAD_EVENLY.say()
            yield Caveat.RANGES_HOLD.say()
        if outcome.partition_count != self.partition_count:
            yield Caveat.LEADERS_DRAWN.say()

    def measure_floor(self, outcome: KeyedOutcome) -> Estimate:
        """max(1, P p_1) by bytes; the heaviest key may be heavier than counted, or one without a name."""
        total = int(outcome.sizes.median.sum())
        if total <= 0:
            return UNKNOWN
        keys = self.sums.keys
        largest_high = keys.largest_bytes_high if keys.key_count else outcome.unknown_size_bytes
        low, high = (max(1.0, outcome.partition_count * size / total) for size in (keys.largest_bytes, largest_high))
        return Estimate(low, low, high)


def list_keyed_topics(
    plan: KeyedPlan, sums: Mapping[tuple[int, int], TopicSums]
) -> dict[tuple[int, str, str], KeyedTopic]:
    """By start of the window, topic and topic id, what recorded keys say; a `ConfigError` where a user's strategy was not asked."""
    topics = {}
    answered: Counter[str] = Counter()  # records, by strategy: a user's function may have none for a key or two
    for (number, _), own in sums.items():
        for assigned, (_, totals) in own.assigned.items():
            strategy = plan.topics[number].assignments[assigned].strategy
            answered[strategy] += own.keys.record_count - totals.unanswered_records
    for (number, window), own in sorted(sums.items()):
        topic = KeyedTopic(plan.topics[number], window, plan.previous[window] >= 0, own)
        for assigned, (_, totals) in own.assigned.items():
            assignment = topic.plan.assignments[assigned]
            if totals.unanswered_records and not answered[assignment.strategy]:
                raise ConfigError(
                    f"candidate {assignment.candidate}: {assignment.strategy} was not asked about keys of topic "
                    f"{topic.plan.topic} for {assignment.partition_counts[window]} partitions when they were read, or "
                    "its file has changed since: ingest again with it among `keys.strategies`"
                )
        topics[plan.window_starts_ms[window], topic.plan.topic, topic.plan.topic_id] = topic
    return topics
