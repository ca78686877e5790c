"""``make fidelity``: runs settings on real brokers and clients, simulates them, and prints both beside each other.

Without arguments every setting of `settings.py` is run for real (a minute each); ``--recorded`` compares the committed
recordings only. The exit code is 1 if a figure misses its bar.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.simulator.simulate import simulate
from tests.lab.fidelity import recordings
from tests.lab.fidelity.compare import compare, describe
from tests.lab.fidelity.draws import draw_settings
from tests.lab.fidelity.profile import make_profile
from tests.lab.fidelity.record import record
from tests.lab.fidelity.rows import MISSES, Row, format_rows, format_verdict
from tests.lab.fidelity.settings import SETTINGS
from tests.lab.fidelity.simulated import find_compressed_ppm, make_scenario, simulate_seeds
from tests.lab.fidelity.tables import compare_lab_runs, compare_shared_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.fidelity.recordings import Recordings

LIVE = Path("build/fidelity/recordings.json")


def main() -> int:
    """Runs what the arguments say."""
    arguments = _parse_arguments()
    if arguments.recorded:
        recorded = recordings.read_recordings(arguments.file)
    else:
        settings = (*SETTINGS, *draw_settings(arguments.seed, arguments.draw)) if not arguments.only_drawn else ()
        settings = settings or draw_settings(arguments.seed, arguments.draw)
        chosen = [each for each in settings if not arguments.only or each.name in arguments.only]
        recorded = record(chosen, arguments.file, with_timings=not arguments.no_timings)
    seeds = range(1, arguments.seeds + 1)
    titled: list[tuple[str, Row]] = []
    for title, own in _compare_all(recorded, arguments.only, seeds, with_lab=arguments.recorded):
        print(format_rows(title, own), end="\n\n", flush=True)
        titled += [(title.partition(":")[0], row) for row in own]
    rows = [row for _, row in titled]
    print(format_verdict(rows))
    for title, row in titled:
        if row.verdict == MISSES:
            print(f"  misses: {title}: {row.figure}, off {row.deviation}")
    return int(any(row.verdict == MISSES for row in rows))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fidelity ARGS=", description=__doc__)
    parser.add_argument("--recorded", action="store_true", help="compare recordings, run nothing for real")
    parser.add_argument("--file", type=Path, help="where recordings are read from or written to")
    parser.add_argument("--only", nargs="+", default=[], metavar="SETTING")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the settings drawn with --draw")
    parser.add_argument("--draw", type=int, default=0, metavar="M", help="run M further settings, drawn by --seed")
    parser.add_argument("--only-drawn", action="store_true", help="run the drawn settings only")
    parser.add_argument("--no-timings", action="store_true", help="keep the file's timings of the bed")
    arguments = parser.parse_args()
    arguments.file = arguments.file or (recordings.COMMITTED if arguments.recorded else LIVE)
    return arguments


def _compare_all(
    recorded: Recordings, only: list[str], seeds: range, *, with_lab: bool
) -> Iterator[tuple[str, list[Row]]]:
    profile = make_profile("here", recorded.timings)
    for setting, run in recorded.runs:
        if only and setting.name not in only:
            continue
        scenario = make_scenario(setting, profile, compressed_ppm=find_compressed_ppm(setting, run))
        quiet = "quiet" if run.is_quiet else f"not quiet: {run.foreign_cpu_s:.1f} s of others' processor time"
        title = f"{setting.name}: {describe(setting)} ({quiet})"
        yield title, compare(setting, run, simulate_seeds(scenario, seeds, simulate))
    if with_lab and not only:
        yield from compare_lab_runs(seeds, simulate)
        yield from compare_shared_runs(seeds, simulate)


if __name__ == "__main__":
    sys.exit(main())
