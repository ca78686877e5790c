"""Requests to an object store by job, as an S3 server logs them, and what they make of 1, 10 and 100 TB a day."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import pairwise

from pipeline.model.window import HOUR_MS
from pipeline.steps import STEPS as JOBS
from tests.integration.object_store import ObjectStore
from tests.integration.standalone_cluster import ROOT, standalone_cluster
from tests.lab.bench.scan_bench import write_index
from tests.lab.scale.measures import measure_logs, write_config
from tests.lab.scale.paper import GIGA, STEPS, TERA, WINDOWS_A_DAY, make_table
from tests.lab.scale.traffic import WINDOW, copy_log, link_units

KINDS = ("GET", "PUT", "POST", "HEAD", "LIST", "DELETE")
"""POST begins and ends an upload in several parts."""
LOG = "of the Delta log"
DAY_WORD = "window"
DAY = (1, 2, 6, 12)
"""Windows of a day whose requests are counted: every hour leaves files and commits, until `maintenance` compacts the date."""
_LINE = re.compile(r"\| vgw \| \d+ \| [^|]*\| [^|]*\| (\w+) +\| (/\S*) \| [^|]*\|(.*)")


def read_requests(text):
    """Counts of requests by kind, and of those among them for Delta's logs.

    >>> lines = ["07:00:00 | vgw | 200 | 1ms | 127.0.0.1 | GET | /tables/a/_delta_log/0.json | - | ",
    ...          "07:00:00 | vgw | 200 | 1ms | 127.0.0.1 | GET | /tables | - | list-type=2&prefix=a%2F_delta_log"]
    >>> read_requests("\\n".join(lines))
    Counter({'GET': 1, 'LIST': 1, 'GET of the Delta log': 1, 'LIST of the Delta log': 1})
    """
    found = [match.groups() for match in map(_LINE.search, text.splitlines()) if match]
    kinds = ["LIST" if method == "GET" and "list-type" in query else method for method, _, query in found]
    logs = [f"{kind} {LOG}" for kind, (_, *where) in zip(kinds, found, strict=True) if "_delta_log" in "".join(where)]
    return Counter(kinds) + Counter(logs)


class RequestCounter:
    """A store, a Spark cluster and a configuration; counts what each job asks the store."""

    def __init__(self, folder, logs, store, cluster):
        self._store, self._cluster, name = store, cluster, folder.name
        self.log_bytes = measure_logs(logs)
        storage = store.storage.model_dump(mode="json")
        self._config = write_config(folder, logs, warehouse=f"s3a://tables/{name}", storage=storage)

    def count(self, step, *starts_ms):
        """Requests of a job in a process of its own, by kind; `all`: of the three jobs in one process."""
        before = self._store.read_log()
        command = [sys.executable, "-m", "tests.lab.scale.step_driver", self._cluster.address, self._config, step]
        command = [*map(str, [*command, *starts_ms])]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
        return read_requests(self._store.read_log()[len(before) :])

    def count_jobs(self, start_ms=WINDOW.start_ms):
        """By job, each in a process of its own, as Airflow's tasks are."""
        return {STEPS[job.__name__]: dict(self.count(job.__name__, start_ms)) for job in JOBS}


def make_day(folder, unit, hours):
    """Two partitions of each topic of a unit, once in every hour of a day."""
    for log in sorted(unit.glob("*/*-[01]/*.log")):
        target = folder / log.parent.parent.name / log.parent.name / log.name
        target.parent.mkdir(parents=True)
        copy_log(log, target, 1, [hour * HOUR_MS for hour in range(hours)])
        write_index(target)
        (target.parent.parent / "meta.properties").write_text((log.parents[1] / "meta.properties").read_text())


def count_requests(folder, cache, runs):
    """Requests by job of each of `runs`, a name and its units of traffic, and of some windows of a day; yields as they come."""
    store, cluster_folder = ObjectStore(folder), folder / "cluster"
    cluster_folder.mkdir()
    store.start()
    try:
        with standalone_cluster(cluster_folder) as cluster:
            for name, units in runs.items():
                logs = folder / "logs"
                link_units(logs, units)
                topics = {path.name.rpartition("-")[0] for path in logs.glob("*/*-*")}
                counter = RequestCounter(folder / name.replace(" ", "-"), logs, store, cluster)
                facts = {"log_bytes": counter.log_bytes, "topics": len(topics)}
                yield name, facts | {"jobs": counter.count_jobs()}
                shutil.rmtree(logs)
            make_day(folder / "day-logs", cache / "copies/000", DAY[-1])
            day = RequestCounter(folder / "day", folder / "day-logs", store, cluster)
            for before, number in pairwise((0, *DAY)):
                if between := [WINDOW.start_ms + hour * HOUR_MS for hour in range(before, number - 1)]:
                    day.count("all", *between)
                yield f"{DAY_WORD} {number}", {"jobs": day.count_jobs(WINDOW.start_ms + (number - 1) * HOUR_MS)}
    finally:
        store.kill()


def format_requests(found):
    """Tables: requests by job, what they make of larger traffic, and by window of a day."""
    runs = {name: one for name, one in found.items() if "log_bytes" in one}
    days = {name: one for name, one in found.items() if name not in runs}
    rows = []
    for job in STEPS.values():
        for name, one in runs.items():
            row = [job, name, f"{one['log_bytes'] / GIGA:.2f}", str(one["topics"])]
            counts = one["jobs"][job]
            row += [f"{counts.get(kind, 0):,}" for kind in KINDS]
            rows.append([*row, f"{_add_up(counts):,}", f"{_add_up(counts, f' {LOG}'):,}"])
    head = ["job", "traffic", "GB of log", "topics", *KINDS, "all", LOG]
    tables = [make_table(head, rows)]
    tables.append(
        _format_extrapolation(runs)
        if len(runs) > 1
        else "Larger traffic: **not measured**, so nothing is extrapolated."
    )
    if days:
        rows = [[job, *(f"{_add_up(one['jobs'][job]):,}" for one in days.values())] for job in STEPS.values()]
        tables.append(make_table(["all requests of", *(f"{name} of a day" for name in days)], rows))
    return "\n\n".join(tables) + "\n"


def _add_up(counts, suffix=""):
    return sum(counts.get(kind + suffix, 0) for kind in KINDS)


def _format_extrapolation(runs):
    """By kind, and by job, along the line through the last two runs."""
    (few_name, few), (many_name, many) = list(runs.items())[-2:]
    days = (1, 10, 100)
    sizes = [tb * TERA / WINDOWS_A_DAY for tb in days]
    parts = {kind: lambda one, kind=kind: sum(counts.get(kind, 0) for counts in one["jobs"].values()) for kind in KINDS}
    parts |= {f"all of {job}": lambda one, job=job: _add_up(one["jobs"][job]) for job in STEPS.values()}
    parts["all"] = lambda one: sum(map(_add_up, one["jobs"].values()))
    rows = []
    for name, count in parts.items():
        now = count(many)
        per_byte = (now - count(few)) / (many["log_bytes"] - few["log_bytes"])
        fixed = now - per_byte * many["log_bytes"]
        known = [f"{value:,.0f}" for value in (fixed, per_byte * GIGA, now)]
        rows.append([name, *known, *(f"{float(f'{fixed + per_byte * size:.3g}'):,.0f}" for size in sizes)])
    tb = many["log_bytes"] * WINDOWS_A_DAY / TERA
    head = [
        "requests per window",
        "whatever the traffic",
        "more per GB of log",
        f"{tb:.2f} TB a day ({many_name}), measured",
    ]
    head += [f"{tb} TB a day, extrapolated" for tb in days]
    said = f"Extrapolated by bytes, along the line through {few_name} and {many_name}; topics and partitions grow with bytes there."
    return f"{make_table(head, rows)}\n\n{said}"
