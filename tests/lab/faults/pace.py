"""What a window of a minute costs under Airflow: CPU-seconds by service, and how long each kind of task takes.

Real brokers, a real producer and the clock: `python -m tests.lab.faults.pace [WINDOWS]`, some minutes. Seconds of the clock
depend on what else the machine does, those of the processor hardly.
"""

import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import psutil

from pipeline.config_file import load_config
from tests.lab.cluster import start_cluster
from tests.lab.faults import scheduled
from tests.lab.faults.scheduled import BROKERS, MINUTE_MS, Airflow, producing, read_clock_ms, wait_for, write_config

DURATIONS = """
    SELECT t.dag_id || '.' || t.task_id, count(*), avg((julianday(t.end_date) - julianday(t.start_date)) * 86400)
    FROM task_instance t WHERE t.state IN ('success', 'failed') GROUP BY 1 ORDER BY 3 DESC"""


def main() -> int:
    """Lets the windows pass undisturbed, and prints what they cost."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    scheduled.WINDOWS = count
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pace-"))).resolve()
        cluster = stack.enter_context(start_cluster(folder / "kafka", BROKERS, heap_mb=256))
        cluster.create_topic("orders", "0,1")
        stack.enter_context(producing(cluster.bootstrap))
        config = write_config(folder, cluster.bootstrap)
        airflow = Airflow(folder / "airflow", config, stack)
        idle = measure(airflow)
        began_s = time.monotonic()
        first_ms = -(-read_clock_ms() // MINUTE_MS) * MINUTE_MS
        wait_for(first_ms, 1)
        resting, rested_s = minus(measure(airflow), idle), time.monotonic() - began_s
        before, since_s = measure(airflow), time.monotonic()
        judged = scheduled.wait_for_windows(airflow, config, first_ms)
        took_s, spent = time.monotonic() - since_s, minus(measure(airflow), before)
        print(f"load {psutil.getloadavg()}; engine {load_config(config).spark.engine}")
        print(f"before the first window, {rested_s:.0f} s: {format_spent(resting, rested_s)}")
        print(f"{count} windows, {took_s:.0f} s: {format_spent(spent, count)} CPU-s a window")
        for window in judged:
            after = [f"{(at_ms - window.start_ms - MINUTE_MS) / 1000:.0f} s" for at_ms in window.commits_ms]
            print("judged after its end:", ", ".join(after) or "never")
        for task, times, mean_s in airflow.query(DURATIONS):
            print(f"{task}: {times} times, {mean_s:.1f} s")
    return 0


def measure(airflow: Airflow) -> dict[str, float]:
    """CPU-seconds so far, by service; a service's are those of all processes below it, ended or not."""
    found: dict[str, float] = defaultdict(float)
    for process in psutil.process_iter():
        try:
            if Path(process.environ().get("AIRFLOW_HOME", "/")) != airflow.home.folder:
                continue
            times, words = process.cpu_times(), process.cmdline()
            name = next(
                (word for word in words if word in {"scheduler", "api-server", "dag-processor"}), "tasks at work"
            )
        except psutil.Error:
            continue
        found[name] += sum(times[:4])
    return found


def minus(later: dict[str, float], earlier: dict[str, float]) -> dict[str, float]:
    """What was spent between, by service."""
    return {name: later[name] - earlier.get(name, 0.0) for name in later}


def format_spent(spent: dict[str, float], of: float) -> str:
    """A figure for each service, and in all."""
    return ", ".join(
        [*(f"{name} {value / of:.2f}" for name, value in spent.items()), f"in all {sum(spent.values()) / of:.2f}"]
    )


if __name__ == "__main__":
    sys.exit(main())
