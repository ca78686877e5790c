"""Draws worlds and runs each: ingest, gates, health, mails.

``python -m tests.lab.worlds [--kind lives|readings] [--count N] [--seed N] [--engine spark|connect]``: each world has a seed of its
own, which makes it again; one that does not hold is printed with it, and the exit code is 1. Kinds: `hosts`, of which one is
hostile, compared with a sound world that is run on Sail; `lives` of a cluster, compared with what its brokers led; `readings` of
such lives without an engine, gates and tables.
"""

import argparse
import resource
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from pipeline.config.pipeline_config import Spark
from pipeline.storage.engines import running_engine
from tests.engines import SAIL
from tests.integration.test_connect_server import connect_server
from tests.lab.faults.disks import may_mount
from tests.lab.worlds.oracle import SoundWorld, World
from tests.lab.worlds.truth import judge_life, run_life

_CLASSIC = {"master": "local[2]", "driver_memory": "1g"}


def draw_life(seed: int, folder: Path, spark: SparkSession | None) -> World:
    """A life in a folder of its own, which is deleted: run whole, or only read where there is no engine."""
    with TemporaryDirectory(dir=folder) as own:
        if spark is not None:
            return run_life(seed, Path(own), spark)
        life, wrong, whole = judge_life(seed, Path(own))
        return World(f"with {'a whole window' if whole else 'no whole window'}", life.faults, wrong)


def main() -> int:
    """Runs the worlds; 0 where all hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.worlds", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first world; the next ones follow")
    parser.add_argument("--kind", default="hosts", choices=("hosts", "lives", "readings"))
    parser.add_argument("--engine", default="sail", choices=("sail", "spark", "connect"))
    options = parser.parse_args()
    wrong, longest_s, ends = 0, 0.0, {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="worlds-")))
        sound = SoundWorld(folder, may_mount=may_mount(folder)) if options.kind == "hosts" else None
        settings = {"sail": SAIL, "spark": _CLASSIC}.get(options.engine)
        if settings is None:
            (folder / "server").mkdir()
            settings = {"remote": stack.enter_context(connect_server(folder / "server"))}
        is_needed = options.kind != "readings"
        spark = stack.enter_context(running_engine(Spark(**settings), app_name="worlds")) if is_needed else None
        for seed in range(options.seed, options.seed + options.count):
            began_s = time.monotonic()
            found = sound.run_hostile(seed, spark) if sound else draw_life(seed, folder, spark)
            longest_s = max(longest_s, time.monotonic() - began_s)
            ends[found.end] = ends.get(found.end, 0) + 1
            if not (seed + 1 - options.seed) % 10:
                sys.stderr.write(f"{seed + 1 - options.seed} worlds, {wrong} do not hold\n")
            for reason in found.wrong:
                wrong += 1
                sys.stdout.write(f"seed {seed} ({', '.join(found.faults)}): {reason}\n")
                sys.stdout.flush()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    said = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    sys.stdout.write(
        f"{options.count} worlds: {said}; {wrong} do not hold; the longest took {longest_s:.1f} s, this process {peak_mib} MiB\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
