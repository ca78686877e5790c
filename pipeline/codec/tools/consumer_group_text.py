"""Parses `kafka-consumer-groups --describe`: offsets and members of groups.

The tool prints a table per group, with a blank line before it and columns padded with blanks; `-` stands for nothing. Columns
are taken by the names in the header line, so tables with more columns (`--verbose`) parse too. A client id may hold blanks, and
a member's id begins with it: cells are cut where the header's words begin; where nothing is padded (copied by hand), by words.

A client id, or the name of a group, may hold line ends too, and what follows them looks like any row. So a line that is
no row of its table's group is refused with all the text, and so is a partition that a group has twice.

References: `ConsumerGroupCommand` (Kafka 2.4 to 4.1).
"""

import re
from collections.abc import Callable, Iterator, Mapping

from pipeline.codec.tools.tool_text import int32, int64
from pipeline.errors import InputError, parser
from pipeline.model.cluster import ConsumerGroupMember

_NEEDED = "CURRENT-OFFSET"
_WORD = re.compile(r"\S+")
_FORGED = "a line that is no row of its table, or a partition's second one: a client id or group may hold a line break"


@parser
def parse_consumer_groups(text: str) -> tuple[ConsumerGroupMember, ...]:
    """Rows of `kafka-consumer-groups --describe`; `InputError`, with the line, for no table, or what may be forged."""
    rows, seen = list[ConsumerGroupMember](), set[tuple[object, ...]]()
    for number, columns, is_row in _iter_lines(text):
        try:
            row = _parse_member(columns)
        except ValueError as error:  # names the column; the cell is not repeated
            raise InputError(f"a line whose {error} is not a number", position=number) from None
        key = row.group_id, row.topic, row.partition
        if not is_row or key in seen:
            raise InputError(_FORGED, position=number)
        seen |= {key} if row.topic else set()  # several members of a group may have none
        rows.append(row)
    return tuple(rows)


def _iter_lines(text: str) -> Iterator[tuple[int, Mapping[str, str | None], bool]]:
    """The lines of all tables: number, cells by column, and whether they are a row; a table ends at a blank line."""
    header, padded, group, is_open = list[str](), list[int](), "", False
    for number, line in enumerate(text.split("\n"), start=1):  # not `splitlines`: other characters end no line
        words = line.split()
        if words[:1] == ["GROUP"] and not is_open:
            if _NEEDED not in words:
                raise InputError(f"a table without a column {_NEEDED}", position=number)
            header, group, is_open = words, "", True
            padded = [match.start() for match in _WORD.finditer(line)] if "  " in line.strip() else []
        elif header and words and words[0] not in {"Warning:", "Error:"}:
            cells = _cut_cells(padded, line) if padded else words
            is_whole = len(cells) == len(header)
            named = zip(header, cells if is_whole else words, strict=False)
            is_row = is_whole and is_open and (not padded or group in {"", cells[0]})
            if is_open or is_whole:  # else a message of the tool between two tables
                filled = {name: cell for name, cell in named if cell != "-"}
                yield number, dict.fromkeys(header) | filled, is_row
            group = cells[0] if is_row else group
        elif is_open and not words:
            if not group:
                raise InputError(_FORGED, position=number)
            is_open = False
    if not header:
        raise InputError(f"no table with a column {_NEEDED}")


def _cut_cells(starts: list[int], line: str) -> list[str]:
    """Cells between the places where the header's words begin; none where the line is not aligned with it."""
    if line.startswith(" ") or not all(line[at - 1 : at] == " " != line[at : at + 1] for at in starts[1:]):
        return []
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]


def _parse_member(columns: Mapping[str, str | None]) -> ConsumerGroupMember:
    host = columns["HOST"]
    return ConsumerGroupMember(
        group_id=columns["GROUP"] or "-",
        topic=columns["TOPIC"],
        partition=_number(columns, "PARTITION", int32),
        committed_offset=_number(columns, "CURRENT-OFFSET"),
        log_end_offset=_number(columns, "LOG-END-OFFSET"),
        lag_count=_number(columns, "LAG"),
        member_id=columns["CONSUMER-ID"],
        client_host=None if host is None else host.removeprefix("/"),
        client_id=columns["CLIENT-ID"],
    )


def _number(columns: Mapping[str, str | None], name: str, read: Callable[[object], int] = int64) -> int | None:
    try:
        return None if columns[name] is None else read(columns[name])
    except ValueError:
        raise ValueError(name) from None
