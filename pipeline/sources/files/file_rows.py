"""Segment files as rows of `bronze.log_segments`, problems as rows of `bronze.quarantine`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.model.cluster import ConsumerGroupMember
from pipeline.model.log import Problem
from pipeline.model.log_tree import DirectoryKind, LogTree
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import TimeWindow, instant_of, known_instant_of


def iter_consumer_group_rows(
    cluster: str, groups: Iterable[tuple[int, ConsumerGroupMember]], windows: Sequence[TimeWindow]
) -> Iterator[dict[str, Any]]:
    """One row per group, partition and moment of description, for the moments within the windows."""
    for observed_at_ms, member in groups:
        yield from (
            group_row(cluster, window, observed_at_ms, member) for window in windows if observed_at_ms in window
        )


def group_row(cluster: str, window: TimeWindow, observed_at_ms: int, member: ConsumerGroupMember) -> dict[str, Any]:
    """A row of `bronze.consumer_groups`."""
    observed_at, start = instant_of(observed_at_ms), instant_of(window.start_ms)
    return {"cluster": cluster, "window_start": start, "observed_at": observed_at, **asdict(member)}


FACTS = (
    *("first_offset", "last_offset", "batch_count", "record_count", "control_batch_count", "missing_offset_count"),
    *("producer_id_count", "crc_error_count", "magic", "codecs"),
)
"""Columns of `bronze.log_segments` that a scan fills, under their own names."""


def problems_of(rows: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Problems found by Spark tasks, from collected rows of kind `problem`."""
    return [
        Problem(
            path=row["path"],
            position=row["position"],
            reason=row["reason"],
            first_bytes=bytes.fromhex(row["first_bytes_hex"]),
            severity=row["severity"],
        )
        for row in rows
    ]


def iter_quarantine_rows(
    cluster: str, problems: Mapping[str, Iterable[Problem]], relative: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """One row per problem, each once; `problems` are by source, `relative` shows a path as it is under its root.

    No hidden character stands in a row: whoever reads it may do so in a terminal.
    """
    seen: set[tuple[str, int, str]] = set()
    for source, problems_of in problems.items():
        for problem in problems_of:
            path, position = relative(problem.path), -1 if problem.position is None else problem.position
            reason = escape_hidden(problem.reason)
            if (path, position, reason) not in seen:
                seen.add((path, position, reason))
                yield {
                    "cluster": cluster,
                    "source": source,
                    "path": path,
                    "position": position,
                    "reason": reason,
                    "severity": problem.severity,
                    "first_bytes_hex": problem.first_bytes.hex(),
                }


def iter_segment_rows(
    cluster: str,
    tree: LogTree,
    summaries: Sequence[Mapping[str, Any]],
    retention_ms: Mapping[str, int],
    relative: Callable[[str], str],
) -> Iterator[dict[str, Any]]:
    """One row per segment file of a live replica.

    `summaries` are of the files whose batches this run read; `retention_ms` is by topic, where known and not compacted.
    """
    facts_of = {row["path"]: row for row in summaries if row["row_kind"] == "segment"}
    problem_counts = Counter(row["path"] for row in summaries if row["row_kind"] == "problem")
    for directory, partition, segment in tree.iter_segments(kind=DirectoryKind.LIVE):
        facts = facts_of.get(segment.path, {})
        newest_ms: int | None = facts.get("max_timestamp_ms")
        kept_ms = None if segment.is_active else retention_ms.get(partition.topic)
        yield {
            "cluster": cluster,
            "broker_id": -1 if directory.broker_id is None else directory.broker_id,
            "log_directory": relative(directory.path),
            "topic": partition.topic,
            "topic_id": partition.topic_id or "",
            "partition": partition.partition,
            "base_offset": segment.base_offset or 0,
            "path": relative(segment.path),
            "size_bytes": segment.size_bytes,
            "is_scanned": bool(facts),
            "is_active": segment.is_active,
            "problem_count": problem_counts[segment.path],
            "deletable_at": None if newest_ms is None or kept_ms is None else known_instant_of(newest_ms + kept_ms),
            "min_timestamp": known_instant_of(facts.get("min_timestamp_ms")),
            "max_timestamp": known_instant_of(newest_ms),
            **{name: facts.get(name) for name in FACTS},
        }
