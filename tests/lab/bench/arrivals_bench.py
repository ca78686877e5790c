"""Recorded arrivals, from segments on disk to `silver.arrivals`: `python -m tests.lab.bench.arrivals_bench`.

Ten million records of about 100 bytes, 100,000 distinct keys, eight partitions, one producer at 8,000 records a second, one
gibibyte in all. Timed is the whole job, `ingest`, with arrivals and without them: the difference is what they cost, and the
ratio how much longer an ingest takes for them. Told besides: bytes per record on disk, and the most memory that one of
Spark's Python workers took.
"""

import random
import re
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import google_crc32c
import pyarrow as pa
import yaml
from deltalake import DeltaTable

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.storage.rows import load_rows
from pipeline.storage.session import create_session, stop_session
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.silver import ARRIVALS
from tests.batches import START_MS, make_batch, make_records
from tests.lab.artifacts import cache_directory
from tests.lab.bench.figures import make_parser, print_figures

PARTITIONS = 8
DISTINCT_KEYS = 100_000
RECORDS_PER_BATCH = 160
BATCHES = 7_813
BATCHES_MADE = 800
HOUR_MS = 3_600_000


def make_segments(folder):
    """Segments whose records' times rise; made where missing."""
    rng = random.Random(5)

    def build():
        records = make_records(RECORDS_PER_BATCH)
        for record in records:
            yield replace(
                record, key=b"user-%011d" % rng.randrange(DISTINCT_KEYS), value=rng.randbytes(rng.randint(40, 90))
            )

    for partition in range(PARTITIONS):
        path = folder / f"bench-{partition}" / f"{0:020d}.log"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            made = [make_batch(list(build()), producer_id=7, producer_epoch=0) for _ in range(BATCHES_MADE)]
            partial = path.with_suffix(".partial")
            write_in_time(partial, made)
            partial.rename(path)
        path.read_bytes()  # both runs find it in the page cache
    return folder


def write_in_time(path, batches):
    """Writes batches in turn, again and again, with rising offsets and times."""
    with path.open("wb", buffering=8 << 20) as file:
        for number in range(BATCHES):
            batch = bytearray(batches[number % len(batches)])
            first = number * RECORDS_PER_BATCH
            batch[:8] = first.to_bytes(8, "big")
            batch[27:35] = (START_MS + first).to_bytes(8, "big")
            batch[35:43] = (START_MS + first + RECORDS_PER_BATCH - 1).to_bytes(8, "big")
            batch[17:21] = google_crc32c.value(bytes(batch[21:])).to_bytes(4, "big")
            file.write(batch)


def plan_ingest(folder, logs, *, arrivals):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "partition-health.yaml"
    cluster = {"sources": [{"kind": "log_directories", "paths": [str(logs)]}]}
    document = {"warehouse": "warehouse", "outbox": "outbox", "clusters": {"bench": cluster}}
    path.write_text(yaml.safe_dump(document | {"replay": {"arrivals": arrivals}}))
    start_ms = START_MS - START_MS % HOUR_MS
    span = TimeWindow(start_ms, start_ms + HOUR_MS)
    (run,) = plan_runs(load_config(path), span, run_id="bench", now_ms=span.end_ms + HOUR_MS)
    return run


def time_ingest(spark, folder, logs, *, arrivals, rounds):
    """Seconds of the first run of the job in the session, and of the best of those after; each replaces the window."""
    run = plan_ingest(folder / str(arrivals), logs, arrivals=arrivals)
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        ingest.run(spark, run)
        times.append(time.perf_counter() - started)
    return times[0], min(times[1:]), run.warehouse


def measure_workers():
    """The most memory that one of this user's PySpark workers took so far, MiB."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        except OSError:  # ended since
            continue
        if b"spark_daemon" in command and found:
            most = max(most, int(found[1]))
    return most / 1024


def measure(directory, *, quick):
    logs = make_segments(directory / "logs")
    folder = Path(tempfile.mkdtemp(dir=directory))
    spark = create_session(Spark())
    try:
        rounds = 1 if quick else 2
        cold_s, with_s, warehouse = time_ingest(spark, folder, logs, arrivals=True, rounds=rounds)
        memory = measure_workers()
        _, without_s, _ = time_ingest(spark, folder, logs, arrivals=False, rounds=rounds)
        rows = load_rows(warehouse, ARRIVALS)
        record_count = sum(rows["record_count"].to_pylist())
        assert record_count == PARTITIONS * BATCHES * RECORDS_PER_BATCH, record_count
        size_bytes = measure_table(warehouse)
    finally:
        stop_session(spark)
        shutil.rmtree(folder)
    return {
        "million_records": record_count / 1e6,
        "cold_ingest_s": cold_s,
        "ingest_s": with_s,
        "ingest_without_arrivals_s": without_s,
        "arrivals_million_records_per_s": record_count / (with_s - without_s) / 1e6,
        "bytes_per_record": size_bytes / record_count,
        "worker_memory_mib": memory,
        "ratio": with_s / without_s,
    }


def measure_table(warehouse):
    """Bytes of the files of the table's newest version."""
    actions = DeltaTable(table_path(warehouse, ARRIVALS)).get_add_actions(flatten=True)
    return sum(pa.table(actions)["size_bytes"].to_pylist())


def main():
    arguments = make_parser(__doc__, quick="one round").parse_args()
    figures = measure(cache_directory().parent / "bench-arrivals", quick=arguments.quick)
    print_figures([("arrivals", figures)], as_json=arguments.json)


if __name__ == "__main__":
    main()
