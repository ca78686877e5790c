"""Spark's event log: its queries, and what its tasks cost."""

import json
from itertools import pairwise
from typing import NamedTuple


class TaskRun(NamedTuple):
    """One task that came to its end; instants in milliseconds of the epoch."""

    stage: int
    executor: str
    start_ms: int
    end_ms: int
    run_ms: int  # in the executor, Python's part included
    result_bytes: int  # what it sent to the driver
    shuffle_bytes: int  # what it wrote for other tasks


def read_tasks(path):
    """Tasks of a run, in the order of their ends."""
    tasks = []
    with path.open() as file:
        for line in file:
            event = json.loads(line) if '"SparkListenerTaskEnd"' in line[:60] else {}
            if metrics := event.get("Task Metrics"):
                info = event["Task Info"]
                shuffled = metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                moments = (info["Launch Time"], info["Finish Time"], metrics["Executor Run Time"])
                found = (event["Stage ID"], info["Executor ID"], *moments, metrics["Result Size"], shuffled)
                tasks.append(TaskRun(*found))
    return tasks


def list_queries(folder):
    """Descriptions of the queries in the event logs below a folder that are no part of another."""
    logs = [path for path in folder.rglob("events_*") if path.is_file()]
    events = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    started = [one for one in events if one["Event"].endswith("SparkListenerSQLExecutionStart")]
    return [one["description"] for one in started if one.get("rootExecutionId") in (None, one["executionId"])]


def measure_busy_s(tasks):
    """Seconds in which at least one task ran.

    >>> measure_busy_s([TaskRun(0, "1", 0, 2000, 0, 0, 0), TaskRun(0, "2", 1000, 3000, 0, 0, 0)])
    3.0
    """
    busy_ms = until_ms = 0
    for task in sorted(tasks, key=lambda task: task.start_ms):
        busy_ms += max(0, task.end_ms - max(until_ms, task.start_ms))
        until_ms = max(until_ms, task.end_ms)
    return busy_ms / 1000


def format_histogram(times_s, bounds_s):
    """Counts by upper bound in seconds, and above.

    >>> format_histogram([0.1, 0.7, 3], (0.5, 1, 2))
    '1, 1, 0, 1'
    """
    edges = [0.0, *bounds_s, float("inf")]
    counts = [sum(low <= one < high for one in times_s) for low, high in pairwise(edges)]
    return ", ".join(map(str, counts))
