"""One measured run of ingest, replay and health on a cluster of its own, and its figures."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass

import yaml

from tests.integration.standalone_cluster import ROOT, standalone_cluster
from tests.lab.bench.processes import Watch, list_descendants, measure_pss, measure_ticks
from tests.lab.scale.event_log import TaskRun, measure_busy_s, read_tasks
from tests.lab.scale.traffic import link_units, measure_logs
from tests.spark.capture_runs import FEW_CANDIDATES, make_secret

CLUSTER = "scale"
SEEDS = 2


@dataclass(frozen=True)
class StepFigures:
    """What one step took; seconds, bytes."""

    wall_s: float
    busy_s: float  # while at least one task ran
    task_s: float  # of all tasks
    by_executor_s: dict[str, float]
    tasks: int
    longest_s: float
    driver_bytes: int  # what tasks sent to the driver
    shuffle_bytes: int
    python_bytes: int  # the driver's process at its peak
    jvm_bytes: int  # and its JVM
    executor_cpu_s: float  # of all executors' processes
    driver_cpu_s: float


@dataclass(frozen=True)
class Figures:
    """What a run took."""

    executors: int
    records: int
    log_bytes: int
    warehouse_bytes: dict[str, int]  # by table
    executor_bytes: int  # the largest executor at its peak, its Python workers included
    load: float  # of the machine in the minute before
    steps: dict[str, StepFigures]
    tasks: dict[str, list[tuple[int, float]]]  # by step, of each task its stage and seconds


class Processes(Watch):
    """What executors hold at most, and how much of the processors they and the driver took since the watch began.

    A process that ended keeps what it was last seen with.
    """

    interval_s = 0.5

    def __init__(self, workers, driver):
        self._workers, self._driver = workers, driver
        self._seen = {"executors": {}, "driver": {}}
        self._samples = []  # instant in ms, CPU-s by whose they are
        self.most_bytes = 0  # of the larger executor, its Python workers included

    def look(self):
        of_workers = [list_descendants(worker.pid)[1:] for worker in self._workers]
        self.most_bytes = max(self.most_bytes, *(sum(map(measure_pss, own)) for own in of_workers))
        now = {"executors": [pid for own in of_workers for pid in own], "driver": list_descendants(self._driver.pid)}
        for whose, pids in now.items():
            self._seen[whose] |= {pid: ticks for pid in pids if (ticks := measure_ticks(pid))}
        sums = {whose: sum(seen.values()) / os.sysconf("SC_CLK_TCK") for whose, seen in self._seen.items()}
        self._samples.append((time.time_ns() // 1_000_000, sums))

    def measure_cpu_s(self, whose, start_ms, end_ms):
        """CPU-s between two instants, to the nearest look."""
        first, last = (
            min(self._samples, key=lambda sample, at_ms=at_ms: abs(sample[0] - at_ms))[1][whose]
            for at_ms in (start_ms, end_ms)
        )
        return last - first


def write_config(folder, logs, **document):
    """A configuration with its warehouse in `folder`."""
    folder.mkdir(parents=True)
    make_secret(folder)
    sources = [{"kind": "log_directories", "paths": [str(path) for path in sorted(logs.iterdir())]}]
    known = {"warehouse": "warehouse", "outbox": "outbox", "candidates": FEW_CANDIDATES, "replay": {"seeds": SEEDS}}
    path = folder / "partition-health.yaml"
    path.write_text(yaml.safe_dump(known | {"clusters": {CLUSTER: {"sources": sources}}} | document))
    return path


def measure(folder, units, warm_up, *, executors, records, **document):
    """Runs the three steps over some units with so many executors, after a run over little traffic."""
    logs = folder / "logs"
    link_units(logs, units)
    configs = [write_config(folder / "warm-up", warm_up), write_config(folder / "measured", logs, **document)]
    events = folder / "events"
    events.mkdir()
    log_bytes, load = measure_logs(logs), os.getloadavg()[0]
    cluster_folder = folder / "cluster"
    cluster_folder.mkdir()
    with standalone_cluster(cluster_folder, worker_count=executors, is_bound=True) as cluster:
        command = [sys.executable, "-m", "tests.lab.scale.driver", cluster.address, str(executors), str(events)]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        command += map(str, configs)
        driver = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)
        with Processes(cluster.workers, driver) as processes:
            told, _ = driver.communicate()
        if driver.returncode:
            raise subprocess.CalledProcessError(driver.returncode, command)
    (event_log,) = events.iterdir()
    tasks, steps, times = read_tasks(event_log), {}, {}
    for line in told.splitlines():
        step = json.loads(line)
        own = [task for task in tasks if step["start_ms"] <= task.start_ms < step["end_ms"]]
        cpu_s = [processes.measure_cpu_s(whose, step["start_ms"], step["end_ms"]) for whose in ("executors", "driver")]
        steps[step["step"]] = sum_up(step, own, *cpu_s)
        times[step["step"]] = [(task.stage, task.run_ms / 1000) for task in own]
    return Figures(
        executors,
        records,
        log_bytes,
        measure_tables(folder / "measured/warehouse"),
        processes.most_bytes,
        load,
        steps,
        times,
    )


def sum_up(step: dict, tasks: list[TaskRun], executor_cpu_s: float, driver_cpu_s: float) -> StepFigures:
    """Sums of a step's tasks."""
    by_executor = Counter()
    for task in tasks:
        by_executor[task.executor] += task.run_ms / 1000
    return StepFigures(
        wall_s=(step["end_ms"] - step["start_ms"]) / 1000,
        busy_s=measure_busy_s(tasks),
        task_s=sum(by_executor.values()),
        by_executor_s=dict(by_executor),
        tasks=len(tasks),
        longest_s=max((task.run_ms for task in tasks), default=0) / 1000,
        driver_bytes=sum(task.result_bytes for task in tasks),
        shuffle_bytes=sum(task.shuffle_bytes for task in tasks),
        python_bytes=step["python_bytes"],
        jvm_bytes=step["jvm_bytes"],
        executor_cpu_s=executor_cpu_s,
        driver_cpu_s=driver_cpu_s,
    )


def measure_tables(warehouse):
    """Bytes on disk by table, logs of commits included."""
    sizes = Counter()
    for file in warehouse.rglob("*"):
        if file.is_file():
            sizes[".".join(file.relative_to(warehouse).parts[:2])] += file.stat().st_size
    return dict(sizes.most_common())


def to_json(found):
    """Figures by name as text."""
    return json.dumps({name: asdict(figures) for name, figures in found.items()}, indent=1)


def from_json(text):
    """What `to_json` wrote."""
    return {
        name: Figures(**one | {"steps": {step: StepFigures(**values) for step, values in one["steps"].items()}})
        for name, one in json.loads(text).items()
    }
