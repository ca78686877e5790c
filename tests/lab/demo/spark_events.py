"""What Spark did, from its event log: which query made which table, with how many tasks.

`python -m tests.lab.demo.spark_events FOLDER` prints it as a table of Markdown, as docs/evidence/performance.md has it.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_EXECUTION = "spark.sql.execution.id"


class Work(NamedTuple):
    """Queries of one description, and their tasks."""

    doing: str
    query_count: int
    task_count: int


def read_work(folder: Path) -> list[Work]:
    """Work of all applications whose event logs are below a folder, in the order it began.

    A query within another, as Delta's own, counts as part of that. A description is of `engine.describe_work`: cluster and
    windows, a colon, and what is done; work without one is left out.
    """
    roots: dict[int, int] = {}
    described: dict[int, str] = {}
    of_stage: dict[int, int] = {}
    queries: dict[str, set[int]] = defaultdict(set)
    tasks: dict[str, int] = defaultdict(int)
    for event in _read_events(folder):
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerSQLExecutionStart":
            own, root = event["executionId"], event.get("rootExecutionId")
            roots[own] = own if root is None else root
            described.setdefault(roots[own], event["description"])
        elif kind == "SparkListenerJobStart" and _EXECUTION in event.get("Properties", {}):
            execution = int(event["Properties"][_EXECUTION])
            of_stage.update(dict.fromkeys(event["Stage IDs"], roots.get(execution, execution)))
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in of_stage:
            root = of_stage[event["Stage ID"]]
            parts = described.get(root, "").removeprefix("Delta: ").split(": ")
            if len(parts) > 1:
                name = parts[1]
                queries[name].add(root)
                tasks[name] += 1
    return [Work(name, len(queries[name]), tasks[name]) for name in tasks]


def list_work(folder: Path) -> list[str]:
    """A line for each work below a folder; none where Spark wrote no event log."""
    return [f"{work.doing:<45} {work.query_count:>4} {work.task_count:>6}" for work in read_work(folder)]


def _read_events(folder: Path) -> Iterable[dict[str, Any]]:
    for log in sorted(path for path in folder.rglob("events_*") if path.is_file()):
        with log.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def main() -> None:
    """Prints the work below a folder."""
    print("| query | queries | tasks |\n|---|---|---|")
    for work in read_work(Path(sys.argv[1])):
        print(f"| {work.doing} | {work.query_count} | {work.task_count} |")


if __name__ == "__main__":
    main()
