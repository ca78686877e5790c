"""``make pairs``: judges all committed pairs by the code as it is, and fails where a figure that held no longer does.

What held is in `HELD_BEFORE`, for each table of a recording; ``--write`` stores what holds now in its place. Nothing of it is blind: the
code was made with these pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.fidelity.pairs.ablation import Kept, format_pieces
from tests.lab.fidelity.pairs.compare import RIGHT_WAY, WRONG_WAY
from tests.lab.fidelity.pairs.judged import Judged, ingest_pairs
from tests.lab.fidelity.pairs.pieces import NOTHING
from tests.lab.fidelity.pairs.report import SEEDS
from tests.lab.recording import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HELD_BEFORE = Path("tests/data/judged-pairs.json")
Held = dict[str, dict[str, list[str]]]
"""By table: the figures of each verdict, `holds` and `misses`, and of each direction."""


def main() -> int:
    """Judges, prints the sums, and says which figures got worse or better; the exit code is 1 where one got worse."""
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
    print(f"{time.process_time() - started_s:.0f} CPU-s in all")
    now = sum_verdicts(rows)
    if arguments.write:
        HELD_BEFORE.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    before: Held = json.loads(HELD_BEFORE.read_text())
    print("\n".join(["got better:", *list_worse(now, before), "got worse:", *(worse := list_worse(before, now))]))
    return 1 if worse else 0


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
