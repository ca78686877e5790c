"""`make promises`: advice carried out on real clusters.

`stages` (default) changes one setting after another on stamped traffic, `walk` goes a stranger's way in real time, `kinds`
carries out each kind of advice three times, `zones` the plans of `what-if --zones` on brokers in racks.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.lab.bench.figures import write_between
from tests.lab.promises import kinds, stages, walk, zones


def main() -> int:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("stages", "walk", "kinds", "zones"), default="stages")
    parser.add_argument(
        "tries",
        nargs="*",
        help="of the walk: 1 slow broker, 2 leaders, 3 heavy key; of the kinds: numbers (default: all)",
    )
    parser.add_argument("--engine", choices=("spark", "sail"), default="spark", help="of the walk")
    parser.add_argument("--write", type=Path, metavar="FILE", help="paper to write the result into")
    parser.add_argument("--folder", type=Path, metavar="NEW", help="keeps brokers' disks and the warehouse there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="promises-") as named:
        folder = arguments.folder or Path(named)
        folder.mkdir(exist_ok=True)
        if arguments.what == "walk":
            text = walk.run(folder, arguments.tries, arguments.engine)
        elif arguments.what == "kinds":
            text = kinds.run(folder, arguments.tries)
        else:
            text = (zones if arguments.what == "zones" else stages).run(folder)
    print(text)
    if arguments.write:
        argument = "--write" if arguments.what == "stages" else f"{arguments.what} --write"
        shown = text if arguments.what in {"kinds", "zones"} else f"```text\n{text}\n```"
        write_between(arguments.write, argument, shown, word="promises")
    return 1 if "MISSES" in text else 0


if __name__ == "__main__":
    sys.exit(main())
