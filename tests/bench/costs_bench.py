"""What commands and DAGs cost beside an earlier version: `BASELINE=/path/to/its/checkout python -m tests.bench.costs_bench`.

Both checkouts need their `.venv`. Each figure is the smallest of some rounds, in which the two versions take turns. CPU-s
are those of a command and all processes that it started, whoever waited for them; memory is the most that they held at once.
Commands start on warm caches and with the same input, an own configuration and empty tables, unless they read tables.

A DAG is run as a task of Airflow runs it: a process of its own, from Airflow's import to the last mail.
"""

from __future__ import annotations

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
from pathlib import Path

import yaml

from pipeline.cli.demo import prepare_demo
from pipeline.environment import variable
from pipeline.errors import HealthGateError
from pipeline.model.window import TimeWindow, format_instant
from tests.batches import START_MS, make_batch, make_records
from tests.bench.processes import CpuTime, PeakMemory
from tests.bench.scan_bench import write_index, write_segment

ROOT = Path(__file__).resolve().parents[2]
PR_SET_CHILD_SUBREAPER = 36
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
WINDOWS = 12
DAGS = ("ingest", "replay", "health")
RUN_DAG = """
import sys
from pathlib import Path
from types import SimpleNamespace
from dags.airflow_home import use_airflow_home
home, config, dag_id, span = sys.argv[1:]
use_airflow_home(Path(home), Path(config))
from dags.run_once import load_dags, run_dag, unexpected
states = run_dag(load_dags().dags[dag_id], SimpleNamespace(span=span))
sys.exit(len(unexpected({dag_id: states})))
"""
SQL = "SELECT window_start, broker_id, share_ratio FROM gold.broker_share ORDER BY share_ratio DESC LIMIT 3"
RECORDS_PER_BATCH = 100
PARTITIONS, MORE_PARTITIONS = 12, 1_000
MORE_RECORDS = 1_000_000
REPLAYED_RECORDS = 60_000
SPREAD_MS = 40 * MINUTE_MS
LABELS = {"cpu": "CPU ratio", "wall": "time ratio", "cpu_s": "CPU-s", "memory": "GiB"}
SCALES = {"cpu": 1, "wall": 1, "cpu_s": 1, "memory": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class Input:
    """What is read: a configuration without its tables, and the windows to run."""

    document: dict
    span: TimeWindow

    def write_config(self, folder):
        """The configuration, with tables and mails in a folder of their own."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "partition-health.yaml"
        path.write_text(yaml.safe_dump(self.document))
        return path


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one command, or of several one after another."""

    cpu_s: float
    wall_s: float
    memory_bytes: int

    def __add__(self, other):
        return Cost(
            cpu_s=self.cpu_s + other.cpu_s,
            wall_s=self.wall_s + other.wall_s,
            memory_bytes=max(self.memory_bytes, other.memory_bytes),
        )


def measure(command, checkout, exit_codes=(0,)):
    """What a command costs, its descendants included: those that lose their parent come to this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
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
    return Cost(cpu_s=max(processes.cpu_s, waited_s), wall_s=wall_s, memory_bytes=memory.most)


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

    def doctor(self):
        return self._command("doctor", "--config", self.folder / "run/partition-health.yaml")

    def replay(self, logs):
        return self._command("replay", logs)

    def make_run(self, *arguments):
        """`make run`; an earlier version has Spark do everything, and looks at no argument."""
        return measure([self.python, "-m", "dags.run_once", *arguments], self.checkout)

    def run_dags(self, found):
        """What each DAG costs, one after another, into empty tables."""
        shutil.rmtree(self.folder / "dags", ignore_errors=True)
        config = found.write_config(self.folder / "dags")
        home = self.folder / "airflow"
        return {
            dag: measure([self.python, "-c", RUN_DAG, str(home), str(config), dag, str(found.span)], self.checkout)
            for dag in DAGS
        }

    def _command(self, name, *arguments):
        command = [self.python, "-m", "pipeline", name, *map(str, arguments)]
        return measure(command, self.checkout, (0, HealthGateError.exit_code))


def read_capture(folder, first, last):
    """The committed capture, minutes from the first to before the last."""
    demo = prepare_demo(folder)
    document = yaml.safe_load(demo.config.read_text())
    document.pop("spark", None)
    for source in document["clusters"]["demo"]["sources"]:
        paths = source.pop("paths", None)
        found = {"paths": [str(folder / path) for path in paths]} if paths else {"path": str(folder / source["path"])}
        source.update(found)
    start_ms = demo.span.start_ms
    return Input(document=document, span=TimeWindow(start_ms + first * MINUTE_MS, start_ms + last * MINUTE_MS))


def read_log(folder, partitions, records, key=b"k%d"):
    """A topic on one broker: at least a record in each partition, spread evenly over them and over 40 minutes."""
    per_batch = min(RECORDS_PER_BATCH, max(records // partitions, 1))
    count = max(records // partitions // per_batch, 1)
    starts_ms = range(START_MS, START_MS + SPREAD_MS, SPREAD_MS // count)
    batches = [make_batch(make_records(per_batch, start_ms=start_ms, key=key)) for start_ms in starts_ms][:count]
    for number in range(partitions):
        path = folder / f"logs/orders-{number}" / f"{0:020d}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_segment(path, batches, count)
        write_index(path)
    (folder / "logs/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    leaders = [f"\tTopic: orders\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1" for number in range(partitions)]
    described = [f"Topic: orders\tPartitionCount: {partitions}\tReplicationFactor: 1\tConfigs:", *leaders]
    (folder / "topics.txt").write_text("\n".join(described) + "\n")
    start_ms = START_MS - START_MS % HOUR_MS
    sources = [
        {"kind": "log_directories", "paths": [str(folder / "logs")]},
        {"kind": "topics_describe", "path": str(folder / "topics.txt")},
    ]
    cluster = {"as_of": format_instant(start_ms + HOUR_MS), "sources": sources}
    document = {"warehouse": "warehouse", "outbox": "outbox", "window": "PT1H", "clusters": {"bench": cluster}}
    return Input(document=document, span=TimeWindow(start_ms, start_ms + HOUR_MS))


def take_turns(versions, rounds, action):
    """The cheapest of some rounds, for each version."""
    found = [[action(version) for version in versions] for _ in range(rounds)]
    return [min(costs, key=lambda cost: cost.cpu_s) for costs in zip(*found, strict=True)]


def measure_commands(versions, folder, rounds):
    """Name, costs of the versions, most CPU-s and seconds as parts of the earlier version's, most CPU-s."""
    window = read_capture(folder / "capture", 5, 6)
    log = read_log(folder / "replay", PARTITIONS, REPLAYED_RECORDS, key=None)
    logs = log.document["clusters"]["bench"]["sources"][0]["paths"][0]
    for name, action, bars in (
        ("`run`, one window", lambda version: version.run(window), {"cpu": 1 / 4, "wall": 1 / 3, "memory": 2 << 30}),
        ("`sql`, three rows", Version.sql, {"cpu": 1 / 3}),
        ("`doctor`", Version.doctor, {"cpu_s": 5.0}),
        (f"`replay`, {REPLAYED_RECORDS:,} records", lambda version: version.replay(logs), {"cpu": 1 / 4}),
        ("`make run`, warm", Version.make_run, {"cpu": 1 / 4, "memory": 2 << 30}),
        (
            "`make run ARGS=--no-spark`, warm",
            lambda version: version.make_run("--no-spark"),
            {"cpu": 1 / 4, "memory": 2 << 30},
        ),
    ):
        yield name, take_turns(versions, rounds, action), bars


def measure_dags(versions, folder):
    """By input: what each DAG of each version costs; printed as it is measured, as all of it takes an hour."""
    inputs = {
        "window": read_capture(folder / "capture", 5, 6),
        "windows": read_capture(folder / "capture", 0, WINDOWS),
        "few": read_log(folder / "few", PARTITIONS, 0),
        "partitions": read_log(folder / "partitions", PARTITIONS + MORE_PARTITIONS, 0),
        "records": read_log(folder / "records", PARTITIONS, MORE_RECORDS),
    }
    costs = {}
    for name, found in inputs.items():
        costs[name] = [version.run_dags(found) for version in versions]
        sums = [sum(cost.cpu_s for cost in dags.values()) for dags in costs[name]]
        print("{}: {:.1f} CPU-s -> {:.1f}".format(name, *sums), file=sys.stderr, flush=True)
    return costs


def print_commands(found):
    """A table of commands: both versions, the ratio, the bar, and whether it is met."""
    print("| command | CPU-s | seconds | peak MiB | bars |\n|---|---|---|---|---|")
    for name, (before, after), bars in found:
        ratios = {
            "cpu": after.cpu_s / before.cpu_s,
            "wall": after.wall_s / before.wall_s,
            "cpu_s": after.cpu_s,
            "memory": after.memory_bytes,
        }
        told = [
            f"{LABELS[bar]} {ratios[bar] / SCALES[bar]:.2f} of {most / SCALES[bar]:.2f}: {'met' if ratios[bar] <= most else 'MISSED'}"
            for bar, most in bars.items()
        ]
        print(
            f"| {name} | {before.cpu_s:.1f} -> {after.cpu_s:.1f} | {before.wall_s:.1f} -> {after.wall_s:.1f} ", end=""
        )
        print(f"| {before.memory_bytes >> 20} -> {after.memory_bytes >> 20} | {'; '.join(told)} |", flush=True)


def print_dags(found):
    """A table of DAGs in CPU-s: a window with all that it costs to start, and what more of everything adds."""
    print("\n| DAG, CPU-s | first window | each further | 1,000 more topic-partitions | a million more records |")
    print("|---|---|---|---|---|")
    for dag in (*DAGS, "all"):
        dags = DAGS if dag == "all" else (dag,)
        cells = []
        for more, less, count in (
            ("window", None, 1),
            ("windows", "window", WINDOWS - 1),
            ("partitions", "few", 1),
            ("records", "few", 1),
        ):
            costs = [
                (sum(of[name].cpu_s for name in dags) - (sum(base[name].cpu_s for name in dags) if less else 0)) / count
                for of, base in zip(found[more], found[less or more], strict=True)
            ]
            cells.append("{:.2f} -> {:.2f}".format(*costs))
        print(f"| {dag} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="of each command (2); DAGs run once")
    parser.add_argument("--only", choices=("commands", "dags"), help="one of the two tables")
    arguments = parser.parse_args()
    baseline = variable("BASELINE")
    if baseline is None:
        print("costs: skipped; BASELINE names no checkout of an earlier version")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions = [Version(Path(baseline).resolve(), folder / "before"), Version(ROOT, folder / "after")]
        if arguments.only != "dags":
            print_commands(measure_commands(versions, folder, arguments.rounds))
        if arguments.only != "commands":
            print_dags(measure_dags(versions, folder))


if __name__ == "__main__":
    main()
