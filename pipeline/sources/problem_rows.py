"""Problems as rows of `bronze.quarantine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


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
    """One row per problem, each once.

    Args:
        cluster: Name in the configuration.
        problems: By source kind.
        relative: Shortens a path to what it is under its source root.
    """
    seen: set[tuple[str, int, str]] = set()
    for source, found in problems.items():
        for problem in found:
            path, position = relative(problem.path), -1 if problem.position is None else problem.position
            if (path, position, problem.reason) not in seen:
                seen.add((path, position, problem.reason))
                yield {
                    "cluster": cluster,
                    "source": source,
                    "path": path,
                    "position": position,
                    "reason": problem.reason,
                    "severity": problem.severity,
                    "first_bytes_hex": problem.first_bytes.hex(),
                }
