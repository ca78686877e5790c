"""What the sums say of one topic in one window: rows of the gold tables, as plain values.

What is certain stays apart from what is likely: see `estimates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.config.replay import IN_USE
from pipeline.partitioners.recorded import choose_for_no_key
from pipeline.replay import buckets
from pipeline.replay import placement_kernels as kernels
from pipeline.replay.estimates import Loads, of_loads, spread_unknown
from pipeline.replay.packing import UNNAMED_KINDS
from pipeline.replay.placements import Placements, draw_placements, sum_by_broker
from pipeline.replay.plan import resolve_strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.measures.hash_verdicts import HashVerdict
    from pipeline.replay.plan import Placing, PlannedTopic

AS_RECORDED = "as recorded"
_NO_KEY, _OTHER_KEYS, _UNREADABLE = (buckets.FIRST_UNNAMED - number for number in range(len(UNNAMED_KINDS)))
_RECORDS, _BYTES = kernels.CELL_RECORDS, kernels.CELL_BYTES
_BOTH = slice(_RECORDS, _BYTES + 1)


class TopKey(NamedTuple):
    """One of a topic's heaviest keys: its id, what it holds, its partition by placing."""

    key_id: str
    record_count: int
    size_bytes: int
    partitions: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TopicWindow:
    """Everything summed up about one topic in one window.

    Attributes:
        topic: From the plan.
        window: By number in the plan.
        has_window_before: Keys of the window before are stored.
        sums: Merged, by placing.
        top_keys: The heaviest keys, the heaviest first.
        leaders: Leader by partition, at the window's end.
        broker_ids: All brokers of the window.
    """

    topic: PlannedTopic
    window: int
    has_window_before: bool
    sums: Mapping[int, buckets.Sums]
    top_keys: Sequence[TopKey]
    leaders: Mapping[int, int]
    broker_ids: Sequence[int]

    @property
    def partition_count(self) -> int:
        """Partitions the topic has."""
        return self.topic.partition_counts[self.window]

    def recorded(self, placing: int) -> NDArray[np.int64]:
        """Records and bytes recorded per partition, of one kind; shape (partitions, 2)."""
        cells = np.zeros((self.partition_count, 2), dtype=np.int64)
        if placing in self.sums:
            found = self.sums[placing].cells[:, _BOTH]
            if len(found) > len(cells):  # a partition that the cluster's history does not know of
                cells = np.zeros((len(found), 2), dtype=np.int64)
            cells[: len(found)] = found
        return cells

    @property
    def keyed(self) -> NDArray[np.int64]:
        """Totals of the keys that have a name, as `buckets` counts them."""
        if buckets.RECORDED in self.sums:
            return self.sums[buckets.RECORDED].totals
        return np.zeros(buckets.RECORDED_COUNT, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One candidate's outcome.

    Attributes:
        name: In the configuration.
        partitioner: Strategy, `AS_RECORDED`, or None where nothing can be replayed.
        partition_count: Under the candidate.
        placing: What was placed, by number; None where nothing was.
        records: Per partition.
        sizes: Per partition, bytes.
        key_counts: Per partition.
        keyless_rule: What became of records without a key.
        unknown_record_count: Records that may lie anywhere.
        unknown_size_bytes: Their bytes.
    """

    name: str
    partitioner: str | None
    partition_count: int
    placing: int | None
    records: Loads
    sizes: Loads
    key_counts: NDArray[np.int64]
    keyless_rule: str
    unknown_record_count: int
    unknown_size_bytes: int


def recorded_loads(facts: TopicWindow) -> NDArray[np.int64]:
    """Records and bytes recorded per partition, of all kinds; shape (partitions, 2)."""
    kinds = (buckets.RECORDED, buckets.UNKNOWN, _NO_KEY, _OTHER_KEYS, _UNREADABLE)
    found = [facts.recorded(kind) for kind in kinds]
    loads = np.zeros((max(len(cells) for cells in found), 2), dtype=np.int64)
    for cells in found:
        loads[: len(cells)] += cells
    return loads


def replay_in_use(facts: TopicWindow, verdict: HashVerdict) -> tuple[Candidate, str]:
    """The strategy in use, and how it is known: from the configuration, else from the verdict, else as recorded."""
    placings = facts.topic.placings
    for number, placing in enumerate(placings):
        if placing.candidate == IN_USE:
            return _replay(facts, IN_USE, number, placing), "configuration"
    for number, placing in enumerate(placings):
        if not placing.candidate and placing.family == verdict.verdict:
            return _replay(facts, IN_USE, number, placing), "hash verdict"
    loads = recorded_loads(facts)
    cells = facts.sums[buckets.RECORDED].cells if buckets.RECORDED in facts.sums else np.zeros((0, 5), np.int64)
    records, sizes = recorded_parts(facts)
    keys = np.zeros(len(loads), dtype=np.int64)
    keys[: len(cells)] = cells[:, kernels.CELL_KEYS]
    in_use = Candidate(
        name=IN_USE,
        partitioner=AS_RECORDED,
        partition_count=len(loads),
        placing=None,
        records=records,
        sizes=sizes,
        key_counts=keys,
        keyless_rule=AS_RECORDED,
        unknown_record_count=0,
        unknown_size_bytes=0,
    )
    return in_use, "none"


def iter_candidates(facts: TopicWindow, verdict: HashVerdict) -> Iterator[Candidate]:
    """Every configured candidate about the topic, in order."""
    seen: dict[str, tuple[int, Placing]] = {}
    order: dict[str, int] = {}
    for number, placing in enumerate(facts.topic.placings):
        if placing.candidate in {"", IN_USE}:
            continue
        order[placing.candidate] = placing.partition_counts[facts.window]
        if placing.family in {"", verdict.verdict}:
            seen[placing.candidate] = (number, placing)
    for name, partition_count in order.items():
        if name in seen:
            yield _replay(facts, name, *seen[name])
        else:
            nothing = np.zeros(0, dtype=np.int64)
            yield Candidate(
                name=name,
                partitioner=None,
                partition_count=partition_count,
                placing=None,
                records=Loads(nothing, nothing, nothing),
                sizes=Loads(nothing, nothing, nothing),
                key_counts=nothing,
                keyless_rule="",
                unknown_record_count=0,
                unknown_size_bytes=0,
            )


def _replay(facts: TopicWindow, name: str, number: int, placing: Placing) -> Candidate:
    count = placing.partition_counts[facts.window]
    cells = np.zeros((count, kernels.CELL_COUNT), dtype=np.int64)
    if number in facts.sums:
        cells = facts.sums[number].cells
    known = cells[:, _BOTH].copy()
    unknown = facts.recorded(buckets.RECORDED).sum(axis=0) - known.sum(axis=0)  # kept on partitions that are gone
    keyless = facts.recorded(_NO_KEY)
    to_partition = _choose_for_no_key(placing, count)
    if to_partition is not None:
        known[to_partition] += keyless.sum(axis=0)
        keyless_rule = f"to partition {to_partition}"
    else:
        there = min(count, len(keyless))
        known[:there] += keyless[:there]
        unknown += keyless[there:].sum(axis=0)
        keyless_rule = AS_RECORDED
    for kind in (buckets.UNKNOWN, _OTHER_KEYS, _UNREADABLE):
        unknown += facts.recorded(kind).sum(axis=0)
    return Candidate(
        name=name,
        partitioner=placing.strategy,
        partition_count=count,
        placing=number,
        records=spread_unknown(known[:, 0], int(unknown[0])),
        sizes=spread_unknown(known[:, 1], int(unknown[1])),
        key_counts=cells[:, kernels.CELL_KEYS],
        keyless_rule=keyless_rule,
        unknown_record_count=int(unknown[0]),
        unknown_size_bytes=int(unknown[1]),
    )


def _choose_for_no_key(placing: Placing, partition_count: int) -> int | None:
    if placing.family or placing.function is None:  # the members of a family differ over missing keys
        return None
    return choose_for_no_key(resolve_strategy(placing.strategy), partition_count)


def partition_rows(facts: TopicWindow, candidate: Candidate) -> Iterator[dict[str, Any]]:
    """Rows of `gold.replay_results`."""
    recorded = recorded_loads(facts)
    kept_count = facts.partition_count if candidate.partition_count >= facts.partition_count else 0
    for partition in range(max(candidate.partition_count, len(recorded))):
        is_there = partition < candidate.partition_count
        was_there = partition < len(recorded)
        top = _top_key_of(facts, candidate, partition)
        yield {
            "partition": partition,
            "partitioner": candidate.partitioner,
            "partition_count": candidate.partition_count,
            "seed_count": 1,
            "leader_id": facts.leaders.get(partition, -1) if partition < kept_count else -1,
            **of_loads("record_count", candidate.records, partition if is_there else None),
            **of_loads("size_bytes", candidate.sizes, partition if is_there else None),
            "key_count": int(candidate.key_counts[partition]) if is_there else 0,
            "recorded_record_count": int(recorded[partition, _RECORDS]) if was_there else 0,
            "recorded_size_bytes": int(recorded[partition, _BYTES]) if was_there else 0,
            "top_key": top.key_id[:8] if top else None,
            "top_key_size_bytes": top.size_bytes if top else None,
        }


def _top_key_of(facts: TopicWindow, candidate: Candidate, partition: int) -> TopKey | None:
    if candidate.placing is None:
        return None
    return next((key for key in facts.top_keys if key.partitions[candidate.placing] == partition), None)


def broker_rows(facts: TopicWindow, candidate: Candidate) -> Iterator[dict[str, Any]]:
    """Rows of `gold.replay_brokers`."""
    placements = place_candidate(facts, candidate)
    records, sizes = sum_by_broker(placements, candidate.records), sum_by_broker(placements, candidate.sizes)
    led = [sum_by_broker(place_recorded(facts), part).median for part in recorded_parts(facts)]
    total = int(candidate.sizes.median.sum())
    for number, broker_id in enumerate(placements.broker_ids):
        shares = [float(part[number] / total) if total else None for part in sizes]
        was_led = [int(part[number]) for part in led]
        yield {
            "broker_id": broker_id,
            "placement": "drawn" if placements.is_drawn else "known",
            **of_loads("record_count", records, number),
            **of_loads("size_bytes", sizes, number),
            "recorded_record_count": was_led[0],
            "recorded_size_bytes": was_led[1],
            "share": shares[1],
            "share_low": shares[0],
            "share_high": shares[2],
            "recorded_share": was_led[1] / total if total else None,
        }


def recorded_parts(facts: TopicWindow) -> tuple[Loads, Loads]:
    """What was recorded per partition, records and bytes, as loads without doubt."""
    loads = recorded_loads(facts)
    records, sizes = (np.ascontiguousarray(loads[:, column]) for column in (_RECORDS, _BYTES))
    return Loads(records, records, records), Loads(sizes, sizes, sizes)


def place_candidate(facts: TopicWindow, candidate: Candidate) -> Placements:
    """Who would lead what: drawn where that is open."""
    count = candidate.partition_count
    seed = f"{facts.topic.topic} {count}"
    return draw_placements(facts.leaders, facts.broker_ids, facts.partition_count, count, seed=seed)


def place_recorded(facts: TopicWindow) -> Placements:
    """Who led what."""
    count = len(recorded_loads(facts))
    return draw_placements(facts.leaders, facts.broker_ids, count, count, seed="")
