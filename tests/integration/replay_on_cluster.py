"""Program: ingests, replays and judges with executors of a standalone cluster; prints how many tasks each did.

`python -m tests.integration.replay_on_cluster MASTER CONFIG START/DURATION`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pipeline.cli.steps import STEPS
from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow
from pipeline.storage.session import create_session, stop_session
from tests.integration.ingest_on_cluster import BOTH_EXECUTORS
from tests.spark.capture_runs import plan

CONF = {
    "spark.executor.memory": "900m",
    "spark.executor.cores": "1",
    **BOTH_EXECUTORS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main():
    master, config, span = sys.argv[1:]
    run = plan(load_config(Path(config)), TimeWindow.parse(span))
    spark = create_session(Spark(master=master, driver_memory="1g"), app_name="replay", extra_conf=CONF)
    for step in STEPS:
        step(spark, run)
    storage = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    executors = (storage.apply(number) for number in range(storage.size()))
    tasks = {one.id(): one.completedTasks() for one in executors if one.id() != "driver"}
    stop_session(spark)
    json.dump({"tasks": tasks}, sys.stdout)


if __name__ == "__main__":
    main()
