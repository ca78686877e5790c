"""Counts how many of a sample of mistakes the tests catch.

``python -m tests.lab.mutants [--checkout DIR] [--seed N] [--count N]``: draws mutants in four rooms, makes one at a time in a
clone of the checkout's last commit, and runs the tests that can notice it, closest ones first, up to the first failure.
Tests that need Spark, Airflow or Kafka do not run. Nothing is written to the checkout; outcomes are appended to a file as
they come, and a second call goes on from there.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.lab.mutants.draw import Mutant, draw_mutants, read_room
from tests.lab.mutants.imports import ImportGraph

ROOT = Path(__file__).parents[3]
ROOMS = ("measures", "partitioners", "codec", "simulator")
FOLDERS = ("tests/unit/", "tests/properties/", "tests/golden/")
LEFT_OUT = "tests/unit/docker/"  # text of other files
STAGE_LIMIT_S = 3000  # a mutant that runs longer has made a loop without end


class WorkCopy:
    """A clone of a checkout's last commit, in which tests run with a cache of compiled kernels of its own."""

    def __init__(self, checkout: Path, python: Path, folder: Path) -> None:
        self.root = folder / "clone"
        self.warm = folder / "numba"
        self.python = python
        self.folder = folder
        self.warm.mkdir(exist_ok=True)
        if not self.root.exists():
            subprocess.run(["git", "clone", "--quiet", "--local", str(checkout), str(self.root)], check=True)
            (self.root / ".venv").symlink_to(python.parent.parent)
        subprocess.run(["git", "checkout", "--quiet", "--", "."], cwd=self.root, check=True)  # a call before was killed
        self.graph = ImportGraph(self.root)

    def list_stages(self, path: str) -> list[list[str]]:
        """Tests in the order in which they are asked: that name the file, that reach it, all others."""
        steps = self.graph.reached_from(path)
        tests = sorted(
            file
            for file in self.graph.paths
            if file.startswith(FOLDERS) and Path(file).name.startswith("test_") and not file.startswith(LEFT_OUT)
        )
        near = [path, *(test for test in tests if steps.get(test, 9) == 1)]
        reaching = sorted((test for test in tests if steps.get(test, 1) > 1), key=lambda test: (steps[test], test))
        return [near, reaching, ["pipeline", *(test for test in tests if test not in steps)]]

    def find_failure(self, arguments: list[str], cache: Path) -> str | None:
        """The first test that fails, "no end" where pytest does not come to one, None where all pass."""
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(self.root)}
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
        if code in {3, 4}:
            raise SystemExit(f"pytest itself failed ({code}): see {log.name}")
        if code in {0, 5}:  # 5: no test in these files
            return None
        lines = Path(log.name).read_text().splitlines()
        return next((line.split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))), "no end")

    def catch(self, mutant: Mutant) -> str | None:
        """The test that notices a mutant."""
        file = self.root / mutant.path
        source, stamp = file.read_bytes(), file.stat()
        cache = self.folder / "numba-mutant"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self.warm, cache, copy_function=os.link)
        for path in map(Path, self.graph.reached_from(mutant.path)):  # their machine code can hold the file's
            for compiled in cache.glob(f"{path.parent.name}_*/{path.stem}.*"):
                compiled.unlink()
        try:
            file.write_bytes(mutant.apply(source))
            for tests in self.list_stages(mutant.path):
                if tests and (failure := self.find_failure(tests, cache)):
                    return failure
            return None
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter of the checkout's .venv")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--room", choices=ROOMS, action="append")
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
    if not (copy.folder / "clean").exists():
        if failure := copy.find_failure(["pipeline", *FOLDERS, "--ignore", LEFT_OUT], copy.warm):
            raise SystemExit(f"tests fail without any mutant: {failure}; see {copy.folder}/last.log")
        (copy.folder / "clean").touch()
    for room, mutants in drawn.items():
        for mutant in mutants if room in (options.room or ROOMS) else ():
            shown = mutant.show((copy.root / mutant.path).read_bytes())
            if shown not in known:
                known[shown] = copy.catch(mutant)
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
