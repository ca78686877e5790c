"""Rows of a table in a paper that commands write."""

import re
from collections.abc import Iterable, Mapping


def read_rows(text: str, head: str) -> dict[str, str]:
    """The rows under a head, by their first cell."""
    (found,) = re.findall(re.escape(head) + r"((?:\|.*\n)*)", text)
    return {row.split("|")[1].strip(): row for row in found.splitlines(keepends=True)}


def with_rows(text: str, head: str, rows: Mapping[str, str], order: Iterable[str]) -> str:
    """A paper with the rows under a head in some order; those that it does not name follow."""
    named = [name for name in order if name in rows]
    ordered = [*named, *(name for name in rows if name not in named)]
    body = "".join(rows[name] for name in ordered)
    return re.sub(re.escape(head) + r"(\|.*\n)*", lambda _: head + body, text)
