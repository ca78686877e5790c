"""Parses `kafka-consumer-groups --describe`: offsets and members of groups.

The tool prints a table per group, columns padded with blanks; `-` stands for nothing. Columns are taken by the names in
the header line, so tables with more columns (`--verbose`) parse too. A client id may hold blanks, and a member's id begins
with it: cells are cut where the header's words begin; where a line is not aligned (copied by hand), by its words.

References:
    `ConsumerGroupCommand` (Kafka 2.4 to 4.1).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pipeline.codec.tools.tool_text import int32, int64
from pipeline.errors import InputError, parser
from pipeline.model.cluster import ConsumerGroupMember

_NEEDED = "CURRENT-OFFSET"
_WORD = re.compile(r"\S+")


@parser
def parse_consumer_groups(text: str, *, path: Path | str | None = None) -> tuple[ConsumerGroupMember, ...]:
    """Rows of `kafka-consumer-groups --describe` (one or all groups).

    Raises:
        InputError: No table in it, or an invalid number; `position` is the line number.
    """
    rows = []
    for number, columns in _iter_rows(text, path):
        try:
            rows.append(_parse_member(columns))
        except _NotANumberError as error:
            raise InputError(f"a line whose {error} is not a number", path=path, position=number) from None
    return tuple(rows)


def _iter_rows(text: str, path: Path | str | None) -> Iterator[tuple[int, Mapping[str, str]]]:
    header: list[str] = []
    starts: list[int] = []
    has_header = False
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if words[:1] == ["GROUP"]:
            header = words if _NEEDED in words else []
            starts = [match.start() for match in _WORD.finditer(line)]
            has_header = has_header or bool(header)
        elif header and words:
            columns = _cut_columns(starts, header, line) or _match_columns(header, words)
            if columns is not None:
                yield number, columns
    if not has_header:
        raise InputError(f"no table with a column {_NEEDED}", path=path)


def _cut_columns(starts: list[int], header: list[str], line: str) -> dict[str, str] | None:
    """Cells between the places where the header's words begin; None where the line is not aligned with it."""
    is_aligned = len(line) > starts[-1] and all(line[at - 1] == " " and line[at] != " " for at in starts[1:])
    if not is_aligned or line.startswith(" "):
        return None
    ends = [*starts[1:], len(line)]
    return {name: line[start:end].strip() for name, start, end in zip(header, starts, ends, strict=True)}


def _match_columns(header: list[str], words: list[str]) -> dict[str, str] | None:
    """Words by column; None for a line that is not a row (a warning between tables)."""
    if len(words) < len(header) or words[0] in {"Warning:", "Error:"}:
        return None
    last = " ".join(words[len(header) - 1 :])
    return dict(zip(header, [*words[: len(header) - 1], last], strict=True))


def _parse_member(columns: Mapping[str, str]) -> ConsumerGroupMember:
    host = _text(columns["HOST"])
    return ConsumerGroupMember(
        group_id=columns["GROUP"],
        topic=_text(columns["TOPIC"]),
        partition=_number(columns, "PARTITION", int32),
        committed_offset=_number(columns, "CURRENT-OFFSET"),
        log_end_offset=_number(columns, "LOG-END-OFFSET"),
        lag_count=_number(columns, "LAG"),
        member_id=_text(columns["CONSUMER-ID"]),
        client_host=None if host is None else host.removeprefix("/"),
        client_id=_text(columns["CLIENT-ID"]),
    )


def _text(word: str) -> str | None:
    return None if word == "-" else word


class _NotANumberError(ValueError):
    """Names the column; the cell is not repeated."""


def _number(columns: Mapping[str, str], name: str, read: Callable[[object], int] = int64) -> int | None:
    try:
        return None if columns[name] == "-" else read(columns[name])
    except ValueError:
        raise _NotANumberError(name) from None
