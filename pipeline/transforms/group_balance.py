"""From descriptions of consumer groups and bytes of partitions to `gold.group_balance`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipeline.measures.assignors import ASSIGNORS, MOST_DEALT, Owned, Partition, assign_consumers
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.health import GROUP_BALANCE

_Rows = Iterable[tuple[Any, ...]]
_Loads = Mapping[str, Mapping[Partition, int]]  # by topic
_MOST_LAG = 1 << 62  # a member may commit any offset, and a table holds 64 bits


def measure_groups(described: _Rows, sizes: _Rows, start: datetime) -> pa.Table:
    """Rows of `gold.group_balance` of the window that begins at `start`, without cluster.

    `described`: window, moment, group, topic, partition, lag and member of `bronze.consumer_groups`, of this window and the one
    before; of several descriptions within a window the last one counts. `sizes`: topic, partition, bytes in this window.
    """
    rows = list(_iter_rows(described, sizes, start))
    columns = [column for column in GROUP_BALANCE.columns if column.name not in {"cluster", "run_id"}]
    return pa.table({each.name: pa.array([row[each.name] for row in rows], ARROW_TYPES[each.type]) for each in columns})


def _iter_rows(described: _Rows, sizes: _Rows, start: datetime) -> Iterator[dict[str, Any]]:
    loads: dict[str, dict[Partition, int]] = defaultdict(lambda: defaultdict(int))
    for topic, number, size in sizes:
        loads[topic][topic, number] += size
    # by group, by whether it was in this window and when
    by_group: dict[str, dict[tuple[bool, datetime], list[list[Any]]]] = defaultdict(lambda: defaultdict(list))
    for window_start, at, group_id, *row in described:
        by_group[group_id][window_start == start, at].append(row)
    dealt = 0
    for group_id, moments in sorted(by_group.items()):
        last = max(moments)
        if last[0]:
            first = max((moment for moment in moments if not moment[0]), default=min(moments))
            seconds = (last[1] - first[1]).total_seconds()
            # growth of lag in offsets a second, where it is known at both moments
            before = {(topic, number): lag for topic, number, lag, _ in moments[first] if lag is not None}
            growth = {
                (topic, number): (lag - before[topic, number]) / seconds
                for topic, number, lag, _ in moments[last]
                if (topic, number) in before and lag is not None and seconds
            }
            dealt += sum(len(loads[topic]) for topic in {topic for topic, *_ in moments[last]} & loads.keys())
            for measured in _measure_topics(moments[last], growth, loads, ASSIGNORS if dealt <= MOST_DEALT else ()):
                yield {"window_start": start, "group_id": group_id, **measured}


def _measure_topics(
    rows: Iterable[Sequence[Any]], growth: Mapping[Partition, float], loads: _Loads, assignors: Sequence[str]
) -> Iterator[dict[str, Any]]:
    owned: dict[str, list[Partition]] = defaultdict(list)
    lags: dict[str, list[int | None]] = defaultdict(list)
    for topic, number, lag, member_id in rows:
        lags[topic].append(lag)
        if member_id is not None:
            owned[member_id].append((topic, number))
    growths: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (topic, number), each in sorted(growth.items()):
        growths[topic].append((str(number), each))
    numbers = {topic: sorted(number for _, number in loads[topic]) for topic in lags if topic in loads}
    now = _find_busiest(owned, loads)
    under = {name: _find_busiest(assign_consumers(name, numbers, owned, owned), loads) for name in assignors}
    reading = Counter(topic for parts in owned.values() for topic in {topic for topic, _ in parts})
    for topic, of_topic in sorted(lags.items()):
        sizes = loads.get(topic, {})
        total = sum(sizes.values())
        known = [lag for lag in of_topic if lag is not None]
        yield {
            "topic": topic,
            "partition_count": len(numbers.get(topic, of_topic)),
            "member_count": reading[topic],
            "idle_member_count": len(owned) - reading[topic],
            "lag_count": max(-_MOST_LAG, min(sum(known), _MOST_LAG)) if known else None,
            "lag_growth": growths[topic],
            "busiest_ratio": now[topic] / total if total and owned else None,
            "busiest_ratio_under": [(name, most[topic] / total) for name, most in under.items() if total and owned],
            "useful_member_count": -(-total // max(sizes.values())) if total else None,
        }


def _find_busiest(assignment: Owned, loads: _Loads) -> Counter[str]:
    """By topic, the bytes of the member that reads the most of it."""
    busiest: Counter[str] = Counter()
    for parts in assignment.values():
        carried: Counter[str] = Counter()
        for part in parts:
            carried[part[0]] += loads.get(part[0], {}).get(part, 0)
        for topic, size_bytes in carried.items():
            busiest[topic] = max(busiest[topic], size_bytes)
    return busiest
