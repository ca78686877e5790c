"""Problems as rows of `bronze.quarantine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame


def collect_problems(rows: DataFrame) -> list[Problem]:
    """Problems found by Spark tasks: rows of kind `problem` of either data source."""
    found = rows.select("path", "position", "reason", "severity", "first_bytes_hex").distinct().collect()
    return [
        Problem(
            path=row["path"],
            position=None if row["position"] < 0 else row["position"],
            reason=row["reason"],
            first_bytes=bytes.fromhex(row["first_bytes_hex"]),
            severity=row["severity"],
        )
        for row in sorted(found)
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
