"""Measuring and gating 100,000 partitions over 24 windows: the jobs and gates as they run, on tables made for it.

1,000 topics of 100 partitions on 30 brokers, three replicas each: 2.4 million partition loads, 7.2 million replicas. The
session is started before and warmed by one window. Linear in both numbers: fewer windows are scaled up in what is printed.
"""

import math
import tempfile
import time
from pathlib import Path

import yaml
from pyspark.sql import functions as F

from expectations.gates import check_health
from pipeline.config_file import load_config
from pipeline.jobs import judge_health, measure_rules, recommend, score_health
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.storage.session import running_session
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.lab.bench.figures import make_parser, print_figures

TOPICS, PARTITIONS, BROKER_COUNT, REPLICAS, WINDOWS = 1_000, 100, 30, 3, 24
HOUR_MS = 3_600_000
START_MS = 1_795_251_600_000
CLUSTER = "large"


def write_config(folder):
    path = folder / "partition-health.yaml"
    source = {"kind": "log_directories", "paths": [str(folder)]}
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "window": "PT1H",
        "keys": {"secret": "secret"},
        "clusters": {CLUSTER: {"sources": [source], "freshness": "PT100H"}},
    }
    path.write_text(yaml.safe_dump(document))
    return load_config(path)


def windows_of(spark):
    start = F.timestamp_millis(F.lit(START_MS) + F.col("window") * HOUR_MS)
    return spark.range(WINDOWS).select(F.col("id").alias("window")).withColumn("window_start", start)


def partitions_of(spark):
    """Every partition, its topic and its leader; the draw behind its load hangs on its number alone."""
    number = F.col("id")
    return spark.range(TOPICS * PARTITIONS).select(
        F.format_string("topic-%04d", (number / PARTITIONS).cast("int")).alias("topic"),
        F.lit("").alias("topic_id"),
        (number % PARTITIONS).alias("partition"),
        (number % BROKER_COUNT).alias("leader_id"),
    )


def append(spark, frame, config, table):
    filled = frame.withColumn("cluster", F.lit(CLUSTER))
    for column in table.columns:
        if column.name not in filled.columns and not column.nullable and column.name != "window_date":
            kind = column.type
            value = F.lit("" if kind == "string" else 0).cast("string" if kind == "string" else kind)
            filled = filled.withColumn(column.name, value)
    filled = filled.withColumn("window_date", F.to_date("window_start")).withColumn("run_id", F.lit("bench"))
    known = {column.name: F.col(column.name) for column in table.columns if column.name in filled.columns}
    columns = [known.get(c.name, F.lit(None)).cast(c.type).alias(c.name) for c in table.columns]
    fitted = filled.select(*columns)
    fitted.write.format("delta").mode("append").save(str(table_path(config.warehouse, table)))


def fill(spark, config):
    every = partitions_of(spark).crossJoin(windows_of(spark))
    # A hundred batches for each partition scatter by a tenth: sums of four uniform draws, nearly normal.
    draws = [
        F.pmod(F.xxhash64("topic", "partition", "window", F.lit(draw)), F.lit(1_000)) / 1_000 - 0.5 for draw in range(4)
    ]
    noise = 100_000 * math.sqrt(12 / len(draws)) * sum(draws, F.lit(0.0))
    traffic = (
        every.withColumn("leader_epoch", F.lit(0).cast("bigint"))
        .withColumn("size_bytes", (1_000_000 + noise).cast("bigint"))
        .withColumn("record_count", F.lit(2_000).cast("bigint"))
        .withColumn("batch_count", F.lit(100).cast("bigint"))
        .withColumn("batch_bytes_squared", F.lit(1e10))
    )
    append(spark, traffic, config, PARTITION_TRAFFIC)
    replicas = every.crossJoin(spark.range(REPLICAS).select(F.col("id").alias("replica_position")))
    state = (
        replicas.withColumn("replica_id", F.pmod(F.col("leader_id") + F.col("replica_position"), F.lit(BROKER_COUNT)))
        .withColumn("is_leader", F.col("replica_position") == 0)
        .withColumn("is_preferred_leader", F.col("replica_position") == 0)
        .withColumn("is_in_sync", F.lit(True))
        .withColumn("size_bytes", F.lit(50_000_000).cast("bigint"))
        .withColumn("configs", F.create_map(F.lit("min.insync.replicas"), F.lit("2")))
        .withColumn("state_source", F.lit("cluster_metadata"))
    )
    append(spark, state, config, CLUSTER_STATE)
    brokers = windows_of(spark).crossJoin(spark.range(BROKER_COUNT).select(F.col("id").alias("broker_id")))
    append(spark, brokers, config, BROKERS)
    now = F.timestamp_millis(F.lit(START_MS + WINDOWS * HOUR_MS))
    status = (
        windows_of(spark)
        .withColumn("window_end", F.timestamp_millis(F.lit(START_MS) + (F.col("window") + 1) * HOUR_MS))
        .withColumn("source", F.lit("log_directories"))
        .withColumn("arrived_count", F.lit(1).cast("bigint"))
        .withColumn("newest_at", now)
        .withColumn("as_of", now)
        .withColumn("source_expired", F.lit(False))
        .withColumn("is_trusted", F.lit(True))
    )
    append(spark, status, config, WINDOW_STATUS)


def judge(spark, config, windows):
    """Seconds of each step."""
    (run,) = plan_runs(
        config, TimeWindow(windows[0].start_ms, windows[-1].end_ms), run_id="bench", now_ms=windows[-1].end_ms
    )
    times = {}
    for name, step in (
        ("measure", lambda: score_health.run(spark, run, windows)),
        ("rules", lambda: measure_rules.run(run, windows)),
        ("recommend", lambda: recommend.run(run, windows)),
        ("gate", lambda: check_health(run, judge_health.run(run, windows))),
    ):
        started = time.perf_counter()
        found = step()
        times[name] = time.perf_counter() - started
    return times, found


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder))
        ensure_tables(config.warehouse)
        windows = [TimeWindow(START_MS + n * HOUR_MS, START_MS + (n + 1) * HOUR_MS) for n in range(WINDOWS)]
        with running_session(config.spark) as spark:
            fill(spark, config)
            cold, _ = judge(spark, config, tuple(windows[:1]))
            times, report = judge(spark, config, tuple(windows))
    figures = {
        "partitions": TOPICS * PARTITIONS,
        "windows": WINDOWS,
        "cold_first_window_s": sum(cold.values()),
        **{f"{name}_s": seconds for name, seconds in times.items()},
        "total_s": sum(times.values()),
        "verdicts": len(report.verdicts),
    }
    print_figures([("health", figures)], as_json=make_parser(__doc__).parse_args().json)


if __name__ == "__main__":
    main()
