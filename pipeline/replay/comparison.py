"""A candidate beside what is in use, for one topic in one window: the row of `gold.scenario_comparison`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.config.replay import IN_USE
from pipeline.replay import buckets
from pipeline.replay import placement_kernels as kernels
from pipeline.replay.estimates import Range, measure_effective_partitions, measure_peak_to_mean, of_range
from pipeline.replay.placements import measure_broker_peak
from pipeline.replay.topic_results import AS_RECORDED, place_candidate, place_recorded, recorded_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pipeline.replay.topic_results import Candidate, TopicWindow

TOP_KEYS_TOLD = 5
_NO_KEY = buckets.FIRST_UNNAMED


def comparison_row(facts: TopicWindow, candidate: Candidate, in_use: Candidate, source: str) -> dict[str, Any]:
    """The row of `gold.scenario_comparison`.

    Args:
        facts: The topic in the window.
        candidate: To be told of.
        in_use: What is in use.
        source: How that is known.
    """
    records, sizes = recorded_parts(facts)
    keyed = facts.keyed
    row = {
        "is_baseline": candidate.name == IN_USE,
        "baseline": in_use.partitioner,
        "baseline_source": source,
        "partitioner": candidate.partitioner,
        "baseline_partition_count": facts.partition_count,
        "partition_count": candidate.partition_count,
        "record_count": int(records.median.sum()),
        "size_bytes": int(sizes.median.sum()),
        "key_count": int(keyed[buckets.KEY_COUNT]),
        "keyed_record_count": int(keyed[buckets.KEYED_RECORDS]),
        "keyed_size_bytes": int(keyed[buckets.KEYED_BYTES]),
        "keyless_record_count": int(facts.recorded(_NO_KEY)[:, 0].sum()),
        "baseline_peak_to_mean": measure_peak_to_mean(sizes).value,
        "baseline_effective_partitions": measure_effective_partitions(sizes).value,
        "baseline_broker_peak_to_mean": measure_broker_peak(place_recorded(facts), sizes).value,
        "top_keys": {key.key_id[:8]: key.size_bytes for key in facts.top_keys[:TOP_KEYS_TOLD]},
        "assumptions": "; ".join(_assumptions(facts, candidate, source)),
    }
    if candidate.partitioner is None:
        return row
    return {**row, **_skew(facts, candidate), **_moves(facts, candidate)}


def _skew(facts: TopicWindow, candidate: Candidate) -> dict[str, Any]:
    peak = measure_peak_to_mean(candidate.sizes)
    even = measure_effective_partitions(candidate.sizes)
    broker_peak = measure_broker_peak(place_candidate(facts, candidate), candidate.sizes)
    return {
        "keyless_rule": candidate.keyless_rule,
        "unknown_record_count": candidate.unknown_record_count,
        **of_range("peak_to_mean", peak),
        **of_range("effective_partitions", even),
        **of_range("broker_peak_to_mean", broker_peak),
        **of_range("floor_peak_to_mean", _floor(facts, candidate)),
    }


def _floor(facts: TopicWindow, candidate: Candidate) -> Range:
    """max(1, P p_1) by bytes; the heaviest key may be heavier than counted, or one without a name."""
    total = int(candidate.sizes.median.sum())
    if total <= 0:
        return Range(None, None, None)
    keyed = facts.keyed
    largest, largest_high = int(keyed[buckets.LARGEST_BYTES]), int(keyed[buckets.LARGEST_BYTES_HIGH])
    if not keyed[buckets.KEY_COUNT]:
        largest_high = candidate.unknown_size_bytes
    low, high = (max(1.0, candidate.partition_count * size / total) for size in (largest, largest_high))
    return Range(low, low, high)


def _moves(facts: TopicWindow, candidate: Candidate) -> dict[str, Any]:
    """Keys and bytes that change partition, and those whose order a switch puts at risk."""
    keyed = facts.keyed
    if candidate.placing is None:  # as recorded
        totals: NDArray[Any] | Mapping[int, int] = dict.fromkeys(range(kernels.TOTAL_COUNT), 0)
    elif candidate.placing in facts.sums:
        totals = facts.sums[candidate.placing].totals
    else:
        totals = dict.fromkeys(range(kernels.TOTAL_COUNT), 0)
    moved = int(totals[kernels.MOVED_RECORDS]), int(totals[kernels.MOVED_BYTES])
    unknown = candidate.unknown_record_count, candidate.unknown_size_bytes
    at_risk = (kernels.AT_RISK_KEYS, kernels.AT_RISK_RECORDS, kernels.AT_RISK_BYTES)
    risks = [int(totals[number]) if facts.has_window_before else None for number in at_risk]
    key_count, keyed_bytes = int(keyed[buckets.KEY_COUNT]), int(keyed[buckets.KEYED_BYTES])
    return {
        "refused_record_count": int(totals[kernels.REFUSED_RECORDS]),
        "moved_key_count": int(totals[kernels.MOVED_KEYS]),
        "keys_moved_ratio": int(totals[kernels.MOVED_KEYS]) / key_count if key_count else None,
        "moved_record_count": moved[0],
        "moved_record_count_low": moved[0],
        "moved_record_count_high": moved[0] + unknown[0],
        "moved_size_bytes": moved[1],
        "moved_size_bytes_low": moved[1],
        "moved_size_bytes_high": moved[1] + unknown[1],
        "bytes_moved_ratio": moved[1] / keyed_bytes if keyed_bytes else None,
        "at_risk_key_count": risks[0],
        "at_risk_record_count": risks[1],
        "at_risk_size_bytes": risks[2],
    }


def _assumptions(facts: TopicWindow, candidate: Candidate, source: str) -> list[str]:
    told = []
    if candidate.partitioner is None:
        return ["the strategy in use is not known, so it cannot be replayed on another partition count"]
    if source == "none":
        told.append("no known strategy explains the recorded keys: what is in use stands as recorded")
    if candidate.placing is not None and source == "hash verdict" and facts.topic.placings[candidate.placing].family:
        told.append("an empty key stays where it was: strategies of this family differ over it")
    if candidate.keyless_rule == AS_RECORDED and facts.recorded(_NO_KEY).any() and candidate.placing is not None:
        told.append("records without a key stay where they were")
    if candidate.unknown_record_count:
        told.append(
            "records whose key has no name, no hash or no partition any more are spread evenly; ranges hold any spread"
        )
    if candidate.partition_count != facts.partition_count:
        told.append("leaders of new partitions are drawn")
    return told
