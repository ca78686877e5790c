"""``make draw``: records and judges pairs that no code has met, as many as fit into the time given.

The seed is drawn at the first start, once everything of `pipeline/` is committed; the commit, the seed and the instant stand
in ``draw.json`` of the folder. Started again, an interrupted draw goes on: rounds that are there are not recorded anew. What
it says on first sight is written once, to ``first-sight.md``, and never again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.fidelity.bed import start_bed
from tests.lab.fidelity.pairs import report as pairs
from tests.lab.fidelity.pairs.law import BROKERS, SECONDS, draw_round
from tests.lab.fidelity.pairs.pair import BEFORE, ENDING, SIDES
from tests.lab.fidelity.pairs.record import SETTINGS, Stage, record_side
from tests.lab.fidelity.record import describe_bed, warm_up
from tests.lab.process import LabError
from tests.lab.recording import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.fidelity.pairs.pair import Pair

FOLDER = Path("build/draw")
PRODUCT = "pipeline"
SIDE_S = 45  # what a side takes besides its traffic: clients start, warm up, and end
JUDGED_PART = 0.3  # of the time: replaying what was recorded


def main() -> int:
    """Records until the time is over, then judges."""
    parser = argparse.ArgumentParser(prog="make draw ARGS=", description=__doc__)
    parser.add_argument("--minutes", type=float, default=25, help="recording and judging")
    parser.add_argument("--at-once", type=int, default=2, help="pairs sent at the same time")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each run")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    facts = open_draw(arguments.folder)
    say(f"blind to all code up to {facts['commit'][:7]}, seed {facts['seed']}")
    until = time.monotonic() + 60 * arguments.minutes * (1 - JUDGED_PART)
    record_rounds(
        arguments.folder,
        partial(draw_round, facts["seed"], at_once=arguments.at_once, seconds=arguments.seconds),
        until,
    )
    sight = arguments.folder / "first-sight.md"
    found = pairs.report_pairs(arguments.folder, sides=(BEFORE,))
    if not sight.exists():
        title = f"Commit {facts['commit']}, seed {facts['seed']}, drawn {facts['drawn_at']}."
        sight.write_text(f"{title}\n\n```text\n{found.text}\n```\n")
    return 0


def open_draw(folder: Path) -> dict[str, str | int]:
    """What a draw is blind to, and its seed: those of a draw that was begun, if the product is still the same.

    Raises:
        LabError: The product has changes since, or some that are not committed.
    """
    file = folder / "draw.json"
    begun = json.loads(file.read_text()) if file.exists() else None
    base = begun["commit"] if begun else _ask_git("rev-parse", "HEAD")
    if changed := _ask_git("diff", "--name-only", base, "--", PRODUCT):
        raise LabError(f"not blind: changed since {base[:7]}: {changed}")
    if begun:
        return begun
    folder.mkdir(parents=True)
    facts = {"commit": base, "seed": secrets.randbelow(1 << 31), "drawn_at": datetime.now(UTC).isoformat()}
    file.write_text(json.dumps(facts, indent=1) + "\n")
    return facts


def _ask_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def record_rounds(folder: Path, draw: Callable[[int], tuple[Pair, ...]], until: float) -> None:
    """Records rounds in order while there is time for one more; `until` is of the monotonic clock."""
    root = Path(tempfile.mkdtemp(prefix="partition-health-draw-"))
    try:
        with start_bed(root, BROKERS, settings=SETTINGS) as bed:
            warm_up(bed)
            stage = Stage(bed, describe_bed(), root, folder)
            for number in itertools.count():
                drawn = draw(number)
                sides = [side for side in SIDES if not (folder / f"{drawn[0].name}-{side}{ENDING}").exists()]
                if time.monotonic() + len(sides) * (SIDE_S + drawn[0].seconds) > until:
                    return
                for side in sides:
                    record_side(stage, drawn, side)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
