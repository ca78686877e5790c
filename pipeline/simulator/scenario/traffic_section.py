"""`traffic` of a producer in a scenario file: when records come, how large they are, where they go."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.partitioners.assignment import assign_partitions
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition
from pipeline.simulator.clients.client import PLACEMENTS, SECOND
from pipeline.simulator.scenario.distribution import Distribution
from pipeline.simulator.scenario.measured import MEASURED_PERF_TEST_OVERSLEEP
from pipeline.simulator.scenario.quantities import parse_distribution, parse_seconds
from pipeline.simulator.scenario.recorded_traffic import read_recorded
from pipeline.simulator.scenario.traffic import KEYLESS, Gaps, OnOff, PerfTest, Target, Traffic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.simulator.scenario.scenario import Topic
    from pipeline.simulator.scenario.traffic import Arrivals
    from pipeline.simulator.scenario.yaml_entries import Entry

TRAFFIC_KEYS = (
    "topic",
    "topics",
    "arrivals",
    "records",
    "start_s",
    "duration_s",
    "value_bytes",
    "keys",
    "explicit",
    "threads",
)
KINDS = {
    "perf_test": ("records_per_s",),
    "constant": ("records_per_s",),
    "poisson": ("records_per_s",),
    "on_off": ("records_per_s", "on_s", "off_s", "spacing"),
    "recorded": ("file",),
}
_WEIGHTS = 1_000_000_000
_MOST_KEYS = 1_000_000
_MOST_RATE_PER_S = 100_000_000


def parse_traffic(entry: Entry, topics: Sequence[Topic], strategy: str) -> tuple[Traffic, ...]:
    """What one section of traffic sends; as many values as it has threads.

    Args:
        entry: The section.
        topics: Of the scenario.
        strategy: The producer's, by name: it places the keys.

    Raises:
        ConfigError: A key or a value that cannot be, or traffic without an end.
    """
    keys = entry.mapping(known=TRAFFIC_KEYS, needed=("arrivals",))
    weights = _parse_topics(entry, keys, topics)
    arrivals_keys = keys["arrivals"].mapping(known=set().union(*KINDS.values()), needed=("kind",))
    kind = arrivals_keys["kind"].choice(tuple(KINDS))
    own_keys = keys["arrivals"].mapping(known=KINDS[kind], needed=("kind",))
    threads = keys["threads"].whole(least=1, most=10_000) if "threads" in keys else 1
    start_ns = parse_seconds(keys["start_s"]) if "start_s" in keys else 0
    if kind == "recorded":
        for name in ("records", "duration_s", "value_bytes", "keys", "explicit", "threads", "topics"):
            if name in keys:
                raise keys[name].error("not with recorded arrivals: the recording says it")
        recorded = read_recorded(own_keys, keys["arrivals"], topics[next(iter(weights))], strategy)
        return (Traffic(recorded, targets=tuple(Target(topic) for topic in weights), start_ns=start_ns),)
    if "records" not in keys and "duration_s" not in keys:
        raise entry.error("key records or duration_s is missing: traffic needs an end")
    value_bytes = parse_distribution(keys["value_bytes"]) if "value_bytes" in keys else None
    if value_bytes is None:
        raise entry.error("key value_bytes is missing")
    traffic = Traffic(
        arrivals=_parse_arrivals(kind, own_keys, keys["arrivals"]),
        value_bytes=value_bytes,
        targets=_make_targets(keys, weights, topics, strategy),
        record_count=keys["records"].whole(least=1) if "records" in keys else 0,
        start_ns=start_ns,
        end_ns=start_ns + parse_seconds(keys["duration_s"], least=1e-9) if "duration_s" in keys else 0,
    )
    return (traffic,) * threads


def _parse_topics(entry: Entry, keys: Mapping[str, Entry], topics: Sequence[Topic]) -> dict[int, float]:
    """Index of each topic that records go to, and its weight."""
    numbers = {topic.name: place for place, topic in enumerate(topics)}
    if "topics" in keys:
        if "topic" in keys:
            raise keys["topics"].error("topic and topics; expected one of them")
        named = {name: value.number(least=0.000001) for name, value in keys["topics"].mapping().items()}
        place = keys["topics"]
        if not named:
            raise place.expect("at least one topic with its weight")
    elif "topic" in keys:
        named, place = {keys["topic"].text(): 1.0}, keys["topic"]
    elif len(topics) == 1:
        return {0: 1.0}
    else:
        raise entry.error("key topic is missing: there are several")
    for name in named:
        if name not in numbers:
            raise place.error(f"no topic {name}; expected {' or '.join(numbers)}")
    return {numbers[name]: weight for name, weight in named.items()}


def _parse_arrivals(kind: str, keys: Mapping[str, Entry], entry: Entry) -> Arrivals:
    if "records_per_s" not in keys:
        raise entry.error("key records_per_s is missing")
    if kind == "perf_test":
        return PerfTest(keys["records_per_s"].whole(most=_MOST_RATE_PER_S), MEASURED_PERF_TEST_OVERSLEEP)
    rate = keys["records_per_s"].number(least=0.000001, most=_MOST_RATE_PER_S)
    gap_ns = max(1, round(SECOND / rate))
    spacing = keys["spacing"].choice(("even", "poisson")) if "spacing" in keys else "even"
    gap = Distribution.exponential(gap_ns) if "poisson" in (kind, spacing) else Distribution.constant(gap_ns)
    if kind != "on_off":
        return Gaps(gap)
    for name in ("on_s", "off_s"):
        if name not in keys:
            raise entry.error(f"key {name} is missing")
    return OnOff(gap, parse_distribution(keys["on_s"], SECOND), parse_distribution(keys["off_s"], SECOND))


def _make_targets(
    keys: Mapping[str, Entry], weights: Mapping[int, float], topics: Sequence[Topic], strategy: str
) -> tuple[Target, ...]:
    """Keyless, keyed and explicit parts of the records of every topic, with whole weights."""
    keyed = keys["keys"].mapping(("share", "count", "bytes", "zipf_exponent")) if "keys" in keys else {}
    explicit = keys["explicit"].mapping(needed=("share", "partitions")) if "explicit" in keys else {}
    keyed_share = (keyed["share"].number(most=1) if "share" in keyed else 1.0) if keyed else 0.0
    explicit_share = explicit["share"].number(most=1) if explicit else 0.0
    if keyed_share + explicit_share > 1 + 1e-9:
        raise keys["explicit"].error("shares of keyed and explicit records add up to more than 1")
    total = math.fsum(weights.values())
    parts: list[tuple[float, Target]] = []
    for topic, weight in weights.items():
        part = weight / total
        keyless = Target(topic, partition=_place_keyless(strategy, len(topics[topic].leaders)))
        parts.append((part * (1 - keyed_share - explicit_share), keyless))
        if keyed_share:
            placed = _place_keys(keys["keys"], keyed, topic, topics[topic], strategy)
            parts += [(part * keyed_share * share, target) for share, target in placed]
        if explicit_share:
            named = [item.whole(most=len(topics[topic].leaders) - 1) for item in explicit["partitions"].items()]
            if not named:
                raise explicit["partitions"].expect("at least one partition")
            each = part * explicit_share / len(named)
            parts += [(each, Target(topic, partition=partition, is_explicit=True)) for partition in named]
    return _with_whole_weights(parts)


def _with_whole_weights(parts: Sequence[tuple[float, Target]]) -> tuple[Target, ...]:
    kept = [(share, target) for share, target in parts if share > 1e-12]
    if len(kept) == 1:
        return (kept[0][1],)
    return tuple(
        Target(target.topic, max(1, round(share * _WEIGHTS)), target.partition, target.key_bytes, target.is_explicit)
        for share, target in kept
    )


def _place_keyless(strategy: str, partition_count: int) -> int:
    """Where a strategy that hashes a missing key puts it; `KEYLESS` where a partitioner draws."""
    if strategy in PLACEMENTS:
        return KEYLESS
    partition = choose_partition(find_strategy(strategy), None, partition_count)
    return KEYLESS if partition is None else partition


def _place_keys(
    entry: Entry, keyed: Mapping[str, Entry], number: int, topic: Topic, strategy: str
) -> list[tuple[float, Target]]:
    """The weight of each partition under a Zipf distribution of keys: decimal numbers, filled up with zeros."""
    if "count" not in keyed or "bytes" not in keyed:
        raise entry.error(f"key {'bytes' if 'count' in keyed else 'count'} is missing")
    count = keyed["count"].whole(least=1, most=_MOST_KEYS)
    key_bytes = keyed["bytes"].whole(least=len(str(count - 1)), most=10_000)
    exponent = keyed["zipf_exponent"].number(most=10) if "zipf_exponent" in keyed else 0.0
    column = pa.array([b"%0*d" % (key_bytes, rank) for rank in range(count)], pa.large_binary())
    partitions = np.asarray(assign_partitions(find_strategy(strategy), column, len(topic.leaders)))
    popularity = (np.arange(1, count + 1, dtype=np.float64)) ** -exponent
    sums = np.bincount(np.maximum(partitions, 0), popularity, minlength=len(topic.leaders)) / popularity.sum()
    if (partitions < 0).any():  # the strategy looks at no key: all are placed like records without one
        return [(1.0, Target(number, partition=KEYLESS, key_bytes=key_bytes))]
    return [
        (float(part), Target(number, partition=partition, key_bytes=key_bytes))
        for partition, part in enumerate(sums)
        if part > 0
    ]
