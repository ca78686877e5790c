"""Measures what a run, and each statement of the report, costs after 10 and after 1,000 hourly windows.

``python -m tests.lab.years [--hours N…] [--repeats N] [--folder FOLDER]``: writes the tables of `docs/evidence/reliability.md`.
"""

import argparse
import cProfile
import json
import pstats
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

from expectations import gates
from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts, ingest
from pipeline.model.window import HOUR_MS, TimeWindow, format_instant
from pipeline.report.answers import Asker, pivot_columns
from pipeline.steps import judge_windows, replay_windows
from tests.engines import sail
from tests.lab.archive import unpack_once
from tests.lab.years.history import History
from tests.paper_rows import with_rows
from tests.spark.capture_runs import CLUSTER, Capture, plan

ROOT = Path(__file__).parents[3]
PAPER = ROOT / "docs/evidence/reliability.md"
TOPICS = ("orders", "ledger")
SOURCES = ("log_directories", "consumer_groups", "producer_metrics")
CONFIG = "partition-health.yaml"
STEPS = {
    "ingest": ingest.run,
    "gate": gates.check_ingested,
    "replay": replay_windows,
    "health, incidents, report": judge_windows,
    "deliver": lambda _, run: deliver_alerts.run(run.config, None, now_ms=run.now_ms).check(),
}
STATEMENTS = sorted(path.name.removesuffix(".sql") for path in files("pipeline.report").joinpath("sql").iterdir())
HOURS = [10, 100, 1000]
HEAD = "| CPU time of | after 10 | after 100 | after 1,000 | growth from 10 | from 100 | bar: 10 % |\n|---|---|---|---|---|---|---|\n"
BAR = 0.10  # how much the cost may grow from the fewest hours to the most


def main() -> int:
    """Measures and writes; 0 where nothing grows beyond the bar."""
    parser = argparse.ArgumentParser(prog="make years", description=__doc__)
    parser.add_argument("--hours", type=int, nargs="+", default=HOURS, help="earlier windows")
    parser.add_argument("--repeats", type=int, default=5, help="the least of so many counts")
    parser.add_argument("--folder", type=Path, help="keep the warehouses here, and use those that are there")
    parser.add_argument("--profile", action="store_true", help="print where the time of the longest history goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="years-") as folder:
        bed = Bed((options.folder or Path(folder)).resolve())
        for hours in sorted(options.hours):
            bed.write_history(hours)
        if options.profile:
            bed.print_profile(max(options.hours))
            return 0
        costs = bed.measure(sorted(options.hours), options.repeats)
        files = {hours: bed.count_files(hours) for hours in sorted(options.hours)}
    rows = {name: format_row(name, found) for name, found in costs.items()} | {"files": format_files(files)}
    sys.stdout.write("".join(rows.values()))
    if options.hours == HOURS:
        PAPER.write_text(with_rows(PAPER.read_text(), HEAD, rows, rows))
    return int(any(grown(found, since=min(found)) > BAR for found in costs.values()))


def grown(found: dict[int, float], *, since: int) -> float:
    """By which part the cost after the most hours is above the one after so many."""
    return found[max(found)] / found[since] - 1


def format_row(name: str, found: dict[int, float]) -> str:
    """What a step or a statement costs, and whether it grows beyond the bar from the fewest hours on."""
    cells = [f"{1000 * cost:,.0f} ms" for _, cost in sorted(found.items())]
    cells += [f"{100 * grown(found, since=hours):+.0f} %" for hours in sorted(found)[:-1]]
    bar = "missed" if grown(found, since=min(found)) > BAR else "met"
    return f"| {name} | {' | '.join(cells)} | {bar} |\n"


def format_files(files: dict[int, int]) -> str:
    """How many files the warehouse has."""
    return f"| files | {' | '.join(f'{count:,}' for _, count in sorted(files.items()))} | | | |\n"


class Bed:
    """One real hour of two topics of the capture, and warehouses with hours before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        capture = unpack_once(ROOT / "tests/data/capture.tar.zst", ROOT / "build")
        clock = json.loads((capture / "manifest.json").read_text())["clock"]
        whole = Capture(capture, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
        start_ms = clock["start_ms"] // HOUR_MS * HOUR_MS
        self.hour = TimeWindow(start_ms, start_ms + HOUR_MS)
        part = folder / "capture"
        made = Capture(part, *(getattr(whole, name) for name in ("start_ms", "end_ms", "recorded_until_ms")))
        if not part.exists():
            made = whole.part(part, topics=TOPICS, scrapes=("producers/orders",))
        self._capture = made
        real = folder / "real"
        if not (real / "done").exists():
            shutil.rmtree(real, ignore_errors=True)
            self._configure(real)
            self.take_steps(real)
            (real / "done").touch()

    def _configure(self, folder: Path) -> None:
        self._capture.write_config(folder, topics=TOPICS, sources=SOURCES, gate={"k": 1, "n": 1}, window="PT1H")
        config = folder / CONFIG
        as_of = format_instant(self.hour.end_ms)
        config.write_text(config.read_text().replace(format_instant(self._capture.recorded_until_ms), as_of))

    def write_history(self, hours: int) -> None:
        """A warehouse with so many hours before the real one."""
        target = self.folder / f"after-{hours}"
        if (target / "done").exists():
            return
        shutil.rmtree(target, ignore_errors=True)
        self._configure(target)
        started_s = time.monotonic()
        History(self.folder / "real/warehouse", CLUSTER, self.hour.start_ms, hours).write(target / "warehouse")
        (target / "done").touch()
        sys.stdout.write(f"{hours} hours written in {time.monotonic() - started_s:.0f} s\n")
        sys.stdout.flush()

    def take_steps(self, folder: Path) -> dict[str, float]:
        """CPU seconds of each step of a run over the real hour."""
        costs = {}
        run = plan(load_config(folder / CONFIG), self.hour, now_ms=self.hour.end_ms + 300_000)
        spark = sail()
        for name, step in STEPS.items():
            before_s = time.process_time()
            step(spark, run)
            costs[name] = time.process_time() - before_s
        return costs

    def ask(self, folder: Path) -> dict[str, float]:
        """CPU seconds of each statement of the report."""
        costs = {}
        period = TimeWindow(self.hour.start_ms - 24 * HOUR_MS, self.hour.end_ms)
        asker = Asker(warehouse=folder / "warehouse", cluster=CLUSTER, period=period, window=self.hour)
        values = {"columns": pivot_columns((1, 2, 3), "1"), "broker": "1", "expected_share": "0.3"}
        for name in STATEMENTS:
            before_s = time.process_time()
            asker.ask(name, values)
            costs[f"report: {name.replace('_', ' ')}"] = time.process_time() - before_s
        return costs

    def restore(self, hours: int) -> Path:
        """A copy of a warehouse to run in: files are links, Delta never writes into one."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        subprocess.run(["cp", "-al", str(self.folder / f"after-{hours}"), str(work)], check=True)
        return work

    def measure(self, sizes: list[int], repeats: int) -> dict[str, dict[int, float]]:
        """The least CPU seconds of each step and statement by hours of history; the first round warms up."""
        costs: dict[str, dict[int, float]] = defaultdict(dict)
        for number in range(repeats + 1):
            for hours in sizes:
                work = self.restore(hours)
                steps = self.take_steps(work)
                for name, cost in (steps | {"a run": sum(steps.values())} | self.ask(work)).items():
                    if number:
                        costs[name][hours] = min(cost, costs[name].get(hours, cost))
                sys.stdout.write(f"round {number}, {hours} hours: {steps}\n")
                sys.stdout.flush()
        return dict(costs)

    def count_files(self, hours: int) -> int:
        """Files of a warehouse before the run."""
        return sum(path.is_file() for path in (self.folder / f"after-{hours}/warehouse").rglob("*"))

    def print_profile(self, hours: int) -> None:
        """Prints where the time of a run goes."""
        self.take_steps(self.restore(hours))
        work = self.restore(hours)
        profile = cProfile.Profile()
        profile.runcall(self.take_steps, work)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)


if __name__ == "__main__":
    sys.exit(main())
