"""`make scheduled ARGS=--lag`: how long after a window's end Airflow has judged it, by window length and engine, undisturbed.

Two real brokers, a producer, Airflow with its defaults and `grace` as it comes. A length keeps pace where no window is judged
later than three windows after its end.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from pipeline.config_file import load_config
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.gold import VERDICTS
from tests.lab.bench.figures import write_between
from tests.lab.cluster import start_cluster
from tests.lab.faults.scheduled import PAPER, Airflow, producing, read_clock_ms, spans_of, write_config

MOST_WINDOWS = 3


class Setup(NamedTuple):
    """A window's length, in minutes, the engine, and how many windows are looked at."""

    minutes: int
    engine: str
    count: int

    @property
    def window_ms(self) -> int:
        """A window's length."""
        return self.minutes * 60_000


SETUPS = (Setup(1, "sail", 8), Setup(1, "spark", 8), Setup(2, "spark", 5), Setup(5, "spark", 3))


def measure(setup: Setup, folder: Path) -> list[float]:
    """Seconds from each window's end to its verdict; infinity for one that has none when time is up."""
    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(folder / "kafka", 2, heap_mb=256))
        cluster.create_topic("orders", "0,1")
        stack.enter_context(producing(cluster.bootstrap))
        engine = {"spark": {"engine": "sail"}} if setup.engine == "sail" else {}
        config = write_config(folder, cluster.bootstrap, {"window": f"PT{setup.minutes}M", "grace": None} | engine)
        Airflow(folder / "airflow", config, stack)
        first_ms = -(-read_clock_ms() // setup.window_ms) * setup.window_ms
        ends = [first_ms + number * setup.window_ms for number in range(1, setup.count + 1)]
        warehouse = load_config(config).warehouse
        while True:
            lags = [find_commit(warehouse, end - 1) - end / 1000 for end in ends]
            if max(lags) < float("inf") or read_clock_ms() > ends[-1] + 2 * MOST_WINDOWS * setup.window_ms:
                return lags
            time.sleep(2)


def find_commit(warehouse: Path, at_ms: int) -> float:
    """When the window that holds an instant was judged first, in seconds since 1970; infinity for never."""
    if not DeltaTable.is_deltatable(str(table_path(warehouse, VERDICTS))):
        return float("inf")
    entries = DeltaTable(table_path(warehouse, VERDICTS)).history()
    return min(
        (
            entry["timestamp"] / 1000
            for entry in entries
            for start, end in spans_of(entry.get("operationParameters", {}).get("predicate", ""))
            if start <= at_ms < end
        ),
        default=float("inf"),
    )


def run(numbers: list[int]) -> int:
    """Measures and writes the table; 1 where a setup does not keep pace."""
    lines = [
        "| window | engine | windows | judged after its end: first, middle, last | latest, in windows | keeps pace |",
        "|---|---|---|---|---|---|",
    ]
    behind = 0
    for setup in [SETUPS[number - 1] for number in numbers] or SETUPS:
        with tempfile.TemporaryDirectory(prefix="lag-") as named:
            lags = measure(setup, Path(named))
        shown = ", ".join(f"{lag:.0f} s" for lag in (lags[0], sorted(lags)[len(lags) // 2], lags[-1]))
        latest = max(lags) * 1000 / setup.window_ms
        behind += latest >= MOST_WINDOWS
        keeps = "yes" if latest < MOST_WINDOWS else "**no**"
        lines.append(f"| PT{setup.minutes}M | {setup.engine} | {setup.count} | {shown} | {latest:.1f} | {keeps} |")
        print(lines[-1], flush=True)
    write_between(PAPER, "--lag", "\n".join(lines), word="scheduled")
    return int(behind > 0)
