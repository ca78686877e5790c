"""Directions in the tables of first sight: which would be claimed, read off what was printed and is never written again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.lab.fidelity.pairs.compare import NOT_CLAIMED, RIGHT_WAY, WRONG_WAY, is_claimed
from tests.lab.fidelity.pairs.predict import Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_ROW = re.compile(
    r"  (?P<figure>.{26}) *(?P<before>[\d.]+) +(?P<after>[\d.]+) +(?P<median>[\d.]+)  +(?:(?P<low>[\d.]+) \.\. (?P<high>[\d.]+))?"
    rf".*?(?:(?P<way>{RIGHT_WAY}|{WRONG_WAY})(?:{re.escape(NOT_CLAIMED)})?)?$"
)
_TITLE = re.compile(r"(?P<pair>\S+), .* \| ")
_BACK_TEST = ", as it was: "


def read_changes(sight: Path) -> Iterator[tuple[str, bool, bool]]:
    """Each change beyond the bar: words with both runs and both predictions, whether its direction is right, and claimed."""
    pair, base, now, is_base = "", dict[str, Range](), dict[str, Range](), False
    for line in sight.read_text().partition("```text\n")[2].splitlines():
        if title := _TITLE.match(line):
            pair, is_base, now = title["pair"], _BACK_TEST in line, {}
            base = now if is_base else base
        elif row := _ROW.match(line):
            figure, median = row["figure"].strip(), float(row["median"])
            now[figure] = found = Range(median, float(row["low"] or median), float(row["high"] or median))
            if row["way"]:
                said = f"{pair}: {figure}, {row['before']} -> {row['after']}, predicted {base[figure].median:g} -> {median:g}"
                yield said, row["way"] == RIGHT_WAY, is_claimed(found, base[figure])


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
