"""Keyed ingest, from segments on disk to the tables of keys, against the way without it: `python -m tests.lab.bench.keyed_ingest_bench`.

Uncompressed records of 100 bytes with 100,000 distinct keys. Ours is the whole job, `ingest`, with keys and without them:
the difference is what keys cost, and both are told. The other way is what a team does today: `kafka-dump-log
--print-data-log`, its lines into Spark, a row UDF that hashes the key, a sum per key, a Delta table. Its rate is marginal
(many records less few), so that starting JVMs costs it nothing; ours is that of a session that is up.
"""

import os
import random
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import yaml
from pyspark.sql import functions as F

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.storage.session import create_session, stop_session
from tests.batches import START_MS, make_batch, make_records
from tests.lab.artifacts import BROKER, cache_directory, class_path, java_program
from tests.lab.bench.figures import make_parser, print_figures
from tests.lab.bench.scan_bench import DUMP_LOG, write_index, write_segment
from tests.oracles.hashes import murmur2

DISTINCT_KEYS = 100_000
RECORDS_PER_BATCH = 160
BATCHES = 6_400  # about a million records until they repeat
SEGMENTS = {"few": 1, "many": 8}
BATCHES_PER_SEGMENT = {"few": 3_000, "many": 31_250}
HOUR_MS = 3_600_000


def make_segments(folder):
    """A topic of eight partitions, five million records each, under hard links; and a small file for the other way."""
    rng = random.Random(5)

    def build():
        for _ in range(BATCHES):
            records = make_records(RECORDS_PER_BATCH, value=rng.randbytes(37).hex()[:73].encode())
            yield make_batch([replace(r, key=b"user-%011d" % rng.randrange(DISTINCT_KEYS)) for r in records])

    batches = None
    for kind, count in SEGMENTS.items():
        first = folder / kind / "bench-0" / f"{0:020d}.log"
        if not first.exists():
            batches = batches or list(build())
            first.parent.mkdir(parents=True, exist_ok=True)
            partial = first.with_suffix(".partial")
            write_segment(partial, batches, BATCHES_PER_SEGMENT[kind])
            partial.rename(first)
        index = first.with_suffix(".index")
        if not index.exists():
            write_index(first)
        for number in range(1, count):
            directory = folder / kind / f"bench-{number}"
            directory.mkdir(exist_ok=True)
            for file in (first, index):
                if not (directory / file.name).exists():
                    os.link(file, directory / file.name)
        first.read_bytes()  # both sides find it in the page cache
    return {kind: folder / kind for kind in SEGMENTS}


def plan_ingest(folder, logs, *, mode):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "partition-health.yaml"
    cluster = {"sources": [{"kind": "log_directories", "paths": [str(logs)]}]}
    document = {"warehouse": "warehouse", "outbox": "outbox", "clusters": {"bench": cluster}, "keys": {"mode": mode}}
    document["replay"] = {"arrivals": False}  # another table, from another scan of the records
    path.write_text(yaml.safe_dump(document))
    start_ms = START_MS - START_MS % HOUR_MS
    span = TimeWindow(start_ms, start_ms + HOUR_MS)
    (run,) = plan_runs(load_config(path), span, run_id="bench", now_ms=span.end_ms + HOUR_MS)
    return run


def time_ingest(spark, folder, logs, *, mode, rounds):
    """Seconds of the first run of the job in the session, and of the best of those after; each replaces the window."""
    run = plan_ingest(folder / mode, logs, mode=mode)
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        ingest.run(spark, run)
        times.append(time.perf_counter() - started)
    return times[0], min(times[1:])


def time_dump(spark, folder, log, record_count):
    """The other way: seconds for one segment."""
    command = [
        str(java_program()),
        "-Xmx1g",
        "-cp",
        class_path(BROKER),
        DUMP_LOG,
        "--print-data-log",
        "--files",
        str(log),
    ]
    text, table = folder / "dump.txt", folder / "dumped"
    shutil.rmtree(table, ignore_errors=True)
    started = time.perf_counter()
    with text.open("wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True)
    hash_key = F.udf(lambda key: murmur2(key.encode()), "bigint")
    keys = (
        spark.read.text(str(text))
        .where("value LIKE '%| offset:%'")
        .select(F.regexp_extract("value", " key: (.*?) payload:", 1).alias("key"))
    )
    hashed = keys.withColumn("hash", hash_key("key")).groupBy("key", "hash").count()
    hashed.write.format("delta").save(str(table))
    seconds = time.perf_counter() - started
    found = spark.read.format("delta").load(str(table)).agg(F.sum("count")).first()[0]
    assert found == record_count, f"{found} of {record_count} records"
    return seconds


def measure(directory, *, quick):
    logs = make_segments(directory)
    records = {kind: SEGMENTS[kind] * BATCHES_PER_SEGMENT[kind] * RECORDS_PER_BATCH for kind in SEGMENTS}
    folder = Path(tempfile.mkdtemp(dir=directory))
    spark = create_session(Spark())
    try:
        rounds = 1 if quick else 2
        cold_s, with_keys_s = time_ingest(spark, folder, logs["many"], mode="pseudonymous", rounds=rounds)
        _, without_s = time_ingest(spark, folder, logs["many"], mode="off", rounds=rounds)
        few = next(logs["few"].glob("*/*.log"))
        half = folder / "half" / few.name  # the tool takes the base offset from the name
        half.parent.mkdir()
        half.write_bytes(few.read_bytes()[: few.stat().st_size // 6])  # a batch is never cut: all are alike in size
        time_dump(spark, folder, half, records["few"] // 6)  # warms up
        other_s = time_dump(spark, folder, few, records["few"]) - time_dump(spark, folder, half, records["few"] // 6)
    finally:
        stop_session(spark)
        shutil.rmtree(folder)
    ours = records["many"] / (with_keys_s - without_s) / 1e6
    other = records["few"] * 5 / 6 / other_s / 1e6
    return {
        "million_records": records["many"] / 1e6,
        "cold_ingest_s": cold_s,
        "ingest_s": with_keys_s,
        "ingest_without_keys_s": without_s,
        "whole_ingest_million_records_per_s": records["many"] / with_keys_s / 1e6,
        "keyed_million_records_per_s": ours,
        "dump_log_million_records_per_s": other,
        "whole_ingest_ratio": records["many"] / with_keys_s / 1e6 / other,
        "ratio": ours / other,
    }


def main():
    arguments = make_parser(__doc__, quick="one round").parse_args()
    figures = measure(cache_directory().parent / "bench-keyed", quick=arguments.quick)
    print_figures([("keyed ingest", figures)], as_json=arguments.json)


if __name__ == "__main__":
    main()
