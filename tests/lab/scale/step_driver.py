"""Program: one step over each of some windows on a standalone cluster, as an Airflow task takes it.

`python -m tests.lab.scale.step_driver MASTER CONFIG STEP FROM_MS…`: STEP is a step's name or `all`.
"""

import sys
from pathlib import Path

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.runs import plan_runs
from pipeline.steps import STEPS
from pipeline.storage.session import create_session, stop_session
from tests.integration.standalone_cluster import CONF
from tests.lab.scale.driver import DRIVER_MEMORY


def main():
    master, config, wanted, *starts_ms = sys.argv[1:]
    spark = create_session(Spark(master=master, driver_memory=DRIVER_MEMORY), app_name="requests", extra_conf=CONF)
    loaded = load_config(Path(config))
    for start_ms in map(int, starts_ms):
        window = TimeWindow(start_ms, start_ms + HOUR_MS)
        (run,) = plan_runs(loaded, window, run_id="requests", now_ms=window.end_ms + HOUR_MS)
        for step in STEPS:
            if wanted in {"all", step.__name__}:
                step(spark, run)
    stop_session(spark)


if __name__ == "__main__":
    main()
