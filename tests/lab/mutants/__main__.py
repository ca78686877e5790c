"""Counts how many of a sample of mistakes the tests catch.

``python -m tests.lab.mutants [--checkout DIR] [--seed N] [--count N] [--room R]… [--lanes]``: draws mutants in every room of
the product, makes one at a time in a clone of the checkout's last commit, and runs the tests that can notice it, closest
ones first, up to the first failure. A test that fails without the mutant, too, does not count. Tests that need Spark,
Airflow or Kafka, and those that reach the file from another room, run with ``--lanes``. Nothing is written to the checkout;
outcomes are appended to a file as they come, and a second call goes on from there: with ``--lanes`` it asks again about
what survived.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.lab.mutants.draw import Mutant, draw_mutants, read_room
from tests.lab.mutants.imports import ImportGraph

ROOT = Path(__file__).parents[3]
ROOMS = (
    *(
        "advice",
        "alerting",
        "calibration",
        "cli",
        "codec",
        "config",
        "dags",
        "expectations",
        "jobs",
        "measures",
        "model",
    ),
    *("partitioners", "replay", "report", "rules", "simulator", "sources", "storage", "transforms", "verdicts"),
)
FOLDERS = ("tests/unit/", "tests/properties/", "tests/golden/", "tests/lab/")
LANES = ("tests/spark/", "tests/gates/", "tests/dags/", "tests/kafka/", "tests/lab/real/")
LEFT_OUT = ("tests/unit/docker/", "tests/lab/real/")  # text of other files, and a lane
LANE_FILES = 3  # the nearest test files of each lane
STAGE_LIMIT_S = 3000  # a mutant that runs longer has made a loop without end


class WorkCopy:
    """A clone of a checkout's last commit, in which tests run."""

    def __init__(self, checkout: Path, python: Path, folder: Path) -> None:
        self.root = folder / "clone"
        self.python = python
        self.folder = folder
        if not self.root.exists():
            subprocess.run(["git", "clone", "--quiet", "--local", str(checkout), str(self.root)], check=True)
            (self.root / ".venv").symlink_to(python.parent.parent)
        subprocess.run(["git", "checkout", "--quiet", "--", "."], cwd=self.root, check=True)  # a call before was killed
        self.graph = ImportGraph(self.root)

    def list_stages(self, path: str, room: str) -> list[list[str]]:
        """Tests in the order in which they are asked: that name the file, its room's before others', then of its room."""
        near, own, _ = self._sort_tests(path, room)
        mine = [test for test in near if test.startswith(f"tests/unit/{room}/")]
        return [[path, *mine], [test for test in near if test not in mine], own]

    def list_lanes(self, path: str, room: str) -> list[list[str]]:
        """Other tests that reach the file, then the nearest files of each lane that do, and all of the room's own lane."""
        steps = self.graph.reached_from(path)
        lanes = {lane: [test for test in self._list_tests((lane,)) if test in steps] for lane in LANES}
        nearest = [sorted(lane, key=lambda test: (steps[test], test))[:LANE_FILES] for lane in lanes.values()]
        return [self._sort_tests(path, room)[2], *nearest, self._list_tests((f"tests/{room}/",))]

    def _sort_tests(self, path: str, room: str) -> tuple[list[str], list[str], list[str]]:
        """Tests that need no lane: that import the file, others of its room, others that reach it."""
        steps = self.graph.reached_from(path)
        tests = [test for test in self._list_tests(FOLDERS) if not test.startswith(LEFT_OUT)]
        near = [test for test in tests if steps.get(test) == 1]
        own = [test for test in tests if test.startswith(f"tests/unit/{room}/") and test not in near]
        reaching = sorted(set(tests) & set(steps) - {*near, *own}, key=lambda test: (steps[test], test))
        return near, own, reaching

    def _list_tests(self, folders: tuple[str, ...]) -> list[str]:
        return sorted(file for file in self.graph.paths if file.startswith(folders) and "/test_" in file)

    def find_failure(self, arguments: list[str]) -> str | None:
        """The first test that fails, "no end" where pytest does not come to one, None where all pass."""
        environment = os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str(self.python), "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += ["-o", "timeout=600", "-o", "timeout_method=thread", "--hypothesis-seed=1", *arguments]
        with (self.folder / "last.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                code = process.wait(STAGE_LIMIT_S)
            except subprocess.TimeoutExpired:
                code = 1
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code == 3:
            raise SystemExit(f"pytest itself failed ({code}): see {log.name}")
        if code in {0, 5}:  # 5: no test in these files
            return None
        if code == 4:  # the mutant cannot be imported where tests are collected
            return "no import"
        lines = Path(log.name).read_text().splitlines()
        return next((line.split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))), "no end")

    def catch(self, mutant: Mutant, stages: list[list[str]]) -> str | None:
        """The test that notices a mutant; one that fails without the mutant, too, is left out."""
        file = self.root / mutant.path
        source, stamp = file.read_bytes(), file.stat()
        broken: list[str] = []
        for stage in stages:
            while tests := [test for test in stage if test not in broken]:  # some files cannot be collected
                try:
                    file.write_bytes(mutant.apply(source))
                    failure = self.find_failure([*tests, *(f"--deselect={test}" for test in broken)])
                finally:
                    file.write_bytes(source)
                    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
                if failure is None:
                    break
                failed = failure.partition(" ")[2]
                if "/" not in failed or self.find_failure([failed]) is None:
                    return failure
                broken.append(failed)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter of the checkout's .venv")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--room", choices=ROOMS, action="append")
    parser.add_argument(
        "--lanes", action="store_true", help="ask other rooms', Spark's, Airflow's, Kafka's tests about survivors"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "partition-health-mutants")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    options.folder.mkdir(parents=True, exist_ok=True)
    copy = WorkCopy(options.checkout.resolve(), options.python.absolute(), options.folder)
    outcomes = options.folder / f"outcomes-{options.seed}.jsonl"
    known = (
        {line["mutant"]: line["caught_by"] for line in map(json.loads, outcomes.open())} if outcomes.exists() else {}
    )
    drawn = draw(copy.root, options.count, options.seed)
    for room, mutants in drawn.items():
        for mutant in mutants if room in (options.room or ROOMS) else ():
            shown = mutant.show((copy.root / mutant.path).read_bytes())
            if known.get(shown) or (shown in known and not options.lanes):
                continue
            stages = copy.list_lanes(mutant.path, room) if shown in known else copy.list_stages(mutant.path, room)
            known[shown] = copy.catch(mutant, stages)
            with outcomes.open("a") as file:
                file.write(json.dumps({"mutant": shown, "room": room, "caught_by": known[shown]}) + "\n")
            print(f"{shown}\n    {known[shown] or 'SURVIVES'}", flush=True)
    report(known, drawn, copy.root)


def draw(root: Path, count: int, seed: str) -> dict[str, list[Mutant]]:
    """As many mutants of each room, the first rooms taking one more where the count does not divide."""
    share, more = divmod(count, len(ROOMS))
    return {
        room: draw_mutants(read_room(root, room), share + (place < more), f"{seed}/{room}")
        for place, room in enumerate(ROOMS)
    }


def report(known: dict[str, str | None], drawn: dict[str, list[Mutant]], root: Path) -> None:
    caught: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for room, mutants in drawn.items():
        names = [mutant.show((root / mutant.path).read_bytes()) for mutant in mutants]
        asked[room] = sum(name in known for name in names)
        caught[room] = sum(known.get(name) is not None for name in names)
    for room in ROOMS:
        print(f"{room:14} {caught[room]:3} of {asked[room]:3} caught")
    print(f"{'all':14} {caught.total():3} of {asked.total():3} caught")


if __name__ == "__main__":
    main()
