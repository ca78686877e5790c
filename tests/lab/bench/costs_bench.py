"""What commands cost beside version 022a283, before there was one pipeline: `make bench ARGS="costs --write"`, nine minutes when quiet.

`BASELINE` names another checkout to compare with; else `build/baseline` is made, a worktree with a `.venv` of its own. The versions
take turns on the same input, once by default; a figure is the least of all rounds. CPU-s are those of a command and all processes
that it started, whoever waited for them; memory is the most that they held at once. Commands start with their own configuration and
empty tables, unless they read tables, and warm: bytecode, kernels and the archive of classes are there. Cold, `make run` starts
from a clone of the last commit with an empty home; packages and Delta's jars are at hand.

`--write` puts the table into `docs/evidence/performance.md`, as far as it is known, after each row.
"""

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.environment import cache_directory, variable
from pipeline.errors import HealthGateError
from pipeline.storage.java import find_delta_jars, find_java, write_java_shim
from tests.lab.bench.costs_input import read_capture, read_log
from tests.lab.bench.figures import write_between
from tests.lab.bench.processes import CpuTime, PeakMemory
from tests.lab.scale.event_log import list_queries

ROOT = Path(__file__).resolve().parents[3]
PR_SET_CHILD_SUBREAPER = 36
BASE = "022a283"
SQL = "SELECT window_start, broker_id, share_ratio FROM gold.broker_share ORDER BY share_ratio DESC LIMIT 3"
PARTITIONS, REPLAYED_RECORDS = 12, 60_000
LEAST_QUERIES, MOST_QUERIES = 10, 60
PAPER = ROOT / "docs/evidence/performance.md"
_NOT_PASSED_ON = {"PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ARGS"}
"""What `make bench` was called with is not for the commands that it times."""
CELLS = {"cpu_s": "{:.1f}", "wall_s": "{:.1f}", "memory_gib": "{:.2f}"}
HEAD = (
    "| command | CPU-s before | now | ratio | seconds before | now | ratio | GiB before | now | bars |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one command."""

    cpu_s: float
    wall_s: float
    memory_gib: float


def measure(command, checkout, exit_codes=(0,), **variables):
    """What a command costs, its descendants included: those that lose their parent come to this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON} | variables
    before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with PeakMemory() as memory, CpuTime() as processes:
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        wall_s = time.perf_counter() - started_s
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
    if done.returncode not in exit_codes:
        sys.exit(f"{checkout}: {command} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Cost(cpu_s=max(processes.cpu_s, waited_s), wall_s=wall_s, memory_gib=memory.most / (1 << 30))


class Version:
    """A checkout, and the folder that holds what its commands write."""

    def __init__(self, checkout, folder):
        self.checkout, self.folder = checkout, folder
        self.python = str(checkout / ".venv/bin/python")

    def run(self, found):
        """`run` into empty tables."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        config = found.write_config(self.folder / "run")
        return self._command("run", "--no-notify", "--config", config, "--window", found.span)

    def sql(self):
        return self._command("sql", "--config", self.folder / "run/partition-health.yaml", SQL)

    def replay(self, logs):
        return self._command("replay", logs)

    def make_run(self):
        """`make run`."""
        module = "tests.lab.demo" if (self.checkout / "tests/lab/demo").is_dir() else "dags.run_once"  # of 0.1.0 on
        return measure([self.python, "-m", module], self.checkout)

    def make_run_cold(self):
        """`make run` from a clone of the last commit, with an empty home."""
        with tempfile.TemporaryDirectory() as name:
            clone, home = Path(name) / "clone", Path(name) / "home"
            home.mkdir()
            subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(self.checkout), str(clone)], check=True)
            uv = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache/uv"))
            return measure(["make", "run"], clone, HOME=str(home), UV_CACHE_DIR=uv, DELTA_JARS=find_jars())

    def _command(self, name, *arguments):
        command = [self.python, "-m", "pipeline", name, *map(str, arguments)]
        return measure(command, self.checkout, (0, HealthGateError.exit_code))


def find_jars():
    """Delta's jars, as `DELTA_JARS` names them."""
    cache = cache_directory() / "spark"
    return ",".join(find_delta_jars(cache, write_java_shim(find_java(), cache), {}))


def take_turns(versions, rounds, action):
    """The cheapest of some rounds, for each version."""
    found = [[action(version) for version in versions] for _ in range(rounds)]
    return [min(costs, key=lambda cost: cost.cpu_s) for costs in zip(*found, strict=True)]


def measure_commands(versions, folder, rounds):
    """Name, costs of the versions, bars: at most so much of what it cost before, or where named with a unit so much in all."""
    window = read_capture(folder / "capture", 5, 6)
    log = read_log(folder / "replay", PARTITIONS, REPLAYED_RECORDS, key=None)
    logs = log.document["clusters"]["bench"]["sources"][0]["paths"][0]

    def turns(action):
        return take_turns(versions, rounds, action)

    versions[0].run(window)  # as the next one, it leaves bytecode: that of Great Expectations takes 4 CPU-s
    queries = count_queries(versions[1], window)
    ran = turns(lambda one: one.run(window))
    yield f"`run`, one window, warm; {queries}", ran, {"cpu ratio": 3.0}
    yield "`sql`, three rows", turns(Version.sql), {"cpu ratio": 1.0}
    small = window.with_spark(engine="sail")
    (by_sail,) = take_turns(versions[1:], rounds, lambda one: one.run(small))
    yield (
        "`run`, one window, warm, by Sail; before as in the first row",
        [ran[0], by_sail],
        {"cpu ratio": 1.0, "GiB": 1.0},
    )
    yield f"`replay`, {REPLAYED_RECORDS:,} records", turns(lambda one: one.replay(logs)), {"cpu ratio": 1.0}
    yield "`make run`, warm", turns(Version.make_run), {"cpu ratio": 1.5}
    yield "`make run`, cold", turns(Version.make_run_cold), {"time ratio": 1.0}


def count_queries(version, found):
    """How many queries of Spark SQL a run takes, beside the bar."""
    with tempfile.TemporaryDirectory() as events:
        conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events, "spark.eventLog.compress": "false"}
        version.run(found.with_spark(conf=conf))
        count = len(list_queries(Path(events)))
    is_met = LEAST_QUERIES <= count <= MOST_QUERIES
    return f"{count} queries ({LEAST_QUERIES} to {MOST_QUERIES}: {'met' if is_met else '**missed**'})"


def judge(value, bar, name):
    """A bar beside its figure.

    >>> judge(0.3, 1 / 4, "cpu ratio"), judge(1.2, 2.0, "GiB")
    ('cpu ratio 0.25: **missed**', 'GiB 2: met')
    """
    return f"{name} {bar:.3g}: {'met' if value <= bar else '**missed**'}"


def format_command(name, before, after, bars):
    """A row of the table of commands."""
    cells = [name]
    for figure, form in CELLS.items():
        pair = getattr(before, figure), getattr(after, figure)
        cells += [form.format(value) for value in pair]
        cells += [] if figure == "memory_gib" else [f"{pair[1] / pair[0]:.2f}"]
    values = {
        "cpu ratio": after.cpu_s / before.cpu_s,
        "time ratio": after.wall_s / before.wall_s,
        "GiB": after.memory_gib,
    }
    told = "; ".join(judge(values[bar], most, bar) for bar, most in bars.items())
    return f"| {' | '.join([*cells, told])} |\n"


def write_commands(versions, folder, rounds):
    """The text of the table of commands, longer with each row."""
    table = HEAD
    for name, (before, after), bars in measure_commands(versions, folder, rounds):
        table += format_command(name, before, after, bars)
        yield table


def describe_load(started):
    """A line about when, and how busy the machine was."""
    loads = " and ".join(f"{load:.1f}" for load in (started, os.getloadavg()[0]))
    return f"Measured on {len(os.sched_getaffinity(0))} cores, {datetime.now(UTC):%Y-%m-%d}; load {loads} at the start and now.\n\n"


def find_baseline():
    """The checkout to compare with: `BASELINE`, else one that is made."""
    given = variable("BASELINE")
    checkout = Path(given).resolve() if given else ROOT / "build/baseline"
    if given is None and not checkout.is_dir():
        subprocess.run(["git", "worktree", "add", "--detach", str(checkout), BASE], cwd=ROOT, check=True)
    if not (checkout / ".venv/.ready").exists():
        subprocess.run(["make", "setup"], cwd=checkout, check=True)
    return checkout


def main():
    parser = argparse.ArgumentParser(prog="make bench ARGS=costs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="of each command (1)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence/performance.md")
    arguments = parser.parse_args()
    load, printed = os.getloadavg()[0], ""
    with tempfile.TemporaryDirectory() as name:
        versions = [Version(find_baseline(), Path(name) / "before"), Version(ROOT, Path(name) / "after")]
        for text in write_commands(versions, Path(name), arguments.rounds):
            print(text.removeprefix(printed), end="", flush=True)
            printed = text
            if arguments.write:
                write_between(PAPER, "costs", describe_load(load) + text.rstrip("\n"))


if __name__ == "__main__":
    main()
