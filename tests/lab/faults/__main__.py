"""Counts what faults cost, and writes the table of `docs/evidence/reliability.md`.

``python -m tests.lab.faults [--kills N] [--tries N] [--seed N] [--only FAULT] [--engine spark]``: prints every try that lost or
doubled something. On classic Spark each run has its JVM and workers, which die with it or alone; on Sail, the default, all faults.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

from tests.engines import SAIL
from tests.lab.faults.action import FAULT, PLACES, kill_around_action
from tests.lab.faults.bed import JOBS, ROOT, Bed, Outcome
from tests.lab.faults.disks import AT_A_COMMIT, fill_at_commits, fill_disks, forbid_writing, may_mount
from tests.lab.faults.kills import kill_runs, kill_whole_runs
from tests.lab.faults.power import cut_power
from tests.lab.faults.rivals import jump_clocks, kill_side_by_side, run_side_by_side
from tests.lab.faults.spark import VICTIMS, kill_spark
from tests.paper_rows import read_rows, with_rows

CLASSIC = {"master": "local[2]", "driver_memory": "1g"}
PAPER = ROOT / "docs/evidence/reliability.md"
HEAD = "| fault | tries | lost | doubled | repeated once | longest recovery |\n|---|---|---|---|---|---|\n"


def main() -> int:
    """Plants all faults; 0 where nothing was lost or doubled."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=210, help="SIGKILLs over all jobs")
    parser.add_argument(
        "--tries",
        type=int,
        default=60,
        help="of full disks and of power cuts; of rivals a quarter, of Spark's processes a tenth each",
    )
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--only", default="", help="faults whose name holds this; the rows of others stay")
    parser.add_argument("--engine", default="sail", choices=("sail", "spark"))
    parser.add_argument("--add", action="store_true", help="add to the rows there are, with a seed of its own")
    options = parser.parse_args()
    before = read_rows(PAPER.read_text(), HEAD) if options.add else {}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        bed = Bed(Path(folder), SAIL if options.engine == "sail" else CLASSIC)
        try:
            found = plant_faults(bed, options, before)
        finally:
            bed.post.stop()
    sys.stdout.write("".join(write_rows(found, before).values()))
    return int(any(outcome.lost or outcome.doubled for tries in found.values() for outcome in tries))


def plant_faults(bed: Bed, options: argparse.Namespace, before: dict[str, str]) -> dict[str, list[Outcome]]:
    """Outcomes by fault, written into the paper after each try; `before` are rows to add to."""
    few, seed = max(2, options.tries // 4), options.seed
    on_spark = {
        "a run on Spark": lambda: kill_whole_runs(bed, options.kills, seed),
        "two runs on Spark": lambda: kill_side_by_side(bed, options.kills, seed),
    }
    faults = (
        on_spark
        if options.engine == "spark"
        else {
            "SIGKILL": lambda: kill_runs(bed, options.kills, seed),
            FAULT: lambda: kill_around_action(bed, max(1, options.kills // 7), seed),
            "disk full": lambda: fill_disks(bed, options.tries, seed),
            AT_A_COMMIT: lambda: fill_at_commits(bed),
            "read-only warehouse": lambda: forbid_writing(bed),
            "power cut": lambda: cut_power(bed, options.tries, seed),
            "two runs at once, same windows": lambda: run_side_by_side(bed, few, seed, same=True),
            "two runs at once, neighbouring windows": lambda: run_side_by_side(bed, few, seed, same=False),
            "clock jumps": lambda: jump_clocks(bed, few, seed),
            **{fault: partial(kill_spark, bed, max(1, options.tries // 10), seed, fault=fault) for fault in VICTIMS},
        }
    )
    found: dict[str, list[Outcome]] = defaultdict(list)
    for fault, tries in faults.items():
        if options.only not in fault:
            continue
        if fault in {"disk full", AT_A_COMMIT, "read-only warehouse"} and not may_mount(bed.folder):
            sys.stdout.write(f"{fault}: left out, file systems may not be mounted here\n")
            continue
        for number, (what, outcome) in enumerate(tries(), start=1):
            rows = what if isinstance(what, tuple) else (fault,)
            told = max(
                rows, key=lambda row: "deliver" in row or "mail" in row
            )  # a try counts for each run that died in it
            for row in rows:
                found[row].append(Outcome(recovery_s=outcome.recovery_s))
            found[told][-1] = outcome
            write_rows(found, before)  # what is done counts, should the command be stopped
            if outcome.lost or outcome.doubled:
                sys.stdout.write(f"{fault}, try {number} ({what}): {outcome}\n")
                sys.stdout.flush()
    return found


def write_rows(found: dict[str, list[Outcome]], before: dict[str, str]) -> dict[str, str]:
    """Writes the rows of some faults into the paper, jobs in their order."""
    rows = {fault: format_row(fault, tries, before.get(fault)) for fault, tries in found.items()}
    order = [*(f"SIGKILL in {job}" for job in JOBS), *(f"{FAULT}, {place}" for place in PLACES)]
    text = PAPER.read_text()
    PAPER.write_text(with_rows(text, HEAD, read_rows(text, HEAD) | rows, order))
    return rows


def format_row(fault: str, tries: list[Outcome], before: str | None = None) -> str:
    """A fault's row of the table, added to one of before."""
    lost, doubled = (sum(map(len, column)) for column in zip(*((t.lost, t.doubled) for t in tries), strict=True))
    sums = [len(tries), lost, doubled, sum(t.repeats for t in tries)]
    longest_s = round(max(t.recovery_s for t in tries))
    if before is not None:
        *held, held_s = (int(cell.strip().removesuffix(" s")) for cell in before.split("|")[2:-1])
        sums, longest_s = [one + other for one, other in zip(sums, held, strict=True)], max(longest_s, held_s)
    return f"| {fault} | {' | '.join(map(str, sums))} | {longest_s} s |\n"


if __name__ == "__main__":
    sys.exit(main())
