"""The tables of first sight, read off what was printed and is never written again: directions, shares, ranges."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.measures.chance import NORMAL_REACH
from pipeline.model.promise import Trust
from tests.lab.fidelity.pairs.compare import (
    EXACT,
    NOT_CLAIMED,
    PEAK_PERCENT,
    RIGHT_WAY,
    SHARE_POINTS,
    SHOWN,
    WRONG_WAY,
    is_claimed,
)
from tests.lab.fidelity.pairs.errors import SHARE, Miss, find_class, format_error
from tests.lab.fidelity.pairs.predict import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_ROW = re.compile(
    r"  (?P<figure>.{26}\S*) *(?P<before>[\d.]+) +(?P<after>[\d.]+) +(?P<median>[\d.]+)  +(?:(?P<low>[\d.]+) \.\. (?P<high>[\d.]+))?"
    rf".*?(?:(?P<way>{RIGHT_WAY}|{WRONG_WAY})(?:{re.escape(NOT_CLAIMED)})?)?$"
)
_TITLE = re.compile(r"(?P<pair>\S+), .* \| ")
_TRUST = "  trust: "
_BACK_TEST = ", as it was: "
BASELINE_HEAD = """\
| figures | count | bar, points or % | replay within it | as many as its ranges leave | *nothing changes* within it | mean error of the replay | of *nothing changes* |
|---|---|---|---|---|---|---|---|"""


@dataclass
class SeenTable:
    """A printed table: of a row, the real figure of both runs as printed, the prediction, and which way it went, or None."""

    pair: str
    is_back_test: bool
    rows: dict[str, tuple[str, str, Range, str | None]] = field(default_factory=dict)
    is_trusted: bool = False


def read_tables(sight: Path) -> Iterator[SeenTable]:
    """All tables of a file, in order."""
    table = None
    for line in sight.read_text().partition("```text\n")[2].splitlines():
        if title := _TITLE.match(line):
            if table:
                yield table
            table = SeenTable(title["pair"], _BACK_TEST in line)
        elif table and line.startswith(_TRUST):
            table.is_trusted = Trust.of(line.removeprefix(_TRUST)) == Trust.TRUSTED
        elif table and (row := _ROW.match(line)):
            median = float(row["median"])
            found = Range(median, float(row["low"] or median), float(row["high"] or median))
            table.rows[row["figure"].strip()] = row["before"], row["after"], found, row["way"]
    if table:
        yield table


def read_changes(sight: Path) -> Iterator[tuple[str, bool, bool]]:
    """Each change beyond the bar: words with both runs and both predictions, whether its direction is right, and claimed."""
    base = dict[str, tuple[str, str, Range, str | None]]()
    for table in read_tables(sight):
        base = table.rows if table.is_back_test else base
        for figure, (before, after, found, way) in table.rows.items():
            if way:
                own = base[figure][2]
                said = f"{table.pair}: {figure}, {before} -> {after}, predicted {own.median:g} -> {found.median:g}"
                yield said, way == RIGHT_WAY, is_claimed(found, own)


def format_changes(sights: Sequence[Path]) -> str:
    """Wrong directions one by one, and how many are right of all and of those that are claimed."""
    changes = [(sight.parent.name, *change) for sight in sights for change in read_changes(sight)]
    wrong = [
        f"  part {part}, {said}{'' if claimed else ': not claimed, within the ranges'}"
        for part, said, right, claimed in changes
        if not right
    ]
    rights = [right for _, _, right, _ in changes]
    claims = [right for _, _, right, claimed in changes if claimed]
    return "\n".join(
        [
            *wrong,
            f"{sum(rights)} of {len(rights)} changes beyond the bar have the right sign, {sum(claims)} of {len(claims)} of those "
            "larger than the ranges of what is predicted",
        ]
    )


def format_ranges(sights: Sequence[Path]) -> str:
    """How often figures lay in their ranges, and the error of the model with which nine of ten would have."""
    misses = defaultdict[tuple[str, str], list[Miss]](list)
    for sight in sights:
        for table in read_tables(sight):
            for figure, (_, real, found, _) in table.rows.items():
                if figure.startswith(SHARE) and EXACT in table.rows:
                    continue
                if miss := Miss.of(f"{sight.parent.name} {table.pair}", figure, float(real), found):
                    misses[miss.kind, find_class(is_back_test=table.is_back_test, is_trusted=table.is_trusted)].append(
                        miss
                    )
    return "\n".join(format_error(*named, own) for named, own in sorted(misses.items()))


def format_baseline(sights: Sequence[Path]) -> str:
    """What is within its bar, of the replay and of the forecast that nothing changes, as Markdown; by printed digits.

    Bars and errors of shares are points, of other figures percent of the real one. Beside shares stands how many of them a
    replay would hold whose ranges are right: one more run of the very same setup differs by chance, too.
    """
    errors = defaultdict[tuple[str, ...], list[tuple[float, float]]](list)
    chances = defaultdict[tuple[str, ...], list[float]](list)
    for table in itertools.chain.from_iterable(map(read_tables, sights)):
        setup = "current setup" if table.is_back_test else "another client"
        for figure, (before, real, found, _) in table.rows.items():
            if (bar := find_bar(figure)) is None:
                continue
            subject, most, measure = bar
            error = measure(found.median, float(real)), measure(float(before), float(real))
            change = "that changed by more" if error[1] > most else "that did not"
            for groups in ((), (change,)) if setup == "another client" else ((),):
                errors[setup, subject, f"{most:g}", *groups].append(error)
                if figure.startswith(SHARE):
                    chances[setup, subject, f"{most:g}", *groups].append(find_chance(found, most))
    lines = [BASELINE_HEAD]
    for (setup, subject, most, *change), pairs in sorted(errors.items(), key=_order):
        columns = list(zip(*pairs, strict=True))
        near = [sum(error <= float(most) for error in column) for column in columns]
        means = [f"{sum(column) / len(pairs):.1f}" for column in columns]
        if setup == "current setup":
            near[1:], means[1:] = [""], [""]
        row = [
            ", ".join([setup, subject, *change]),
            len(pairs),
            most,
            f"{near[0]} ({near[0] / len(pairs):.0%})",
            f"{sum(own):.0f}" if (own := chances[setup, subject, most, *change]) else "",
            near[1],
        ]
        lines.append(f"| {' | '.join(str(cell) for cell in (*row, *means))} |")
    return "\n".join(lines)


def find_chance(found: Range, most: float) -> float:
    """How likely one more run is within a bar of the median, by the normal law with this range for nine of ten.

    >>> round(find_chance(Range(30.0, 28.355, 31.645), 1.0), 3)
    0.683
    """
    reach = (found.high - found.low) / 2
    return math.erf(most * NORMAL_REACH / reach / math.sqrt(2)) if reach else 1.0


def find_bar(figure: str) -> tuple[str, float, Callable[[float, float], float]] | None:
    """Of a row: what it is called together with its like, the bar of another client, and how an error is measured."""
    if figure.startswith(SHARE):
        return f"shares of {'brokers' if 'broker' in figure else 'partitions'}", SHARE_POINTS, lambda a, b: abs(a - b)
    bars = {"peak-to-mean": PEAK_PERCENT} | dict(SHOWN.values())
    kind = next((kind for kind in bars if figure.startswith(kind)), None)
    return (kind.removesuffix(", ms"), bars[kind], lambda a, b: 100 * abs(a / b - 1)) if kind else None


def _order(of: tuple[tuple[str, ...], object]) -> tuple[bool, int, str, bool]:
    setup, subject, _, *change = of[0]
    kinds = ("shares of brokers", "shares of partitions", "peak-to-mean", *(shown for shown, _ in SHOWN.values()))
    return setup == "current setup", [kind.removesuffix(", ms") for kind in kinds].index(subject), "".join(change), True
