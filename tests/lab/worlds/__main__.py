"""Draws worlds and runs the ingest of each.

``python -m tests.lab.worlds [--count N] [--seed N]``: each world has a seed of its own, which makes it again; one that does not hold is
printed with it, and the exit code is 1.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.worlds.oracle import SoundWorld


def main() -> int:
    """Runs the worlds; 0 where all hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.worlds", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first world; the next ones follow")
    options = parser.parse_args()
    wrong, longest_s, ends = 0, 0.0, {}
    with TemporaryDirectory() as folder:
        sound = SoundWorld(Path(folder))
        for seed in range(options.seed, options.seed + options.count):
            began_s = time.monotonic()
            found = sound.run_hostile(seed)
            longest_s = max(longest_s, time.monotonic() - began_s)
            ends[found.end] = ends.get(found.end, 0) + 1
            if not (seed + 1 - options.seed) % 50:
                sys.stderr.write(f"{seed + 1 - options.seed} worlds\n")
            for reason in found.wrong:
                wrong += 1
                sys.stdout.write(f"seed {seed} ({', '.join(found.faults)}): {reason}\n")
                sys.stdout.flush()
    said = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    sys.stdout.write(f"{options.count} worlds: {said}; {wrong} do not hold; the longest took {longest_s:.1f} s\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
