"""``make pairs``: judges all committed pairs by the code as it is, and fails where a figure that held no longer does.

What held is in `HELD_BEFORE`, for each table of a recording; ``--write`` stores what holds now in its place. Nothing of it is blind: the
code was made with these pairs. ``--ablation`` says what each piece of calibration buys instead, ``--constants`` how figures move when a constant does; both have
options of their own.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.replay.loads import INSIDE
from pipeline.replay.simulated.topics import MODEL_ERROR
from tests.lab.fidelity.pairs.ablation import Kept, ablate, format_pieces
from tests.lab.fidelity.pairs.compare import RIGHT_WAY, WRONG_WAY
from tests.lab.fidelity.pairs.constants import vary_constants
from tests.lab.fidelity.pairs.errors import SHARES, Miss
from tests.lab.fidelity.pairs.judged import Judged, ingest_pairs
from tests.lab.fidelity.pairs.pieces import NOTHING
from tests.lab.fidelity.pairs.predict import Range
from tests.lab.fidelity.pairs.report import SEEDS, WIDEST_POINTS_OFF
from tests.lab.recording import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HELD_BEFORE = Path("tests/data/judged-pairs.json")
Held = dict[str, dict[str, list[str]]]
"""By table: the figures of each verdict, `holds` and `misses`, and of each direction."""


def main() -> int:
    """Judges, prints the sums, and says which figures got worse or better; the exit code is 1 where one got worse."""
    if sys.argv[1:2] == ["--ablation"]:
        return ablate(sys.argv[2:])
    if sys.argv[1:2] == ["--constants"]:
        return vary_constants(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="make pairs ARGS=", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store what holds now")
    arguments = parser.parse_args()
    started_s, rows, cpu_s = time.process_time(), list[Judged](), dict[str, float]()
    for ingested in ingest_pairs(SEEDS):
        before_s = time.process_time()
        rows += ingested.judge()
        cpu_s[ingested.name] = time.process_time() - before_s
        say(f"{ingested.name}: {cpu_s[ingested.name]:.1f} CPU-s")
    print(format_pieces({NOTHING: Kept({row.key: row for row in rows}, cpu_s)}))
    print(f"\n{format_answers(judge_answers(rows))}\n{time.process_time() - started_s:.0f} CPU-s in all")
    print(format_fit(rows))
    now = sum_verdicts(rows)
    if arguments.write:
        HELD_BEFORE.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    before: Held = json.loads(HELD_BEFORE.read_text())
    print("\n".join(["got better:", *list_worse(now, before), "got worse:", *(worse := list_worse(before, now))]))
    return 1 if worse else 0


def format_fit(rows: Sequence[Judged]) -> str:
    """For each number of `MODEL_ERROR`, the one with which nine of ten figures would lie in their ranges."""
    held = {SHARES: MODEL_ERROR.share, "records per batch": MODEL_ERROR.batches, "p50": MODEL_ERROR.latency}
    found: dict[str, list[float]] = {kind: [] for kind in held}
    for row in rows:
        ends = None if row.by_keys or row.low is None else Range(row.median or 0.0, row.low, row.high or row.low)
        miss = Miss.of(row.of, row.figure, row.real, ends) if ends else None
        if miss and miss.kind in held:
            found[miss.kind].append(miss.fit(held[miss.kind]))
    told = (
        f"{kind}: {sum(one <= held[kind] + 1e-9 for one in own)} of {len(own)} in their ranges with {held[kind]:g}, nine of "
        f"ten with {sorted(own)[math.ceil(INSIDE * len(own)) - 1]:.3f}"
        for kind, own in found.items()
        if own
    )
    return "error of the model: " + "; ".join(told)


def judge_answers(rows: Sequence[Judged]) -> dict[str, list[tuple[str, bool, bool]]]:
    """By question, for each table that answers it: whose it is, whether the answer is trusted, and whether it is right.

    Shares are right where all of the table are within their bars and 4 points. The busiest broker had most bytes in the
    recorded run; the direction is that of its share, where the real one changed by more than the bar.
    """
    tables: dict[str, list[Judged]] = {}
    for row in rows:
        tables.setdefault(row.of, []).append(row)
    found: dict[str, list[tuple[str, bool, bool]]] = {}
    for of, own in tables.items():
        busiest = max((row for row in own if row.place == "brokers"), key=lambda row: row.before)
        shares = {row: row.holds and row.off <= WIDEST_POINTS_OFF for row in own if row.place}
        answers = {
            "shares": [(row.is_trusted, is_right) for row, is_right in shares.items()],
            "share of the busiest broker": [(busiest.is_trusted, shares[busiest])],
            "records per batch": [(row.is_trusted, row.holds) for row in own if row.figure == "records per batch"],
            "median latency": [(row.is_trusted, row.holds) for row in own if row.figure == "latency p50, ms"],
        }
        if busiest.way and busiest.is_direction_trusted is not None:
            answers["direction"] = [(busiest.is_direction_trusted, busiest.way == RIGHT_WAY)]
        for question, judged in answers.items():
            if judged:
                found.setdefault(question, []).append((of, judged[0][0], all(is_right for _, is_right in judged)))
    return found


def format_answers(answers: Mapping[str, Sequence[tuple[str, bool, bool]]]) -> str:
    """Precision and recall of trust in each question, and the trusted answers that are wrong."""
    lines = []
    for question, judged in answers.items():
        both = sum(is_trusted and is_right for _, is_trusted, is_right in judged)
        lines.append(
            f"{question}: {both} of {sum(is_trusted for _, is_trusted, _ in judged)} trusted answers are right (goal 98 %), "
            f"{both} of {sum(is_right for *_, is_right in judged)} right ones are trusted (goal 80 %)"
        )
        lines += [f"  trusted and wrong: {of}" for of, is_trusted, is_right in judged if is_trusted and not is_right]
    return "\n".join(lines)


def sum_verdicts(rows: Sequence[Judged]) -> Held:
    """What holds and what misses, table by table."""
    found: Held = {}
    for row in rows:
        of_table = found.setdefault(row.of, {"holds": [], "misses": [], RIGHT_WAY: [], WRONG_WAY: []})
        of_table["holds" if row.holds else "misses"].append(row.figure)
        if row.way:
            of_table[row.way].append(row.figure)
    return found


def list_worse(
    before: Mapping[str, Mapping[str, Sequence[str]]], now: Mapping[str, Mapping[str, Sequence[str]]]
) -> list[str]:
    """What held, or went the right way, and does not any more, or is not judged any more."""
    return [
        f"  {of}: {figure} {said}"
        for of, own in before.items()
        for kind, said in (("holds", "held"), (RIGHT_WAY, "went the right way"))
        for figure in own[kind]
        if figure not in now.get(of, {}).get(kind, ())
    ]


if __name__ == "__main__":
    sys.exit(main())
