"""Consumer groups and problems as rows of bronze tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.model.cluster import ConsumerGroupMember
from pipeline.model.log import Problem
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import TimeWindow, instant_of


def iter_consumer_group_rows(
    cluster: str, groups: Iterable[tuple[int, ConsumerGroupMember]], windows: Sequence[TimeWindow]
) -> Iterator[dict[str, Any]]:
    observed = ((window, at_ms, member) for at_ms, member in groups for window in windows if at_ms in window)
    return (group_row(cluster, *one) for one in observed)


def group_row(cluster: str, window: TimeWindow, observed_at_ms: int, member: ConsumerGroupMember) -> dict[str, Any]:
    observed_at, start = instant_of(observed_at_ms), instant_of(window.start_ms)
    return {"cluster": cluster, "window_start": start, "observed_at": observed_at, **asdict(member)}


def problems_of(rows: Iterable[Mapping[str, Any]]) -> list[Problem]:
    names = ("path", "position", "reason", "severity")
    return [
        Problem(**{name: row[name] for name in names}, first_bytes=bytes.fromhex(row["first_bytes_hex"]))
        for row in rows
    ]


def iter_quarantine_rows(
    cluster: str, problems: Mapping[str, Iterable[Problem]], relative: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """One row per problem, each once; `problems` are by source, `relative` shows a path as it is under its root."""
    seen: set[tuple[str, int, str]] = set()
    for source, of_source in problems.items():
        for problem in of_source:
            path, position = relative(problem.path), -1 if problem.position is None else problem.position
            reason = escape_hidden(problem.reason)  # whoever reads the row may do so in a terminal
            if (path, position, reason) not in seen:
                seen.add((path, position, reason))
                place = {"cluster": cluster, "source": source, "path": path, "position": position}
                found = {"severity": problem.severity, "first_bytes_hex": problem.first_bytes.hex()}
                yield {**place, "reason": reason, **found}
