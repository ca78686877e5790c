"""`make run`: the DAGs by Airflow on the committed capture, one ranged run each, in one process.

One process pays once for the imports, the JVM and Airflow's execution API. `make run ARGS="--engine sail"` runs the same without
Java. Output of Airflow and Spark goes to `build/run/airflow.log`. Exits 0 also where the health gate failed: the demonstration is there to find the hot broker.
"""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import shlex
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import SMTP
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipeline.config.sections import AirflowNames
from pipeline.progress import Progress

if TYPE_CHECKING:
    from tests.lab.demo.recording import Demo

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "build/run"
DAGS = ("ingest", "replay", "health", "maintenance")
"""Without the configuration's prefix, which the demonstration leaves as it is."""
SQL = (
    "SELECT window_start, broker_id, round(share_ratio, 2) AS ratio FROM gold.broker_share ORDER BY ratio DESC LIMIT 9"
)
LOG_LINES_SHOWN = 40
REPORT_EVERY_S = 3


class Console:
    """The terminal, while everything else that writes to the process's outputs goes to a log file."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._started_s = time.monotonic()
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        with log.open("wb") as sink:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, kind: object, error: BaseException | None, frames: TracebackType | None) -> None:
        if error is not None:
            traceback.print_exception(error)  # into the log
            sys.stderr.flush()
            self.say(f"\n{type(error).__name__}: {error}")
            self.show_log_end()

    def say(self, *lines: str) -> None:
        """Prints lines."""
        self._out.writelines(line.rstrip() + "\n" for line in lines)

    @contextmanager
    def phase(self, name: str, count: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> Iterator[None]:
        """Prints what a block does, what it took, and when it ended."""
        started_s = time.monotonic()
        with Progress(self._out, every_s=REPORT_EVERY_S, report=lambda line: self.say(f"  {line}")).step(name, count):
            yield
        now_s = time.monotonic()
        self.say(f"  {name:<34} {now_s - started_s:6.1f} s   at {now_s - self._started_s:6.1f} s")

    def show_log_end(self) -> None:
        """Prints the last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        self.say(f"\nThe end of {self.log}:", *(f"  {line}" for line in lines))


def main() -> int:
    """Runs the DAGs and prints what they found; 0 unless something other than the health gate failed."""
    parser = argparse.ArgumentParser(prog="make run", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--engine",
        choices=("spark", "sail"),
        default="spark",
        help="what runs the pipeline: spark, or sail without Java",
    )
    engine = parser.parse_args().engine
    shutil.rmtree(FOLDER, ignore_errors=True)  # the recording never changes, so neither does a fresh warehouse
    with Console(FOLDER / "airflow.log") as console:
        return run_all(console, engine)


def run_all(console: Console, engine: str) -> int:
    """Runs all steps of `main`, with the outputs of everything else in the log."""
    console.say("Partition health on the committed capture, by Airflow")
    with console.phase("Python's modules loaded"):  # the first time they are compiled
        from dags.serve import use_airflow_home
        from tests.lab.demo.recording import prepare_demo
    with console.phase("capture unpacked"):
        demo = prepare_demo(FOLDER, engine=engine)
    use_airflow_home(ROOT / ".airflow", demo.config)
    with ThreadPoolExecutor(1) as other_core:
        starting = other_core.submit(start_engine)  # the JVM starts while Airflow is imported
        with console.phase("Airflow imported, database ready"):
            bag = load_dags()
        with console.phase("Spark ready"):
            starting.result()
    from pipeline.stages import count_tasks  # pyspark: that thread loads it first

    states: dict[str, dict[str, str]] = {}
    for name in DAGS:
        dag = bag.dags[AirflowNames().name(name)]
        with console.phase(f"DAG {name}", count_tasks):
            states[name] = run_dag(dag, demo)
    report(console, demo, states)
    if wrong := unexpected(states):
        console.say(f"\nFailed: {', '.join(wrong)}")
        console.show_log_end()
        return 1
    return 0


def start_engine() -> None:
    """Starts the session that the tasks then find running in their process."""
    from pipeline.config_file import load_config

    config = load_config().spark
    if config.engine == "sail":
        from pipeline.engine import CONNECT_MODE
        from pipeline.storage.engines import start_sail

        os.environ[CONNECT_MODE] = "1"
        start_sail()
    else:
        from pipeline.storage.session import create_session  # loads pyspark, in this thread

        create_session(config, app_name="demo")


def load_dags() -> Any:  # Airflow's DagBag
    """The DAGs of this checkout, in a database of the version installed."""
    from airflow.dag_processing.dagbag import DagBag  # reads the environment when imported
    from airflow.utils.db import upgradedb

    from dags.serve import DAGS_FOLDER

    upgradedb()  # 5 s when new, under one when not

    bag = DagBag(str(DAGS_FOLDER))
    if bag.import_errors:
        raise RuntimeError(f"DAG files do not load: {bag.import_errors}")
    return bag


def run_dag(dag: Any, demo: Demo) -> dict[str, str]:
    """One ranged run over all windows of the recording; the state of each task."""
    conf = {"window": str(demo.span)} if "window" in dag.params else None
    dag.deadline = None  # `test()` looks a deadline up under the id of its database row, which it does not have
    run = dag.test(logical_date=None, run_conf=conf)
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def unexpected(states: dict[str, dict[str, str]]) -> list[str]:
    """Tasks that did not succeed, and phases that failed; the health verdict may fail, when it was reached.

    A run of a range takes up no lost windows.
    """
    wrong = [
        f"{dag}.{task} ({state})"
        for dag, tasks in states.items()
        for task, state in tasks.items()
        if state != ("skipped" if task.endswith(".failed") or task == "take_up" else "success")
    ]
    return [text for text in wrong if text != "health.health_verdict (failed)"]


def report(console: Console, demo: Demo, states: dict[str, dict[str, str]]) -> None:
    """Tables with their rows, verdict, what the replay says, mails, a line of SQL to try."""
    from pipeline.config_file import load_config
    from pipeline.storage.tables_on_disk import count_rows
    from tests.lab.demo.replay_summary import describe_keys, describe_shares
    from tests.lab.demo.spark_events import list_work

    config = load_config()
    counts = [f"{name:<28} {count:>9,}" for name, count in count_rows(config.warehouse).items()]
    verdict = {
        "success": "no broker carries more than its share",
        "failed": "failed: a broker carries more than its share",
    }.get(states["health"].get("health_verdict", ""), "not reached")
    mails = [(path, message_from_bytes(path.read_bytes(), policy=SMTP)) for path in sorted(config.outbox.glob("*.eml"))]
    command = (
        f"PARTITION_HEALTH_CONFIG={demo.config.relative_to(ROOT)} .venv/bin/partition-health sql {shlex.quote(SQL)}"
    )
    for title, lines in (
        ("Tables and their rows", in_two_columns(counts)),
        (f"Health gate: {verdict}", []),
        (
            "Replay: the hash that placed the keys, and the keys that other clients would place elsewhere (last window)",
            describe_keys(config.warehouse),
        ),
        ("Replay: where records without a key would have gone", describe_shares(config.warehouse)),
        ("Spark: queries and tasks, by what they made", list_work(FOLDER)),
        (
            "Reports",
            [str(path.relative_to(ROOT)) for path in sorted(config.report_path("any", 0).parent.glob("*.html"))],
        ),
        ("Mails", [line for path, mail in mails for line in (mail["Subject"], f"  {path.relative_to(ROOT)}")]),
        ("Try", [command]),
    ):
        console.say("", title, *(f"  {line}" for line in lines))


def in_two_columns(lines: list[str]) -> list[str]:
    """Lines of one width, the second half to the right of the first."""
    half = -(-len(lines) // 2)
    return [f"{left}   {right}".rstrip() for left, right in zip_longest(lines[:half], lines[half:], fillvalue="")]


if __name__ == "__main__":
    code = 1

    @atexit.register  # before Airflow and Spark register theirs, so it runs after them
    def leave() -> None:
        """Ends the process at once: taking Airflow's modules apart takes 2 CPU-s."""
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    code = main()
