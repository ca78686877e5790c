"""What the boxes of phases in Airflow's grid cost a window, in this checkout and one from before there were any, which `BASELINE` names.

First the scheduling alone, by `grid_scheduling`. Then, unless `--scheduling` is given, two windows under a real scheduler, on Sail:
CPU-s of the scheduler with its tasks, and of the API server, from the start of the backfill to the end of the last run of `health`;
the DAG processor, which reads files again and again, is left out.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import psutil
import yaml

from dags.serve import answers, serve_settings
from tests.dags.airflow_process import AIRFLOW, ROOT, AirflowHome
from tests.lab.bench.costs_input import read_capture
from tests.lab.process import free_ports

ROUNDS = 2
WINDOWS = 2
RUNS = "SELECT state FROM dag_run WHERE dag_id LIKE '%_health' AND state IN ('success', 'failed')"


def main() -> None:
    checkouts = [Path(os.environ["BASELINE"])] if "BASELINE" in os.environ else []
    for checkout in (*checkouts, ROOT):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(Path(__file__).with_name("grid_scheduling.py")), folder]
            variables = {**os.environ, "PYTHONPATH": str(checkout)}
            done = subprocess.run(command, cwd=checkout, env=variables, check=True, stdout=subprocess.PIPE, text=True)
        print(f"{checkout}: CPU-s a window: scheduling alone {done.stdout.splitlines()[-1]}", flush=True)
    for _ in range(0 if "--scheduling" in sys.argv else ROUNDS):
        for checkout in (*checkouts, ROOT):
            with tempfile.TemporaryDirectory() as folder:
                found = measure(checkout, Path(folder))
            said = ", ".join(f"{name} {cpu_s / WINDOWS:.1f}" for name, cpu_s in found.items())
            print(f"{checkout}: CPU-s a window: {said}", flush=True)


def measure(checkout, folder):
    """CPU-s of scheduler and API server."""
    read = read_capture(folder, 5, 5 + WINDOWS).with_spark(engine="sail")
    config = read.write_config(folder / "run")
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"replay": {"seeds": 2}}))
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = serve_settings("127.0.0.1", port, url) | {
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for this bench only: " + "x" * 44,
        "AIRFLOW__CORE__DAGS_FOLDER": str(checkout / "dags"),
        "PYTHONPATH": str(checkout),
    }
    (folder / "airflow").mkdir()
    home = AirflowHome(folder / "airflow", config, settings)
    home.run([AIRFLOW, "db", "migrate"])
    first, last = (instant(start_ms) for start_ms in (read.span.start_ms, read.span.end_ms - 60_000))
    span = ("--from-date", first, "--to-date", last, "--max-active-runs", "1")
    with home.service("api-server") as server, home.service("dag-processor"), ExitStack() as later:
        wait_until(lambda: answers(url))
        wait_until(lambda: len(ask(home, "SELECT dag_id FROM serialized_dag")) == 4)
        scheduler = later.enter_context(home.service("scheduler", "--skip-serve-logs"))
        before_s = sum_cpu_s(server)
        home.run([AIRFLOW, "backfill", "create", "--dag-id", "partition_health_ingest", *span])
        wait_until(lambda: len(ask(home, RUNS)) == WINDOWS)
        return {"scheduler and tasks": sum_cpu_s(scheduler), "API server": sum_cpu_s(server) - before_s}


def instant(ms):
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def wait_until(condition, timeout_s=3600):
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(condition)
        time.sleep(0.5)


def ask(home, sql):
    with closing(sqlite3.connect(f"file:{home.folder}/airflow.db?mode=ro", uri=True, timeout=60)) as database:
        return database.execute(sql).fetchall()


def sum_cpu_s(process):
    """Of a process, those below it, and those of them that ended."""
    top = psutil.Process(process.pid)
    return sum(sum(one.cpu_times()[:4]) for one in (top, *top.children(recursive=True)))


if __name__ == "__main__":
    main()
