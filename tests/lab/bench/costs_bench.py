"""What commands and DAGs cost beside an earlier version: `BASELINE=/path/to/its/checkout make bench ARGS=costs`.

Both checkouts need their `.venv`. The versions take turns on the same input, once by default; a figure is the least of all rounds.
CPU-s are those of a command and all processes that it started, whoever waited for them; memory is the most that they held at
once. Commands start with their own configuration and empty tables, unless they read tables, and warm: bytecode, kernels and the
archive of classes are there. Cold, `run` finds none of the three, and `make run` starts from a clone of the last commit with an
empty home; packages and Delta's jars are at hand in both.

A DAG is run as a task of Airflow runs it: a process of its own, from Airflow's import to the last mail. `--write` puts the tables
into `docs/evidence/performance.md`, commands and DAGs each between their own markers, as far as they are known, after each row.
"""

import argparse
import ctypes
import functools
import operator
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
from pipeline.storage.jars import find_delta_jars
from pipeline.storage.java import find_java, write_java_shim
from tests.lab.bench.costs_input import read_capture, read_log
from tests.lab.bench.figures import write_between
from tests.lab.bench.processes import CpuTime, PeakMemory

ROOT = Path(__file__).resolve().parents[3]
PR_SET_CHILD_SUBREAPER = 36
WINDOWS = 6
DAGS = ("ingest", "replay", "health")
RUN_DAG = """
import sys
from pathlib import Path
from types import SimpleNamespace
from dags.airflow_home import use_airflow_home
home, config, dag_id, span = sys.argv[1:]
use_airflow_home(Path(home), Path(config))
from tests.lab.demo.__main__ import load_dags, run_dag, unexpected
(dag,) = (dag for name, dag in load_dags().dags.items() if name.endswith(dag_id))  # with a prefix, or before there was one
states = run_dag(dag, SimpleNamespace(span=span))
sys.exit(len(unexpected({dag_id: states})))
"""
SQL = "SELECT window_start, broker_id, share_ratio FROM gold.broker_share ORDER BY share_ratio DESC LIMIT 3"
PARTITIONS, MORE_PARTITIONS = 12, 1_000
MORE_RECORDS = 1_000_000
REPLAYED_RECORDS = 60_000
PAPER = ROOT / "docs/evidence/performance.md"
CELLS = {"cpu_s": "{:.1f}", "wall_s": "{:.1f}", "memory_gib": "{:.2f}"}
HEAD = (
    "| command | CPU-s before | now | ratio | seconds before | now | ratio | GiB before | now | bars |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)
MORE = "| DAG, CPU-s | each further window | 1,000 more topic-partitions | a million more records | bars |\n|---|---|---|---|---|\n"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one command, or of several one after another."""

    cpu_s: float
    wall_s: float
    memory_gib: float

    def __add__(self, other):
        return Cost(
            cpu_s=self.cpu_s + other.cpu_s,
            wall_s=self.wall_s + other.wall_s,
            memory_gib=max(self.memory_gib, other.memory_gib),
        )


def measure(command, checkout, exit_codes=(0,), **variables):
    """What a command costs, its descendants included: those that lose their parent come to this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | variables
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

    def run(self, found, **variables):
        """`run` into empty tables."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        config = found.write_config(self.folder / "run")
        return self._command("run", "--no-notify", "--config", config, "--window", found.span, **variables)

    def run_cold(self, found):
        """The same, with nothing compiled and no archive of classes."""
        with tempfile.TemporaryDirectory() as empty:
            caches = dict.fromkeys(("PYTHONPYCACHEPREFIX", "NUMBA_CACHE_DIR", "PARTITION_HEALTH_CACHE"), empty)
            return self.run(found, DELTA_JARS=find_jars(), **caches)

    def sql(self):
        return self._command("sql", "--config", self.folder / "run/partition-health.yaml", SQL)

    def doctor(self):
        return self._command("doctor", "--config", self.folder / "run/partition-health.yaml")

    def replay(self, logs):
        return self._command("replay", logs)

    def make_run(self, *arguments):
        """`make run`."""
        module = "tests.lab.demo" if (self.checkout / "tests/lab/demo").is_dir() else "dags.run_once"  # of 0.1.0 on
        return measure([self.python, "-m", module, *arguments], self.checkout)

    def make_run_cold(self):
        """`make run` from a clone of the last commit, with an empty home."""
        with tempfile.TemporaryDirectory() as name:
            clone, home = Path(name) / "clone", Path(name) / "home"
            home.mkdir()
            subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(self.checkout), str(clone)], check=True)
            uv = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache/uv"))
            return measure(["make", "run"], clone, HOME=str(home), UV_CACHE_DIR=uv, DELTA_JARS=find_jars())

    def run_dags(self, found):
        """What each DAG costs, one after another, into empty tables."""
        shutil.rmtree(self.folder / "dags", ignore_errors=True)
        config = found.write_config(self.folder / "dags")
        home = self.folder / "airflow"
        return {
            dag: measure([self.python, "-c", RUN_DAG, str(home), str(config), dag, str(found.span)], self.checkout)
            for dag in DAGS
        }

    def _command(self, name, *arguments, **variables):
        command = [self.python, "-m", "pipeline", name, *map(str, arguments)]
        return measure(command, self.checkout, (0, HealthGateError.exit_code), **variables)


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

    ran = turns(lambda one: one.run(window))
    yield "`run`, one window, warm", ran, {"cpu ratio": 3.0}
    small = window.on_sail()
    by_sail = min((versions[1].run(small) for _ in range(rounds)), key=lambda cost: cost.cpu_s)
    yield "`run`, one window, warm, by Sail; before as above", [ran[0], by_sail], {"cpu ratio": 1.0, "GiB": 1.0}
    yield "`sql`, three rows", turns(Version.sql), {"cpu ratio": 1.0}
    yield "`doctor`", turns(Version.doctor), {"CPU-s": 5.0}
    yield f"`replay`, {REPLAYED_RECORDS:,} records", turns(lambda one: one.replay(logs)), {"cpu ratio": 1.0}
    made = turns(Version.make_run)
    yield "`make run`, warm", made, {"cpu ratio": 1.5}
    by_sail = min((versions[1].make_run("--engine", "sail") for _ in range(rounds)), key=lambda cost: cost.cpu_s)
    yield '`make run ARGS="--engine sail"`, warm; before as above', [made[0], by_sail], {"cpu ratio": 1.0}
    yield "`run`, one window, cold", turns(lambda one: one.run_cold(window)), {}
    yield "`make run`, cold", turns(Version.make_run_cold), {"time ratio": 1.0}


def measure_dags(versions, folder):
    """By input what each DAG of each version costs, as it is measured."""
    yield "window", [one.run_dags(read_capture(folder / "capture", 5, 6)) for one in versions]
    for name, found in (
        ("windows", read_capture(folder / "capture", 0, WINDOWS)),
        ("few", read_log(folder / "few", PARTITIONS, 0)),
        ("partitions", read_log(folder / "partitions", PARTITIONS + MORE_PARTITIONS, 0)),
        ("records", read_log(folder / "records", PARTITIONS, MORE_RECORDS)),
    ):
        yield name, [one.run_dags(found) for one in versions]


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
        "CPU-s": after.cpu_s,
        "GiB": after.memory_gib,
    }
    told = "; ".join(judge(values[bar], most, bar) for bar, most in bars.items())
    return f"| {' | '.join([*cells, told])} |\n"


def format_more(dag, costs):
    """A row about what more of everything adds to a DAG, or to all; it may be no more than before."""
    cells, added = [dag], []
    for more, less, count in (("windows", "window", WINDOWS - 1), ("partitions", "few", 1), ("records", "few", 1)):
        if more not in costs:
            return ""
        pair = [
            sum(of[name].cpu_s - base[name].cpu_s for name in (DAGS if dag == "all" else (dag,))) / count
            for of, base in zip(costs[more], costs[less], strict=True)
        ]
        cells.append("{:.2f} -> {:.2f}".format(*pair))
        added.append(pair)
    is_met = all(after <= max(before, 0) for before, after in added)
    return f"| {' | '.join([*cells, 'no more than before: ' + ('met' if is_met else '**missed**')])} |\n"


def write_commands(versions, folder, rounds):
    """The text of the table of commands, longer with each row."""
    table = HEAD
    for name, (before, after), bars in measure_commands(versions, folder, rounds):
        table += format_command(name, before, after, bars)
        yield table


def write_dags(versions, folder):
    """The text of the tables of DAGs, longer with each input."""
    table, costs = HEAD, {}
    for name, found in measure_dags(versions, folder):
        costs[name] = found
        if name == "window":
            for dag in (*DAGS, "all"):
                sums = [functools.reduce(operator.add, dags.values()) if dag == "all" else dags[dag] for dags in found]
                title = "a window through Airflow, a process for each DAG" if dag == "all" else f"its `{dag}`"
                table += format_command(title, *sums, {"cpu ratio": 1 / 3} if dag == "all" else {})
        rows = "".join(format_more(dag, costs) for dag in (*DAGS, "all"))
        yield table + (f"\n{MORE}{rows}" if rows else "")


def describe_load(started):
    """A line about when, and how busy the machine was."""
    loads = " and ".join(f"{load:.1f}" for load in (started, os.getloadavg()[0]))
    return f"Measured on {len(os.sched_getaffinity(0))} cores, {datetime.now(UTC):%Y-%m-%d}; load {loads} at the start and now.\n\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="of each command (1); DAGs run once")
    parser.add_argument("--only", choices=("commands", "dags"), help="one of the two tables")
    parser.add_argument(
        "--write", action="store_true", help="put the tables between their markers in docs/evidence/performance.md"
    )
    arguments = parser.parse_args()
    baseline = variable("BASELINE")
    if baseline is None:
        print("costs: skipped; BASELINE names no checkout of an earlier version")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions = [Version(Path(baseline).resolve(), folder / "before"), Version(ROOT, folder / "after")]
        for only, texts in (
            ("commands", write_commands(versions, folder, arguments.rounds)),
            ("dags", write_dags(versions, folder)),
        ):
            if arguments.only in {None, only}:
                show(texts, f'"costs --only {only}"', arguments.write)


def show(texts, marker, is_written):
    """Prints each text as far as it is new, and puts it into the paper."""
    load, printed = os.getloadavg()[0], ""
    for text in texts:
        print(text.removeprefix(printed), end="", flush=True)
        printed = text
        if is_written:
            write_between(PAPER, marker, describe_load(load) + text.rstrip("\n"))


if __name__ == "__main__":
    main()
