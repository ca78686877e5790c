"""``make draw``: records and judges pairs that no code has met, as many as fit into the time given.

A draw is made of parts, one folder each. A part is blind to the commit it was begun at, has a seed of its own, drawn once
everything of `pipeline/` is committed, and is judged once, by that commit: ``first-sight.md`` is never written again. A part
that was interrupted goes on while the product is the same. Once it is judged, or the product has changed, the next start
begins another part, so many short sessions make one draw. ``all.md`` has a line for each part and the sum of them all; parts
that were recorded and never judged stand in it, too. ``recordings.json`` has settings, seeds, clocks and figures of every
recording, so that archives which are too large to be committed can be left out.

``--again FOLDER`` replays archives that were recorded before, both ways and not blind, and writes nothing but what it prints.
``--directions``, ``--ranges`` and ``--baseline`` read the first sights alone: the first lists the wrong directions in them, the
second what ranges would need to hold nine figures of ten, the third holds shares against the forecast that nothing changes.
``--zones --between`` compares bytes between zones with what a proxy and the brokers' logs say.
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
from typing import TYPE_CHECKING, Any

from tests.lab.archive import unpack_once
from tests.lab.artifacts import BROKER_VERSION
from tests.lab.bench.figures import write_between
from tests.lab.fidelity.bed import start_bed
from tests.lab.fidelity.pairs import law as wide
from tests.lab.fidelity.pairs import report as pairs
from tests.lab.fidelity.pairs.law import BROKERS, SECONDS
from tests.lab.fidelity.pairs.pair import BEFORE, ENDING, SIDES
from tests.lab.fidelity.pairs.record import SETTINGS, Stage, record_side
from tests.lab.fidelity.pairs.sight import format_baseline, format_changes, format_ranges, read_changes
from tests.lab.fidelity.pairs.tables import UNPACKED
from tests.lab.fidelity.record import describe_bed, warm_up
from tests.lab.fidelity.settings import NEWEST
from tests.lab.process import LabError
from tests.lab.rack_aware import law as zones
from tests.lab.rack_aware.between import compare_recordings
from tests.lab.recording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.lab.fidelity.pairs.pair import Pair

FOLDER = Path("tests/data/draws")  # committed with what was seen first: a part that is lost was not kept
ZONES = Path("tests/data/zone_draws")
PRODUCT = "pipeline"
SIDE_S = 45  # what a side takes besides its traffic: clients start, warm up, and end
JUDGED_S = 60  # what replaying a pair takes
FACTS, SIGHT, TALLY, RECORDINGS = "draw.json", "first-sight.md", "first-sight.json", "recordings.json"


def main() -> int:
    """Records until the time is over, then judges."""
    arguments = _read_options()
    law, seconds = (zones, zones.SECONDS) if arguments.zones else (wide, SECONDS)
    sights = sorted(arguments.folder.glob(f"*/{SIGHT}"))
    if (parts := arguments.baseline) is not None:
        print(text := format_baseline(_of_parts(sights, parts)))
        if arguments.write:
            write_between(arguments.write, " ".join(["--baseline", *parts]), text, word="draw")
        return 0
    if (parts := arguments.directions) is not None:
        print(format_changes(_of_parts(sights, parts)))
        return 0
    if (parts := arguments.ranges) is not None:
        print(format_ranges(_of_parts(sights, parts)))
        return 0
    if arguments.between:
        archives = sorted(arguments.folder.glob(f"*/*{ENDING}"), key=lambda path: path.name.replace(BEFORE, ""))
        text, are_equal = compare_recordings(archives)
        print(text)
        if arguments.write:
            write_between(arguments.write, "--zones --between", text, word="draw")
        return 0 if are_equal else 1
    if arguments.again:
        judge_again(arguments.again, arguments.seeds, arguments.only)
        return 0
    part = open_part(arguments.folder)
    facts = json.loads((part / FACTS).read_text())
    say(f"part {part.name}: blind to all code up to {facts['commit'][:7]}, seed {facts['seed']}")
    record_rounds(
        part,
        partial(law.draw_round, facts["seed"], at_once=arguments.at_once, seconds=arguments.seconds or seconds),
        time.monotonic() + 60 * arguments.minutes,
        {"version": NEWEST, "racks": zones.RACKS} if arguments.zones else {},
    )
    (part / RECORDINGS).write_text(json.dumps(read_manifests(part), indent=1) + "\n")
    found = pairs.report_pairs(part, sides=(BEFORE,))
    title = f"Commit {facts['commit']}, seed {facts['seed']}, drawn {facts['drawn_at']}."
    (part / TALLY).write_text(json.dumps(found.tally, indent=1) + "\n")
    (part / SIGHT).write_text(f"{title}\n\n```text\n{found.text}\n```\n")
    text = sum_parts(arguments.folder)
    (arguments.folder / "all.md").write_text(text)
    print(f"\n{text}")
    if arguments.write:
        write_between(arguments.write, "--write", text, word="draw")
    return 0


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make draw ARGS=", description=__doc__)
    parser.add_argument("--minutes", type=float, default=25, help="recording and judging")
    parser.add_argument("--at-once", type=int, default=2, help="pairs sent at the same time")
    parser.add_argument("--seconds", type=int, help=f"of each run (default: {SECONDS}, with --zones {zones.SECONDS})")
    parser.add_argument(
        "--zones", action="store_true", help="pairs of brokers 4.4 in racks, see tests/lab/rack_aware/law.py"
    )
    parser.add_argument("--folder", type=Path, help=f"of the parts (default: {FOLDER}, with --zones {ZONES})")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table of all parts into this paper")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="only judge a folder's archives, not blind")
    parser.add_argument(
        "--between", action="store_true", help="with --zones, only bytes between zones beside the proxy's and the logs'"
    )
    parser.add_argument("--directions", nargs="*", metavar="PART", help="only list the wrong ones of first sights")
    parser.add_argument("--baseline", nargs="*", metavar="PART", help="only shares beside the forecast of no change")
    parser.add_argument("--ranges", nargs="*", metavar="PART", help="only count first sights' figures in their ranges")
    parser.add_argument("--seeds", type=int, default=pairs.SEEDS, help="with --again, of each replay")
    parser.add_argument("--only", nargs="*", default=(), metavar="PAIR", help="with --again, these pairs alone")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder or (ZONES if arguments.zones else FOLDER)
    return arguments


def _of_parts(sights: Sequence[Path], parts: Sequence[str]) -> list[Path]:
    return [sight for sight in sights if not parts or sight.parent.name in parts]


def judge_again(folder: Path, seeds: int, only: Sequence[str] = ()) -> None:
    """Prints what the code as it is says of archives, and what they were recorded for where that is known.

    Raises:
        LabError: The folder has no archive.
    """
    if not any(folder.glob(f"*{ENDING}")):
        raise LabError(f"{folder}: no archive (*{ENDING})")
    facts = json.loads((folder / FACTS).read_text()) if (folder / FACTS).exists() else {}
    say(f"{folder}: not blind" + (f"; was drawn for {facts['commit'][:7]}, seed {facts['seed']}" if facts else ""))
    pairs.report_pairs(folder, only, seeds=seeds)


def open_part(folder: Path) -> Path:
    """The part of a draw to go on with: the last one, if it is not judged and the product is the same; else a new one.

    Raises:
        LabError: The product has changes that are not committed.
    """
    parts = sorted(file.parent for file in folder.glob(f"*/{FACTS}"))
    if parts and not (parts[-1] / SIGHT).exists():
        commit = json.loads((parts[-1] / FACTS).read_text())["commit"]
        if not _list_changes(commit):
            return parts[-1]
        say(f"part {parts[-1].name} was recorded and never judged: {PRODUCT}/ has changed since {commit[:7]}")
    if changed := _list_changes("HEAD"):
        raise LabError(f"not blind: not committed: {changed}")
    part = folder / f"{len(parts):02}"
    part.mkdir(parents=True)
    facts = {
        "commit": _ask_git("rev-parse", "HEAD"),
        "seed": secrets.randbelow(1 << 31),
        "drawn_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (part / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
    return part


def sum_parts(folder: Path) -> str:
    """A line for each part, and what they say together, as Markdown."""
    lines = ["| part | drawn | blind to all code up to | seed | pairs | on first sight |", "|---|---|---|---|---|---|"]
    tallies = []
    for part in sorted(file.parent for file in folder.glob(f"*/{FACTS}")):
        facts, is_judged = json.loads((part / FACTS).read_text()), (part / TALLY).exists()
        if (part / RECORDINGS).exists():
            count = sum(each["side"] == BEFORE for each in json.loads((part / RECORDINGS).read_text()))
        else:
            count = len(list(part.glob(f"*-{BEFORE}{ENDING}")))
        found = count_first_sight(part) if is_judged else {}
        said = "; ".join(pairs.format_tally(found)) if is_judged else "never judged"
        when = f"{facts['drawn_at']:.16}"
        lines.append(f"| {part.name} | {when} | {facts['commit']:.7} | {facts['seed']} | {count} | {said} |")
        tallies.append(found)
    known = [set(each) for each in tallies if each]
    tallies = [{kind: each[kind] for kind in each if all(kind in one for one in known)} for each in tallies]
    return "\n".join(
        [*lines, "", "All parts:", "", *(f"* {line}" for line in pairs.format_tally(add_tallies(tallies))), ""]
    )


def count_first_sight(part: Path) -> dict[str, list[int]]:
    """A part's tally; directions that would be claimed are counted in its tables where that was not yet done."""
    claims = [right for _, right, is_claimed in read_changes(part / SIGHT) if is_claimed]
    return {pairs.CLAIMED: [sum(claims), len(claims)], **json.loads((part / TALLY).read_text())}


def read_manifests(part: Path) -> list[dict[str, object]]:
    """What each recording of a part says of itself: settings, seeds, clock, whether the machine was quiet, figures."""
    captures = (unpack_once(archive, UNPACKED) for archive in sorted(part.glob(f"*{ENDING}")))
    return [json.loads((capture / "manifest.json").read_text()) for capture in captures]


def add_tallies(tallies: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, list[int]]:
    """The sum of tallies, name by name.

    >>> add_tallies([{"p50": [1, 2]}, {}, {"p50": [3, 3], "p99": [0, 1]}])
    {'p50': [4, 5], 'p99': [0, 1]}
    """
    total: dict[str, list[int]] = {}
    for tally in tallies:
        for name, (right, count) in tally.items():
            before = total.get(name, [0, 0])
            total[name] = [before[0] + right, before[1] + count]
    return total


def _list_changes(commit: str) -> str:
    return _ask_git("diff", "--name-only", commit, "--", PRODUCT)


def _ask_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def record_rounds(
    folder: Path, draw: Callable[[int], tuple[Pair, ...]], until: float, bed_settings: Mapping[str, Any]
) -> None:
    """Records rounds in order while there is time for one more and for judging all; `until` is of the monotonic clock.

    `bed_settings` are further arguments of `start_bed`.
    """
    if time.monotonic() >= until:  # `--minutes 0`: only judged
        return
    root = Path(tempfile.mkdtemp(prefix="partition-health-draw-"))
    try:
        count = len(bed_settings.get("racks", ())) or BROKERS
        with start_bed(root, count, settings=SETTINGS, **bed_settings) as bed:
            warm_up(bed)
            described = describe_bed() | {"brokers": bed_settings.get("version", BROKER_VERSION)}
            stage = Stage(bed, described, root, folder)
            for number in itertools.count():
                drawn = draw(number)
                sides = [side for side in SIDES if not (folder / f"{drawn[0].name}-{side}{ENDING}").exists()]
                wanted_s = len(sides) * (SIDE_S + drawn[0].seconds) + JUDGED_S * (number + 1) * len(drawn)
                if time.monotonic() + wanted_s > until:
                    return
                for side in sides:
                    record_side(stage, drawn, side)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
