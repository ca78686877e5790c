"""Program: ingests with Spark's executors in processes of their own; prints which executor scanned which segments.

`python -m tests.integration.ingest_on_cluster CONFIG START/DURATION`
"""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.engine import count_task_slots
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.cluster_reading import read_cluster
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.record_scan import plan_segment_tasks
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.stages import run_values
from pipeline.storage.session import create_session, stop_session
from tests.lab.process import FRUGAL

BOTH_EXECUTORS = {
    "spark.cores.max": "2",  # without it the next two mean nothing
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
}
"""No task starts before both executors, of one core each, are there."""
FOR_A_MINUTE = " ".join((*FRUGAL, "-XX:ReservedCodeCacheSize=256m"))
"""Options of JVMs that live for a minute; the first compiler alone reserves 48 MB for code, which a job fills."""
SEGMENT = ["topic", "partition", "segment_base_offset"]


def name_executor(task):
    """In a Python worker: its parent is the daemon that one executor keeps."""
    for piece in task.run():
        if piece.kind is Kind.BATCHES and piece.rows.num_rows:
            for segment in {"-".join(map(str, row.values())) for row in piece.rows.select(SEGMENT).to_pylist()}:
                yield os.getppid(), segment


def main():
    config = load_config(Path(sys.argv[1]))
    (run,) = plan_runs(config, TimeWindow.parse(sys.argv[2]), run_id="cluster", now_ms=1)
    config_of_spark = Spark(master="local-cluster[2,1,1024]", driver_memory="1g")
    brief = {f"spark.{side}.extraJavaOptions": FOR_A_MINUTE for side in ("driver", "executor")}
    spark = create_session(config_of_spark, app_name="cluster", extra_conf=BOTH_EXECUTORS | brief)
    ingest.run(spark, run)
    question = ClusterQuestion(name="c", topics=run.cluster.topics, windows=run.windows, as_of_ms=run.as_of_ms)
    reading = read_cluster(run.cluster, question)
    reads = plan_reads(choose_replicas(reading.tree, {}, run.cluster.topics))
    settings = ScanSettings(as_of_ms=run.as_of_ms, span=run.span, window_ms=run.window_ms)
    tasks = plan_segment_tasks(reads, settings, LeaderEpochs({}, {}), count_task_slots(spark))
    segments = defaultdict(set)
    for executor, segment in run_values(spark, tasks, name_executor):
        segments[executor].add(segment)
    storage = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    tasks = {
        storage.apply(i).id(): storage.apply(i).completedTasks()
        for i in range(storage.size())
        if storage.apply(i).id() != "driver"
    }
    stop_session(spark)
    json.dump({"segments": [sorted(held) for held in segments.values()], "tasks": tasks}, sys.stdout)


if __name__ == "__main__":
    main()
