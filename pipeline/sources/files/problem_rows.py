"""Problems as rows of `bronze.quarantine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


_SEGMENT_SUFFIX = ".log"
_MAGIC_AT = 16
_HEADER_BYTES = {0: 18, 1: 26, 2: 61}  # by magic; the legacy formats have the key's length and the key next


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
    """One row per problem, each once; `problems` are by source, `relative` shortens a path to what is under its root."""
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
                    "first_bytes_hex": without_keys(path, problem.first_bytes).hex(),
                }


def without_keys(path: str, first_bytes: bytes) -> bytes:
    """What may be stored of the bytes where a problem was met: of a segment its batch header, for keys follow behind it.

    >>> without_keys("clicks-0/00000000000000000000.log", bytes(64)) == bytes(18)
    True
    """
    if not path.endswith(_SEGMENT_SUFFIX):
        return first_bytes
    magic = first_bytes[_MAGIC_AT] if len(first_bytes) > _MAGIC_AT else -1
    return first_bytes[: _HEADER_BYTES.get(magic, _MAGIC_AT + 1)]
