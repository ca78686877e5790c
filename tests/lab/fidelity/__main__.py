"""``make fidelity``: runs settings on real brokers and clients, simulates them, and prints both in one table.

Without arguments every setting of `settings.py` is run for real (a minute each); ``--recorded`` compares the committed
recordings, the shared runs where they are at hand, and the published experiment. Either ends with the replay's own table:
runs recorded under one client, replayed under another, against that client's real run (``--pairs``: only that; ``--live``: one
such pair played now, each run replayed from the brokers while they run). The exit
code is 1 if a figure misses its bar for no known reason (`misses.py`, `pairs/report.py`).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.simulator.engine.simulate import simulate
from tests.lab.bench.figures import write_between
from tests.lab.fidelity import recordings
from tests.lab.fidelity.compare import compare, describe
from tests.lab.fidelity.draws import draw_settings
from tests.lab.fidelity.misses import explain, format_misses
from tests.lab.fidelity.pairs import report as pairs
from tests.lab.fidelity.pairs.live import compare_live
from tests.lab.fidelity.pairs.pair import COMMITTED, SECONDS, SIDES, draw_pairs
from tests.lab.fidelity.pairs.record import record_pairs, replace_pairs
from tests.lab.fidelity.paper import shorten
from tests.lab.fidelity.profile import DEFAULT, make_profile
from tests.lab.fidelity.record import record
from tests.lab.fidelity.rows import MISSES, Row, format_rows, format_verdict
from tests.lab.fidelity.settings import SETTINGS
from tests.lab.fidelity.simulated import make_scenario, simulate_seeds
from tests.lab.fidelity.tables import compare_lab_runs, compare_shared_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.fidelity.recordings import Recordings

COLD = ", client from its start on"
EARLIER = ", earlier draw"
LIVE = Path("build/fidelity/recordings.json")
DOCUMENT = """\
# Simulated and real producers

Written by `make fidelity ARGS="--recorded --write FILE"`: a line for each run, and in full those in which a figure misses its bar. Without
`--write` it prints all. *Published* is Kafka's figure (KIP-794). *Real here* is a run of the real client and real brokers behind a proxy
that delays. *Simulated* is the mean over the seeds.

**What was simulated**, in this order:

* The recordings in `tests/golden/fidelity.json`, without any free parameter. Clients had warmed up, and brokers take the time that the
  proxy saw in the same run. At *client from its start on* the JVM had just started, and brokers take the time that they took right before.
  The costs of clients' threads were traced between the runs; how much these traces differ is the seeds' run-to-run factor.
* The published experiment, run for real on another machine (*bed*), with that machine's times.
* Kafka's published rows with one fitted parameter, all else as in `pipeline/simulator/scenario/measured.py`.
* More recordings of that other machine.

The settings `drawn-12868899-...` were drawn after the simulator was frozen. The simulator was developed with the other fifteen, which were
recorded again on a still machine. *Earlier draws* were drawn after earlier freezes, or are repeats; the model was mended since.

**Bars.** Shares 2 points or 2.5 standard deviations over the seeds, whichever is wider (published rows 3 points); batches 8 % on a slow
broker, 15 % on the others; throughput 2 % (published 3 %). Latencies are judged on quiet runs only, in which the proxy let 95 % of the held
answers go within half a millisecond of their time. If a broker is congested, average and p95 8 %, p99 12 %; in saturated runs 20 %. Other
latencies have no bar. *Cells* are shares and batches: 95 % of them should lie within the seeds' 1-99 % range.

```text
"""


def main() -> int:
    """Runs what the arguments say."""
    arguments = _parse_arguments()
    if arguments.live:
        text = compare_live()
        if arguments.write:
            write_between(arguments.write, "--live", f"```text\n{text}\n```", word="fidelity")
        return 0
    if arguments.pairs:
        return _report_pairs(arguments)
    if arguments.recorded:
        recorded = recordings.read_recordings(arguments.file)
    else:
        drawn = draw_settings(arguments.seed, arguments.draw)
        settings = drawn if arguments.only_drawn else (*SETTINGS, *drawn)
        chosen = [each for each in settings if not arguments.only or each.name in arguments.only]
        recorded = record(chosen, arguments.file, with_timings=not arguments.no_timings)
    report = make_report(recorded, arguments)
    if arguments.write:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(f"{DOCUMENT}{shorten(report.text)}\n```\n")
    if arguments.only or arguments.only_drawn:
        return int(report.has_new_miss)
    print(f"\n{pairs.DOCUMENT.partition('```')[0]}")
    return int(report.has_new_miss | pairs.report_pairs(COMMITTED).has_new_miss)


def _report_pairs(arguments: argparse.Namespace) -> int:
    if arguments.record_pairs is not None:
        drawn = draw_pairs(arguments.record_pairs, arguments.seconds)
        wanted = [pair for pair in drawn if not arguments.only or pair.name in arguments.only]
        take = record_pairs if arguments.only else replace_pairs  # some of them leave the others where they are
        take(wanted, arguments.file or COMMITTED)
    report = pairs.report_pairs(arguments.file or COMMITTED, arguments.only, arguments.sides)
    if arguments.write:
        arguments.write.write_text(f"{pairs.DOCUMENT}{shorten(report.text)}\n```\n")
    return int(report.has_new_miss)


@dataclass(frozen=True)
class Report:
    """What was printed, and whether some miss has no known reason."""

    text: str
    has_new_miss: bool


def make_report(recorded: Recordings, arguments: argparse.Namespace) -> Report:
    """Prints table after table, then the sum of it."""
    seeds = range(1, arguments.seeds + 1)
    bed = ", ".join(f"{name} {value}" for name, value in recorded.bed.items())
    parts = [f"bed: {bed}; {len(seeds)} seeds"]
    titled: list[tuple[str, Row]] = []
    groups: dict[str, list[Row]] = {}
    for title, rows in _compare_all(
        recorded, arguments.only, seeds, with_lab=arguments.recorded, own_timings=not arguments.default_timings
    ):
        parts.append(format_rows(title, rows))
        print(parts[-1], end="\n\n", flush=True)
        titled += [(title.partition(":")[0], row) for row in rows]
        groups.setdefault(_find_group(title, recorded), []).extend(rows)
    misses = [(table, row) for table, row in titled if row.verdict == MISSES]
    verdicts = [f"{group}: {format_verdict(rows)}" for group, rows in groups.items()]
    parts.append("\n".join([*verdicts, f"all: {format_verdict(row for _, row in titled)}", format_misses(misses)]))
    print(parts[-1])
    has_new_miss = any(explain(table, row.figure, row.deviation) is None for table, row in misses)
    return Report("\n\n".join(parts), has_new_miss)


def _find_group(title: str, recorded: Recordings) -> str:
    if EARLIER in title:
        return "earlier draws"
    if title.partition(":")[0] in (setting.name for setting, _ in recorded.runs):
        return "clients from their start on" if COLD in title else "clients that had warmed up"
    return "published" if "(published)" in title else "the other bed, from its clients' start on"


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
    parser.add_argument(
        "--default-timings", action="store_true", help="simulate with measured.py's times instead of the bed's"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables as Markdown too")
    parser.add_argument(
        "--pairs", action="store_true", help="replay recorded pairs, of the folder --file, nothing else"
    )
    parser.add_argument(
        "--record-pairs", type=int, metavar="SEED", help="record pairs anew, drawn by a seed, then --pairs"
    )
    parser.add_argument("--seconds", type=int, default=SECONDS, help="with --record-pairs: of each run")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES, help="with --pairs: which recordings")
    parser.add_argument(
        "--live", action="store_true", help="one trace under two clients, each replayed from the running brokers"
    )
    arguments = parser.parse_args()
    if arguments.pairs or arguments.record_pairs is not None:
        arguments.pairs = True
        return arguments
    arguments.file = arguments.file or (recordings.COMMITTED if arguments.recorded else LIVE)
    return arguments


def _compare_all(
    recorded: Recordings, only: list[str], seeds: range, *, with_lab: bool, own_timings: bool
) -> Iterator[tuple[str, list[Row]]]:
    earlier = recordings.read_recordings(recordings.EARLIER) if with_lab else None
    for taken, kind in ((recorded, ""), *(((earlier, EARLIER),) if earlier else ())):
        profile = make_profile("here", taken.timings) if own_timings else DEFAULT
        for setting, run in taken.runs:
            if only and setting.name not in only:
                continue
            scenario = make_scenario(setting, profile, run)
            quiet = "quiet" if run.is_quiet else f"not quiet: {run.foreign_cpu_s:.1f} s of others' processor time"
            warm = "" if run.is_warm else COLD
            title = f"{setting.name}: {describe(setting)} ({quiet}{warm}{kind})"
            yield title, compare(setting, run, simulate_seeds(scenario, seeds, simulate))
    if with_lab and not only:
        yield from compare_lab_runs(seeds, simulate)
        yield from compare_shared_runs(seeds, simulate)


if __name__ == "__main__":
    sys.exit(main())
