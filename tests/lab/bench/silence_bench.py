"""How long `make run` says nothing, from a fresh clone with an empty home: `make bench ARGS="silence"`.

Clones the last commit, runs `make run` there, and notes when each piece of output comes. Only the machine's own settings are kept,
where packages come from among them; caches of packages are empty, so it downloads all of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MOST_S = 5.0
SHOWN = 5


def run_clone(folder):
    """Exit code, and the instants of `make run`'s output with its last words, seconds from the start."""
    clone, home = folder / "clone", folder / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PARTITION_HEALTH", "XDG_"))}
    made = subprocess.Popen(
        ["make", "run"], cwd=clone, env=kept | {"HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    started_s = time.monotonic()
    said = [(0.0, "make run")]
    while piece := os.read(made.stdout.fileno(), 1 << 16):
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        lines = piece.decode(errors="replace").split()
        said.append((time.monotonic() - started_s, " ".join(lines[-8:])))
    code = made.wait()
    said.append((time.monotonic() - started_s, "the end"))
    return code, said


def main():
    with tempfile.TemporaryDirectory() as name:
        code, said = run_clone(Path(name))
    silences = sorted(((after - before, before, words) for (before, words), (after, _) in pairwise(said)), reverse=True)
    print(f"\n`make run` ended with {code} after {said[-1][0]:.0f} s; longest silences (bar {MOST_S:.0f} s):")
    for length, at, words in silences[:SHOWN]:
        print(f"  {length:5.1f} s from {at:6.1f} s on, after: {words}")
    print("met" if silences[0][0] <= MOST_S and code == 0 else "MISSED")


if __name__ == "__main__":
    main()
