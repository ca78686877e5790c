"""Program: replays with executors of a standalone cluster; prints how many tasks each did.

`python -m tests.integration.replay_on_cluster MASTER CONFIG START/DURATION`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.jobs import replay
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.storage.session import create_session, stop_session

CONF = {
    "spark.executor.memory": "900m",
    "spark.executor.cores": "1",
    # none starts before both executors are there
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main():
    master, config, span = sys.argv[1:]
    (run,) = plan_runs(load_config(Path(config)), TimeWindow.parse(span), run_id="cluster", now_ms=1)
    spark = create_session(Spark(master=master, driver_memory="1g"), app_name="replay", extra_conf=CONF)
    replay.run(spark, run, run.windows)
    storage = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    executors = (storage.apply(number) for number in range(storage.size()))
    tasks = {one.id(): one.completedTasks() for one in executors if one.id() != "driver"}
    stop_session(spark)
    json.dump({"tasks": tasks}, sys.stdout)


if __name__ == "__main__":
    main()
