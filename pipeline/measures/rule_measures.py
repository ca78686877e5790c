"""Rows of tables to what the rules judge: topics, brokers, disks, groups and segments, each with its words."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pipeline.measures.consumer_load import balance_group
from pipeline.measures.disks import hours_to_full, is_past_retention
from pipeline.model.rule import DISK_RULE, RuleMeasure
from pipeline.model.window import milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

Row = dict[str, Any]
_COUNTS = {
    "under_replicated": ("under_replicated_count", "partitions have fewer in-sync replicas than replicas"),
    "below_min_isr": ("below_min_isr_count", "partitions are below min.insync.replicas: acks=all is refused"),
    "leaderless": ("leaderless_count", "partitions have no leader"),
    "lagging_replicas": ("lagging_replica_count", "replicas are out of the in-sync set"),
}


def measure_topics(topics: Iterable[Row]) -> Iterator[RuleMeasure]:
    """Replication, replica sizes and the peak of every topic.

    Args:
        topics: Rows of `gold.topic_health`.
    """
    for row in topics:
        topic, start_ms = row["topic"], milliseconds_of(row["window_start"])

        def measure(
            rule: str,
            value: float | None,
            detail: str,
            p_value: float | None = None,
            *,
            is_enough: bool = True,
            topic: str = topic,
            start_ms: int = start_ms,
        ) -> RuleMeasure:
            return RuleMeasure(
                window_start_ms=start_ms,
                rule=rule,
                subject=f"topic {topic}",
                topic=topic,
                value=value,
                p_value=p_value,
                is_enough=is_enough,
                detail=detail,
            )

        for rule, (column, said) in _COUNTS.items():
            yield measure(rule, float(row[column]), f"{row[column]:,} {said}")
        if row["replica_size_spread"] is not None:
            spread = row["replica_size_spread"]
            yield measure(
                "replica_size_spread", spread, f"the largest replica of a partition is {spread:.2f} times the smallest"
            )
        if row["peak_to_mean"] is not None:
            yield measure(
                "topic_peak", row["peak_to_mean"], _say_peak(row), row["peak_p_value"], is_enough=_is_enough(row)
            )


def _is_enough(row: Row) -> bool:
    """Enough batches; of keys there are as many as there are, and what they do is real."""
    if row["placement"] == "keys" or row["required_unit_count"] is None:
        return True
    return bool((row["unit_count"] or 0) >= row["required_unit_count"])


def _say_peak(row: Row) -> str:
    said = f"the hottest of {row['partition_count']:,} partitions has {row['peak_to_mean']:.2f} times the mean"
    if row["chance_peak_to_mean"] is not None:
        said += f", chance gives up to {row['chance_peak_to_mean']:.2f} for its {row['placement']}"
    if row["best_peak_to_mean"] is not None and row["best_peak_to_mean"] > 1:
        said += f", no hash of these keys gets below {row['best_peak_to_mean']:.2f}"
    return said


def measure_brokers(brokers: Iterable[Row]) -> Iterator[RuleMeasure]:
    """Preferred leaders. KRaft ignores `leader.imbalance.per.broker.percentage`: it elects for any.

    Args:
        brokers: Rows of `bronze.brokers`.
    """
    for row in brokers:
        ratio = row["preferred_leader_imbalance_ratio"]
        if ratio is not None:
            detail = f"{ratio:.0%} of the partitions it should lead are led by others (KRaft knows no limit on this)"
            yield _of_broker(row["window_start"], "preferred_leader", row["broker_id"], ratio, detail)


def measure_latency(latency: Iterable[Row]) -> Iterator[RuleMeasure]:
    """Latency of brokers beside their peers and their own past, all clients together.

    Args:
        latency: Rows of `gold.latency`.
    """
    for row in latency:
        if row["client_id"] != "*":
            continue
        for rule, column, beside in (
            ("latency_to_peers", "ratio_to_peers", "the other brokers'"),
            ("latency_to_history", "ratio_to_history", "its own of the windows before"),
        ):
            ratio = row[column]
            if ratio is not None:
                detail = f"requests wait {row['request_latency_avg_ms']:.1f} ms, {ratio:.2f} times {beside}"
                yield _of_broker(row["window_start"], rule, row["broker_id"], ratio, detail)


def measure_disks(
    brokers: Iterable[Row], disk_bytes: Mapping[int, int], *, window_ms: int, starts_ms: Iterable[int]
) -> Iterator[RuleMeasure]:
    """Hours until the first disk of a broker is full, by how it filled.

    A disk is the volume of a log directory where the broker tells what it holds and what is left, other files on it
    included; else all of a broker's disks together, where the configuration says what they hold.

    Args:
        brokers: Rows of `bronze.brokers` of the windows and those before, by which growth is told.
        disk_bytes: What each broker's disks hold, from the configuration.
        window_ms: Length of a window.
        starts_ms: Windows to measure.
    """
    wanted = set(starts_ms)
    fillings: dict[int, dict[str, dict[int, tuple[int, int]]]] = defaultdict(lambda: defaultdict(dict))
    for row in brokers:
        for disk, filling in _fillings(row, disk_bytes).items():
            fillings[row["broker_id"]][disk][milliseconds_of(row["window_start"])] = filling
    for broker_id, disks in sorted(fillings.items()):
        for start_ms in sorted(wanted & {at_ms for by_window in disks.values() for at_ms in by_window}):
            found = [
                (hours, disk, *by_window[start_ms])
                for disk, by_window in sorted(disks.items())
                if start_ms in by_window and (hours := _hours_at(by_window, start_ms, window_ms)) is not None
            ]
            if found:
                hours, disk, used, total = min(found)
                detail = f"{disk} is {used / total:.0%} full, and at this pace all of it in {hours:.0f} h"
                yield _of_broker(start_ms, DISK_RULE, broker_id, hours, detail)


def _fillings(row: Row, disk_bytes: Mapping[int, int]) -> dict[str, tuple[int, int]]:
    """Bytes used and held by disk, in the window of a row."""
    if row["broker_id"] in disk_bytes:
        used = sum(size for _, size in row["log_dir_bytes"] or ())
        return {"the room that disk_bytes gives its replicas": (used, disk_bytes[row["broker_id"]])} if used else {}
    usable = dict(row["log_dir_usable_bytes"] or ())
    return {path: (total - usable[path], total) for path, total in row["log_dir_total_bytes"] or () if total}


def _hours_at(by_window: Mapping[int, tuple[int, int]], start_ms: int, window_ms: int) -> float | None:
    """Hours to full as known at the end of a window."""
    seen = sorted(at_ms for at_ms in by_window if at_ms <= start_ms)
    used = [by_window[at_ms][0] for at_ms in seen]
    return hours_to_full([at_ms + window_ms for at_ms in seen], used, by_window[start_ms][1])


def _of_broker(start: datetime | int, rule: str, broker_id: int, value: float, detail: str) -> RuleMeasure:
    return RuleMeasure(
        window_start_ms=start if isinstance(start, int) else milliseconds_of(start),
        rule=rule,
        subject=f"broker {broker_id}",
        topic="",
        value=value,
        p_value=None,
        is_enough=True,
        detail=detail,
    )


def measure_groups(groups: Iterable[Row], partitions: Iterable[Row]) -> Iterator[RuleMeasure]:
    """How evenly members of consumer groups read, now and under each of Kafka's assignors.

    Args:
        groups: Rows of `bronze.consumer_groups`; of several moments of a window the last one counts.
        partitions: Rows of `gold.partition_health` of the same windows.
    """
    loads: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    for row in partitions:
        loads[milliseconds_of(row["window_start"])][row["topic"], row["partition"]] = row["size_bytes"]
    seen: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in groups:
        seen[milliseconds_of(row["window_start"]), row["group_id"]].append(row)
    for (start_ms, group_id), rows in sorted(seen.items()):
        last = max(row["observed_at"] for row in rows)
        owned: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for row in rows:
            if row["observed_at"] == last and row["member_id"] is not None:
                owned[row["member_id"]].append((row["topic"], row["partition"]))
        if len(owned) > 1:
            yield _group_measure(start_ms, group_id, owned, loads[start_ms])


def _group_measure(
    start_ms: int,
    group_id: str,
    owned: Mapping[str, Sequence[tuple[str, int]]],
    loads: Mapping[tuple[str, int], int],
) -> RuleMeasure:
    topics = {topic for parts in owned.values() for topic, _ in parts}
    counts = {
        topic: 1 + max(number for name, number in loads if name == topic)
        for topic in topics
        if any(name == topic for name, _ in loads)
    }
    balance = balance_group(owned, counts, loads)
    under = ", ".join(f"{name} {value:.2f}" for name, value in balance.under.items() if value is not None)
    return RuleMeasure(
        window_start_ms=start_ms,
        rule="assignment_skew",
        subject=f"group {group_id}",
        topic=next(iter(topics)) if len(topics) == 1 else "",
        value=balance.now,
        p_value=None,
        is_enough=balance.now is not None,
        detail=(
            f"the busiest of {balance.member_count} members reads {balance.now or 0:.2f} times their mean of what was "
            f"written; under the assignors: {under or 'no traffic'}"
        ),
    )


def measure_segments(
    topics: Iterable[Row], segments: Iterable[Row], state: Iterable[Row], ends_ms: Mapping[int, int]
) -> Iterator[RuleMeasure]:
    """Closed segments that lie on although retention is over, by topic and window.

    A segment whose records all lie before its log's start is gone, whatever the table of segments still holds.

    Args:
        topics: Rows of `gold.topic_health` of the windows.
        segments: Rows of `bronze.log_segments` that may be deleted by now.
        state: Rows of `bronze.cluster_state` of the windows: where logs start.
        ends_ms: End of every window by its start, UTC milliseconds.
    """
    log_starts: dict[tuple[int, str, int, int], int] = {}
    for row in state:
        start_ms = milliseconds_of(row["window_start"])
        if row["log_start_offset"] is not None:
            log_starts[start_ms, row["topic"], row["partition"], row["replica_id"]] = row["log_start_offset"]
    overdue: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in segments:
        deletable_ms = milliseconds_of(row["deletable_at"])
        newest = row["base_offset"] if row["last_offset"] is None else row["last_offset"]
        for start_ms, end_ms in ends_ms.items():
            log_start = log_starts.get((start_ms, row["topic"], row["partition"], row["broker_id"]))
            if log_start is not None and newest >= log_start and is_past_retention(deletable_ms, end_ms):
                overdue[start_ms, row["topic"]].append(row["size_bytes"])
    for row in topics:
        start_ms, topic = milliseconds_of(row["window_start"]), row["topic"]
        sizes = overdue.get((start_ms, topic), [])
        yield RuleMeasure(
            window_start_ms=start_ms,
            rule="segments_past_retention",
            subject=f"topic {topic}",
            topic=topic,
            value=float(len(sizes)),
            p_value=None,
            is_enough=True,
            detail=f"{len(sizes):,} closed segments of {sum(sizes):,} bytes are past their retention",
        )
