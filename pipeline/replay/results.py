"""From merged sums to the rows of the replay's gold tables; on the driver, as gold rows are few."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.config.replay import IN_USE
from pipeline.errors import ConfigError
from pipeline.model.window import instant_of
from pipeline.replay import buckets
from pipeline.replay import placement_kernels as kernels
from pipeline.replay.comparison import comparison_row
from pipeline.replay.keyed import merge_sums
from pipeline.replay.topic_results import (
    TopicWindow,
    TopKey,
    broker_rows,
    iter_candidates,
    partition_rows,
    replay_in_use,
)
from pipeline.replay.verdicts import judge_topic, verdict_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.replay.buckets import Sums
    from pipeline.replay.plan import ReplayPlan

    Row = dict[str, Any]


@dataclass(frozen=True)
class ClusterFacts:
    """Who was there and led what.

    Attributes:
        leaders: By start of the window, topic and topic id: leader by partition, at the window's end.
        brokers: By start of the window.
    """

    leaders: Mapping[tuple[int, str, str], Mapping[int, int]]
    brokers: Mapping[int, Sequence[int]]


@dataclass
class ReplayRows:
    """Rows by table, without cluster."""

    results: list[Row] = field(default_factory=list)
    brokers: list[Row] = field(default_factory=list)
    comparison: list[Row] = field(default_factory=list)
    verdicts: list[Row] = field(default_factory=list)
    back_tests: list[Row] = field(default_factory=list)


def make_rows(plan: ReplayPlan, partial: Iterable[Sums], cluster: ClusterFacts) -> ReplayRows:
    """Derives all rows of the replayed windows.

    Args:
        plan: What was replayed.
        partial: What the buckets add up to.
        cluster: Leaders and brokers.

    Raises:
        ConfigError: A user-defined strategy was never asked about recorded keys.
    """
    rows = ReplayRows()
    by_topic_window: dict[tuple[int, int], dict[int, list[Sums]]] = defaultdict(dict)
    for (topic, window, placing), parts in merge_sums(partial).items():
        by_topic_window[topic, window][placing] = parts
    for (topic, window), by_placing in sorted(by_topic_window.items()):
        facts = _facts(plan, topic, window, by_placing, cluster)
        _check_answers(facts)
        _add_rows(rows, plan.window_starts_ms[window], facts)
    return rows


def _facts(
    plan: ReplayPlan, topic: int, window: int, parts: Mapping[int, list[Sums]], cluster: ClusterFacts
) -> TopicWindow:
    planned, start_ms = plan.topics[topic], plan.window_starts_ms[window]
    return TopicWindow(
        topic=planned,
        window=window,
        has_window_before=plan.previous[window] >= 0,
        sums={placing: _merge(found) for placing, found in parts.items() if placing != buckets.TOP_KEYS},
        top_keys=_top_keys(parts.get(buckets.TOP_KEYS, ())),
        leaders=cluster.leaders.get((start_ms, planned.topic, planned.topic_id), {}),
        broker_ids=cluster.brokers.get(start_ms, ()),
    )


def _merge(parts: Sequence[Sums]) -> Sums:
    height = max(len(part.cells) for part in parts)
    cells = np.zeros((height, kernels.CELL_COUNT), dtype=np.int64)
    for part in parts:
        cells[: len(part.cells)] += part.cells
    totals = np.array([part.totals for part in parts], dtype=np.int64).sum(axis=0)
    if parts[0].placing == buckets.RECORDED:
        largest = slice(buckets.LARGEST_RECORDS, buckets.RECORDED_COUNT)
        totals[largest] = np.max([part.totals[largest] for part in parts], axis=0)
    return parts[0]._replace(cells=cells, totals=totals)


def _top_keys(parts: Iterable[Sums]) -> tuple[TopKey, ...]:
    keys = [
        TopKey(
            f"{int(row[0]) % 2**64:016x}{int(row[1]) % 2**64:016x}",
            int(row[2]),
            int(row[3]),
            row[buckets.TOP_KEY_HEAD :],
        )
        for part in parts
        for row in part.cells
    ]
    return tuple(sorted(keys, key=lambda key: (-key.size_bytes, key.key_id))[: buckets.TOP_KEY_COUNT])


def _check_answers(facts: TopicWindow) -> None:
    for number, placing in enumerate(facts.topic.placings):
        if number in facts.sums and facts.sums[number].totals[kernels.UNANSWERED_RECORDS]:
            raise ConfigError(
                f"candidate {placing.candidate}: {placing.strategy} was not asked about keys of topic "
                f"{facts.topic.topic} for {placing.partition_counts[facts.window]} partitions when they were read, or "
                "its file has changed since: ingest again with it among `keys.strategies`"
            )


def _add_rows(rows: ReplayRows, start_ms: int, facts: TopicWindow) -> None:
    here = {
        "window_start": instant_of(start_ms),
        "topic": facts.topic.topic,
        "topic_id": facts.topic.topic_id,
    }
    verdict = judge_topic(facts)
    rows.verdicts.append({**here, **verdict_row(facts, verdict)})
    in_use, source = replay_in_use(facts, verdict)
    for candidate in (in_use, *iter_candidates(facts, verdict)):
        named = {**here, "candidate": candidate.name, "is_baseline": candidate.name == IN_USE}
        rows.comparison.append({**named, **comparison_row(facts, candidate, in_use, source)})
        if candidate.partitioner is not None:
            rows.results += [{**named, **row} for row in partition_rows(facts, candidate)]
            rows.brokers += [{**named, **row} for row in broker_rows(facts, candidate)]
