"""Measures the jobs on Spark's standalone cluster, a master and workers of one core each as processes of their own.

``python -m tests.lab.scale [--units N] [--render FILE]``: the same traffic on one executor and on two, 1x, 4x and 16x of it on two,
and one topic that is larger than all others; writes the tables of `docs/evidence/scale.md`. ``--requests``: what jobs ask an object store.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.integration.standalone_cluster import ROOT
from tests.lab.artifacts import cache_directory
from tests.lab.bench.figures import write_between
from tests.lab.scale.measures import from_json, measure, to_json
from tests.lab.scale.paper import HEAVY, format_paper
from tests.lab.scale.requests import count_requests, format_requests
from tests.lab.scale.traffic import SHIFTS, UNIT_RECORDS, link_units, make_copy, make_heavy, make_unit

PAPER = ROOT / "docs/evidence/scale.md"
FIGURES, REQUESTS = ROOT / "build/scale.json", ROOT / "build/requests.json"
RUNS = {"1x on 2": (2, 1), "4x on 2": (2, 4), "4x on 1": (1, 4), "16x on 2": (2, 16)}
"""Executors, and units of traffic in those of 1x."""


def main():
    """Measures and writes; 0 whatever was found, bars are in the tables."""
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--units", type=int, default=4, help="millions of records that 1x is")
    parser.add_argument(
        "--only", nargs="+", choices=[*RUNS, HEAVY], help="these alone, beside the figures in build/; writes no tables"
    )
    parser.add_argument("--render", type=Path, help="write the tables from these figures")
    parser.add_argument(
        "--requests", action="store_true", help="requests to an object store instead, 1x is a million records"
    )
    options = parser.parse_args()
    if options.requests:
        return measure_requests(cache_directory().parent / "scale")
    if options.render:
        write_between(PAPER, "", format_paper(from_json(options.render.read_text())), word="scale")
        return 0
    cache = cache_directory().parent / "scale"
    make_unit(cache / "unit")
    found = from_json(FIGURES.read_text()) if options.only and FIGURES.exists() else {}
    with tempfile.TemporaryDirectory(prefix="measured-", dir=cache) as place:
        folder = Path(place)
        copies = [cache / f"copies/{number:03d}" for number in range(16 * options.units)]
        wanted = options.only or [*RUNS, HEAVY]
        most = max((RUNS[name][1] for name in wanted if name in RUNS), default=1) * options.units
        for number, copy in enumerate(copies[:most]):
            make_copy(copy, cache / "unit", number)
        make_warm_up(folder / "warm-up", copies[0])
        for name in wanted:
            if name == HEAVY:
                make_heavy(cache / "heavy", cache / "unit")
                units, executors, records = [cache / "heavy", copies[0]], 2, SHIFTS * UNIT_RECORDS + UNIT_RECORDS
            else:
                executors, times = RUNS[name]
                units, records = copies[: times * options.units], times * options.units * UNIT_RECORDS
            own = folder / name.replace(" ", "-")
            found[name] = measure(own, units, folder / "warm-up", executors=executors, records=records)
            shutil.rmtree(own)
            FIGURES.write_text(to_json(found))
            sys.stdout.write(f"{name}: { {step: one.wall_s for step, one in found[name].steps.items()} }\n")
            sys.stdout.flush()
    if not options.only:
        write_between(PAPER, "", format_paper(found), word="scale")
    return 0


def measure_requests(cache):
    """Requests to an object store; writes their tables between markers of their own."""
    make_unit(cache / "unit")
    copies, found = [cache / f"copies/{number:03d}" for number in range(16)], {}
    for number, copy in enumerate(copies):
        make_copy(copy, cache / "unit", number)
    with tempfile.TemporaryDirectory(prefix="requests-", dir=cache) as place:
        for name, one in count_requests(Path(place), cache, {f"{times}x": copies[:times] for times in (1, 4, 16)}):
            found[name] = one
            REQUESTS.write_text(json.dumps(found, indent=1))
            sys.stdout.write(f"{name}: {one['jobs']}\n")
            sys.stdout.flush()
    write_between(PAPER, "--requests", format_requests(found), word="scale")
    return 0


def make_warm_up(folder, unit):
    """Two partitions of each topic of a unit: Numba's kernels load, the JVMs compile."""
    whole = folder.with_suffix(".whole")
    link_units(whole, [unit])
    for log in sorted(whole.glob("*/*-[01]")):
        shutil.move(log, folder / log.parent.name / log.name)
        (folder / log.parent.name / "meta.properties").write_text((log.parent / "meta.properties").read_text())
    shutil.rmtree(whole)


if __name__ == "__main__":
    sys.exit(main())
