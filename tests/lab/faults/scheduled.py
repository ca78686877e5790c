"""Ten windows of a minute as Airflow schedules them, while its scheduler is killed and its API server is slow.

Real brokers, a real producer and the clock: `make scheduled` takes a quarter of an hour and writes the table of
`docs/evidence/reliability.md`. Broker 1 leads the partition of three records in four, so that there is an incident whose mail
is due once.
"""

import argparse
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable

from dags.serve import AIRFLOW, answers, serve_settings
from pipeline.config_file import load_config
from pipeline.model.window import format_instant, milliseconds_of, parse_instant
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import ALERT_OUTBOX
from tests.dags.airflow_process import ROOT, AirflowHome
from tests.dags.conftest import FEW
from tests.lab.cluster import start_cluster
from tests.lab.process import free_ports
from tests.lab.relay import counting_relay
from tests.paper_rows import with_rows

PAPER = ROOT / "docs/evidence/reliability.md"
HEAD = (
    "| window | judged after its end | verdicts | judged again, with the same result | most tries of a task | meanwhile |\n"
    "|---|---|---|---|---|---|\n"
)
WINDOWS, MINUTE_MS, BROKERS = 10, 60_000, 2
KILLED_IN, DOWN_S = 3, 20
"""The window in which the scheduler dies, once a task runs, and how long nobody starts it again."""
SLOW_IN, ANSWER_S = (6, 7), 5.0
"""The windows in which the API server answers tasks late, and by how much."""
BOUND_S = 45 * 60
TASKS = "SELECT r.partition_key, t.state, t.try_number FROM task_instance t JOIN dag_run r USING (dag_id, run_id)"
OVER = {"success", "failed", "skipped", "upstream_failed"}
INSTANT = re.compile(r"'(\d{4}-\d\d-\d\dT[\d:.]+)Z?'")


@dataclass
class Judged:
    """What became of a window."""

    start_ms: int
    verdicts: tuple[str, ...]
    commits_ms: tuple[int, ...]
    results: frozenset[tuple]
    most_tries: int

    @property
    def is_right(self) -> bool:
        """Judged once, by the loads of its brokers, a row a broker."""
        judged = len(self.verdicts) == BROKERS and not {"incomplete", "stale"} & {*self.verdicts}
        return judged and len(self.results) == BROKERS and len(self.commits_ms) == 1


class Airflow:
    """Airflow's services on a home of their own; the API server is asked through a relay that can be slow."""

    def __init__(self, folder: Path, config: Path, stack: ExitStack) -> None:
        (port,) = free_ports(1)
        self.delay_s, self._stack = 0.0, stack
        relay, _ = stack.enter_context(counting_relay(port, answer_delay=lambda: self.delay_s))
        url = f"http://127.0.0.1:{port}"
        settings = serve_settings("127.0.0.1", port, url)
        settings["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"http://127.0.0.1:{relay}/execution/"
        self.home = AirflowHome(folder, config, settings)
        folder.mkdir()
        self.home.run([str(AIRFLOW), "db", "migrate"])
        self._start("api-server")
        while not answers(url):
            time.sleep(1)
        self._start("dag-processor")
        self.scheduler = self._start("scheduler", "--skip-serve-logs")

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        return self._stack.enter_context(self.home.service(*command))

    def query(self, sql: str) -> list[tuple]:
        """Rows of Airflow's database."""
        path = f"file:{self.home.folder}/airflow.db?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=30)) as database:
            return database.execute(sql).fetchall()

    def is_task_running(self) -> bool:
        """Whether a task is at work."""
        return any(state == "running" for _, state, _ in self.query(TASKS))

    def kill_scheduler(self) -> None:
        """Ends the scheduler alone, as the kernel does when memory is short, and starts another one later."""
        os.kill(self.scheduler.pid, signal.SIGKILL)
        self.scheduler.wait()
        time.sleep(DOWN_S)
        self.scheduler = self._start("scheduler", "--skip-serve-logs")


def main() -> int:
    """Lets the windows pass; 0 where each was judged once and no message was sent twice."""
    parser = argparse.ArgumentParser(prog="make scheduled", description=__doc__)
    parser.add_argument("--keep", type=Path, help="a new folder for logs and tables, which stays")
    parser.add_argument(
        "--lag", nargs="*", type=int, metavar="N", help="undisturbed, by window length and engine: see lag.py"
    )
    arguments = parser.parse_args()
    if arguments.lag is not None:
        from tests.lab.faults import lag  # noqa: PLC0415  (it takes its bed from here)

        return lag.run(arguments.lag)
    keep = arguments.keep
    with ExitStack() as stack:
        folder = (keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scheduled-")))).resolve()
        cluster = stack.enter_context(start_cluster(folder / "kafka", BROKERS, heap_mb=256))
        cluster.create_topic("orders", "0,1")
        stack.enter_context(producing(cluster.bootstrap))
        config = write_config(folder, cluster.bootstrap)
        airflow = Airflow(folder / "airflow", config, stack)
        first_ms = -(-read_clock_ms() // MINUTE_MS) * MINUTE_MS
        meanwhile = disturb(airflow, first_ms)
        judged = wait_for_windows(airflow, config, first_ms)
        attempts = {
            row["message_id"]: row["attempt_count"]
            for row in load_rows(load_config(config).warehouse, ALERT_OUTBOX).to_pylist()
        }
        states = Counter(airflow.query("SELECT dag_id, state FROM dag_run"))
    rows = {
        format_instant(window.start_ms): format_row(number, window, meanwhile.get(number, ""))
        for number, window in enumerate(judged, start=1)
    }
    PAPER.write_text(with_rows(PAPER.read_text(), HEAD, rows, ()))
    sys.stdout.write(f"{HEAD}{''.join(rows.values())}attempts by message: {attempts}\nruns: {dict(states)}\n")
    return int(not all(window.is_right for window in judged) or set(attempts.values()) != {1})


@contextmanager
def producing(bootstrap: str):
    """Fifty records a second until the block ends, three in four of them to broker 1."""
    over, producer = threading.Event(), Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def work() -> None:
        sent = 0
        while not over.wait(0.02):
            producer.produce("orders", bytes(300), partition=int(sent % 4 > 0))
            producer.poll(0)
            sent += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(30)


def write_config(folder: Path, bootstrap: str, settings: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """The least configuration of a live cluster, with windows of a minute and few candidates; `settings` of None go."""
    document = (
        FEW
        | {
            "warehouse": "warehouse",
            "outbox": "outbox",
            "window": "PT1M",
            "grace": "PT5S",
            "mail": {"to": ["kafka-platform@example.org"]},
            "clusters": {"lab": {"sources": [{"kind": "live_cluster", "bootstrap_servers": bootstrap}]}},
        }
        | settings
    )
    path = folder / "partition-health.yaml"
    path.write_text(yaml.safe_dump({name: value for name, value in document.items() if value is not None}))
    return path


def disturb(airflow: Airflow, first_ms: int) -> dict[int, str]:
    """Kills and slows down while the windows pass; what was done, by the window's number."""
    wait_for(first_ms, KILLED_IN - 1)
    while not airflow.is_task_running():
        time.sleep(0.2)
    killed_s = (read_clock_ms() - first_ms) / 1000 - 60 * (KILLED_IN - 1)
    airflow.kill_scheduler()
    wait_for(first_ms, SLOW_IN[0] - 1)
    airflow.delay_s = ANSWER_S
    wait_for(first_ms, SLOW_IN[1])
    airflow.delay_s = 0.0
    return {
        KILLED_IN: f"SIGKILL of the scheduler after {killed_s:.0f} s while a task runs, started again {DOWN_S} s later",
        **dict.fromkeys(SLOW_IN, f"the API server answers tasks {ANSWER_S:g} s late"),
    }


def wait_for_windows(airflow: Airflow, config: Path, first_ms: int) -> list[Judged]:
    """What became of the windows, once all of them are judged and no run is at work, or time is up."""
    warehouse, deadline_s = load_config(config).warehouse, time.monotonic() + BOUND_S
    wait_for(first_ms, WINDOWS)
    while True:
        judged = find_judged(airflow, warehouse, first_ms)
        keys = {format_instant(window.start_ms) for window in judged}
        at_work = {key for key, state, _ in airflow.query(TASKS) if state not in OVER} & keys
        if (all(window.commits_ms for window in judged) and not at_work) or time.monotonic() > deadline_s:
            return judged
        time.sleep(5)


def find_judged(airflow: Airflow, warehouse: Path, first_ms: int) -> list[Judged]:
    """Each window's verdicts, commits and tries so far."""
    if not DeltaTable.is_deltatable(str(table_path(warehouse, VERDICTS))):
        return [Judged(first_ms + n * MINUTE_MS, (), (), frozenset(), 0) for n in range(WINDOWS)]
    table = DeltaTable(table_path(warehouse, VERDICTS))
    spans = [
        (spans, entry["timestamp"], entry["version"])
        for entry in table.history()
        if (spans := spans_of(entry.get("operationParameters", {}).get("predicate", "")))
    ]
    versions = {}
    for _, _, version in sorted(spans, key=lambda span: span[2]):
        table.load_as_version(version)
        rows = [row for row in table.to_pyarrow_table().to_pylist() if row["rule"] == "broker_share"]
        versions[version] = [(milliseconds_of(row["window_start"]), row) for row in rows]
    rows = versions[max(versions)] if versions else []
    tries = [(key, count) for key, _, count in airflow.query(TASKS)]
    return [
        Judged(
            start_ms,
            tuple(
                row["verdict"] for at_ms, row in sorted(rows, key=lambda pair: pair[1]["subject"]) if at_ms == start_ms
            ),
            tuple(sorted(at_ms for found, at_ms, _ in spans if any(a <= start_ms < b for a, b in found))),
            frozenset(
                (row["subject"], row["value"], row["verdict"])
                for found in versions.values()
                for at_ms, row in found
                if at_ms == start_ms
            ),
            max((count for key, count in tries if key == format_instant(start_ms)), default=0),
        )
        for start_ms in range(first_ms, first_ms + WINDOWS * MINUTE_MS, MINUTE_MS)
    ]


def spans_of(predicate: str) -> list[tuple[int, int]]:
    """The windows that a commit replaced."""
    instants = [milliseconds_of(parse_instant(f"{text}Z")) for text in INSTANT.findall(predicate)]
    return list(zip(instants[::2], instants[1::2], strict=True))


def format_row(number: int, window: Judged, meanwhile: str) -> str:
    """A window's row of the table."""
    after = [f"{(at_ms - window.start_ms - MINUTE_MS) / 1000:.0f} s" for at_ms in window.commits_ms] or ["never"]
    again = {1: "no", 2: "once"}.get(len(after), f"{len(after) - 1} times")
    again = again if len(window.results) == len(window.verdicts) else f"{again}, AND NOT ALIKE"
    cells = (number, after[0], ", ".join(window.verdicts), again, window.most_tries or "taken up", meanwhile)
    return f"| {' | '.join(map(str, cells))} |\n"


def read_clock_ms() -> int:
    """Now."""
    return time.time_ns() // 1_000_000


def wait_for(first_ms: int, number: int) -> None:
    """Until so many windows are over."""
    with contextlib.suppress(ValueError):
        time.sleep((first_ms + number * MINUTE_MS - read_clock_ms()) / 1000)


if __name__ == "__main__":
    sys.exit(main())
