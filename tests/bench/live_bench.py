"""The live read against a consumer loop, and the Admin pass, on a real broker beside them: `python -m tests.bench.live_bench`.

Both sides read the same records from one broker on the same machine: the pipeline's ingest into the key tables (in a
session that runs already: the start of the JVM is not counted), and a loop over confluent-kafka's consumer that counts
keys in a dictionary and does nothing else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import MINUTE_MS, past_minutes

TOPIC = "bench"
PARTITIONS = 8
KEYS = 100_000
VALUE_BYTES = 200
ADMIN_TOPICS, ADMIN_PARTITIONS = 1_000, 10


def produce(bootstrap, count, start_ms, *, part, parts):
    """Fills one part of the partitions; all records lie in one minute."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    value = b"x" * VALUE_BYTES
    own = range(part, PARTITIONS, parts)
    for i in range(count):
        stamp = start_ms + i * MINUTE_MS // count
        while True:
            try:
                producer.produce(
                    TOPIC, value, key=b"key-%d" % (i * 7919 % KEYS), partition=own[i // 100 % len(own)], timestamp=stamp
                )
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def fill(cluster, count, start_ms, processes=2):
    """Produces the records with several processes side by side."""
    arguments = [
        sys.executable,
        "-m",
        "tests.bench.live_bench",
        "--produce",
        cluster.bootstrap,
        str(count // processes),
        str(start_ms),
    ]
    running = [subprocess.Popen([*arguments, str(part), str(processes)]) for part in range(processes)]
    if any(process.wait() for process in running):
        raise SystemExit("a producer failed")


def time_live_read(bootstrap, start_ms, folder, count):
    """Seconds for one ingest of the window, and records counted in the key table."""
    from pipeline.config import load_config  # noqa: PLC0415
    from pipeline.jobs import ingest  # noqa: PLC0415
    from pipeline.model.window import TimeWindow  # noqa: PLC0415
    from pipeline.runs import plan_runs  # noqa: PLC0415
    from pipeline.storage.rows import load_rows  # noqa: PLC0415
    from pipeline.storage.session import create_session, stop_session  # noqa: PLC0415
    from pipeline.tables.keys import KEY_TRAFFIC  # noqa: PLC0415

    path = folder / "partition-health.yaml"
    source = {"kind": "live_cluster", "bootstrap_servers": bootstrap, "internal_topics": False, "groups": False}
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "window": "PT1M",
        "keys": {"secret": "secret"},
        "clusters": {"live": {"sources": [source], "topics": [TOPIC]}},
    }
    path.write_text(yaml.safe_dump(document))
    config = load_config(path)
    (run,) = plan_runs(
        config, TimeWindow(start_ms, start_ms + MINUTE_MS), run_id="bench", now_ms=time.time_ns() // 1_000_000
    )
    spark = create_session(config.spark, app_name="bench")
    spark.range(1).count()
    began = time.perf_counter()
    ingest.run(spark, run)
    taken = time.perf_counter() - began
    rows = load_rows(config.warehouse, KEY_TRAFFIC, cluster="live")
    stop_session(spark)
    found = sum(rows["record_count"].to_pylist())
    if found != count:
        raise SystemExit(f"{found:,} records in the key table, {count:,} were sent")
    return taken


def time_consumer_loop(bootstrap, count):
    """Seconds of a loop over confluent-kafka that counts keys."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    keys, seen = Counter(), 0
    began = time.perf_counter()
    while seen < count:
        messages = consumer.consume(10_000, 1.0)
        for message in messages:
            keys[message.key()] += 1
        seen += len(messages)
    taken = time.perf_counter() - began
    consumer.close()
    return taken


def time_admin_pass(bootstrap):
    """Seconds of everything that is asked before records are read, and the partitions it was about."""
    from pipeline.live_source import LiveCluster  # noqa: PLC0415
    from pipeline.model.window import TimeWindow  # noqa: PLC0415
    from pipeline.sources.live.connection import connected  # noqa: PLC0415
    from pipeline.sources.live.plan import plan_fetches  # noqa: PLC0415
    from pipeline.sources.live.state import read_live_state  # noqa: PLC0415

    source = LiveCluster(kind="live_cluster", bootstrap_servers=bootstrap)
    now_ms = time.time_ns() // 1_000_000
    span = TimeWindow(now_ms - 2 * MINUTE_MS, now_ms - MINUTE_MS)
    with connected(source) as connection:
        began = time.perf_counter()
        state = read_live_state(connection)
        plan_fetches(connection, state, state.in_scope, span, lateness_ms=0, as_of_ms=now_ms)
        return time.perf_counter() - began, len(state.partitions)


def create_many_topics(bootstrap):
    """The topics of the Admin pass, a hundred at a time."""
    from kafka import KafkaAdminClient  # noqa: PLC0415

    with KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=120_000) as admin:
        for first in range(0, ADMIN_TOPICS, 100):
            placed = {"num_partitions": ADMIN_PARTITIONS, "replication_factor": 1}
            admin.create_topics({f"many-{n}": placed for n in range(first, first + 100)}, timeout_ms=120_000)


def main(count=10_000_000):
    """Runs all and prints the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with start_cluster(folder / "kafka", 1, heap_mb=1024) as cluster:
            cluster.create_topic(TOPIC, partitions=PARTITIONS)
            start_ms = past_minutes()
            fill(cluster, count, start_ms)
            live_s = time_live_read(cluster.bootstrap, start_ms, folder, count)
            loop_s = time_consumer_loop(cluster.bootstrap, count)
            sys.stdout.write(
                f"live read into key tables, {count:,} records of {VALUE_BYTES} B: {count / live_s / 1e6:.2f} M/s\n"
                f"confluent-kafka loop that counts keys: {count / loop_s / 1e6:.2f} M/s; ratio {loop_s / live_s:.1f}x\n"
            )
            create_many_topics(cluster.bootstrap)
            admin_s, partitions = time_admin_pass(cluster.bootstrap)
            sys.stdout.write(f"Admin pass over {partitions:,} partitions: {admin_s:.1f} s\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--produce", nargs=5, metavar=("BOOTSTRAP", "COUNT", "START_MS", "PART", "PARTS"))
    parser.add_argument("--records", type=int, default=10_000_000)
    arguments = parser.parse_args()
    if arguments.produce:
        at, records, first_ms, own_part, all_parts = arguments.produce
        produce(at, int(records), int(first_ms), part=int(own_part), parts=int(all_parts))
    else:
        main(arguments.records)
