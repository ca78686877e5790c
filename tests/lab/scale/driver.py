"""Program: ingest, replay and health with executors of a standalone cluster; prints a JSON line for each.

`python -m tests.lab.scale.driver MASTER EXECUTORS EVENTS CONFIG…`: of several configurations the last one is measured, those
before warm up.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.model.window import HOUR_MS
from pipeline.runs import plan_runs
from pipeline.steps import STEPS
from pipeline.storage.session import create_session, stop_session
from tests.integration.standalone_cluster import CONF
from tests.lab.bench.processes import list_descendants
from tests.lab.scale.traffic import WINDOW

DRIVER_MEMORY = "1g"


def main():
    master, executors, events, *configs = sys.argv[1:]
    conf = CONF | {
        "spark.cores.max": executors,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(events).as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    spark = create_session(Spark(master=master, driver_memory=DRIVER_MEMORY), app_name="scale", extra_conf=conf)
    for config in configs:
        loaded = load_config(Path(config))
        (run,) = plan_runs(loaded, WINDOW, run_id="scale", now_ms=WINDOW.end_ms + HOUR_MS)
        for step in STEPS:
            python, *others = list_descendants(os.getpid())
            for process in (python, *others):
                with suppress(OSError):
                    Path(f"/proc/{process}/clear_refs").write_text("5")  # the peak begins anew
            started_ms = time.time_ns() // 1_000_000
            step(spark, run)
            done = {"step": step.__name__, "start_ms": started_ms, "end_ms": time.time_ns() // 1_000_000}
            done |= {"python_bytes": read_peak(python), "jvm_bytes": sum(map(read_peak, others))}
            if config == configs[-1]:
                print(json.dumps(done), flush=True)
    stop_session(spark)


def read_peak(process):
    """The most memory that a process held since its peak was reset, bytes."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)


if __name__ == "__main__":
    main()
