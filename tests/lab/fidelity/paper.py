"""Shortens a report for `docs/`: a line for each table, and in full only those in which a figure misses its bar."""

import re

_ROW = re.compile(r"  (?P<figure>\S.*?)  .* (?P<off>[+-][\d.]+ (?:pt|%)) +[\d.]+ (?:pt|%)  (?:holds|MISSES)")
_JUDGED = re.compile(r"  (?P<verdict>holds|MISSES)\b")
_KINDS = {
    "shares": ("records on", "records in", "bytes"),
    "peaks": ("peak-to-mean",),
    "batches": ("batches", "records per batch"),
    "records/s": ("records/s",),
    "latency": ("latency",),
}
"""Columns, and what the figures in them begin with."""
HEAD = f"{'hold':>10}{''.join(f'{kind:>11}' for kind in _KINDS)}  each the figure that is furthest off, of those with a bar"


def shorten(report: str) -> str:
    """The parts of a report, by empty lines: the first and the last stay, tables between them become lines.

    >>> print(shorten("bed\\n\\nA: x\\n  records/s   9  10  +1.0 %  2 %  holds\\n  latency p50   1   2  -50.0 %\\n\\nall hold"))
    bed
    <BLANKLINE>
          hold     shares      peaks    batches  records/s    latency  each the figure that is furthest off, of those with a bar
        1 of 1                                      +1.0 %             A: x
    <BLANKLINE>
    all hold
    """
    parts = report.split("\n\n")
    tables = [part for part in parts if _JUDGED.search(part)]
    first, last = [part for part in parts[:1] if part not in tables], parts[-1]
    missing = [table for table in tables if "  MISSES" in table]
    lines = "\n".join([HEAD, *map(_summarise, tables)])
    return "\n\n".join([*first, lines, *missing, last])


def _summarise(table: str) -> str:
    title, *rows = table.splitlines()
    verdicts = [found["verdict"] for found in map(_JUDGED.search, rows) if found]
    offs = [(found["figure"], found["off"]) for found in map(_ROW.match, rows) if found]
    held = f"{verdicts.count('holds')} of {len(verdicts)}"
    worst = (_furthest([off for figure, off in offs if figure.startswith(kind)]) for kind in _KINDS.values())
    return f"{held:>10}{''.join(f'{off:>11}' for off in worst)}  {title}"


def _furthest(offs: list[str]) -> str:
    return max(offs, key=lambda off: abs(float(off.split()[0])), default="")
