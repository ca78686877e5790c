"""Program: ingests with Spark's executors in processes of their own; prints which executor scanned which segments.

`python -m tests.integration.ingest_on_cluster CONFIG START/DURATION`
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa

from pipeline.config.pipeline_config import Spark, load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.files.cluster_reading import read_cluster
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.records.frames import batch_frame, register_sources
from pipeline.storage.session import create_session, stop_session


def name_executor(batches):
    """In a Python worker: its parent is the daemon that one executor keeps."""
    for batch in batches:
        segments = sorted({"-".join(map(str, row.values())) for row in batch.to_pylist()})
        yield pa.RecordBatch.from_pydict({"segment": segments, "executor": [os.getppid()] * len(segments)})


def main():
    config = load_config(Path(sys.argv[1]))
    (run,) = plan_runs(config, TimeWindow.parse(sys.argv[2]), run_id="cluster", now_ms=1)
    spark = create_session(Spark(master="local-cluster[2,1,1024]", driver_memory="1g"), app_name="cluster")
    ingest.run(spark, run)
    register_sources(spark)
    reads = plan_reads(
        choose_replicas(
            read_cluster(run.cluster_name, run.cluster, run.windows, run.as_of_ms).tree, {}, run.cluster.topics
        )
    )
    scanned = batch_frame(spark, reads, run.as_of_ms, run.span).select("topic", "partition", "segment_base_offset")
    segments = defaultdict(set)
    for segment, executor in scanned.mapInArrow(name_executor, "segment string, executor bigint").collect():
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
