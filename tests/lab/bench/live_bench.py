"""The live read against a consumer loop, and the Admin pass, on a real broker beside them: `python -m tests.lab.bench.live_bench`.

Both sides read the same records from one broker on the same machine: the pipeline's ingest of the window into the key
tables, in a session that has ingested before, and a loop over confluent-kafka's consumer that counts keys in a
dictionary and does nothing else: as it comes, and with settings under which it never waits ("eager").
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live.connection import connect
from pipeline.sources.live.plan import plan_fetches
from pipeline.sources.live.state import read_live_state
from pipeline.storage.rows import load_rows
from pipeline.storage.session import create_session, stop_session
from pipeline.tables.keys import KEY_TRAFFIC
from tests.config_files import write_configuration
from tests.lab.bench.figures import make_parser, print_figures
from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import MINUTE_MS, past_minutes

TOPIC = "bench"
PARTITIONS = 8
KEYS = 100_000
VALUE_BYTES = 200
RECORDS = {True: 1_000_000, False: 10_000_000}
LOOPED = 2_000_000
"""A loop goes at one speed: it need not read them all."""
EAGER = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 10}
"""By default librdkafka pauses a partition for a second when it has fetched enough: most of the loop's time."""
ADMIN_TOPICS, ADMIN_PARTITIONS = 1_000, 10


def produce(bootstrap, count, start_ms, *, part, parts):
    """Sends every so many-th record; all lie in one minute."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 500_000,
            "partitioner": "murmur2_random",
        }
    )
    value = b"x" * VALUE_BYTES
    for i in range(part, count, parts):
        key = b"key-%d" % (i * 7919 % KEYS)
        while True:
            try:
                producer.produce(TOPIC, value, key=key, timestamp=start_ms + i * MINUTE_MS // count)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def fill(cluster, count, start_ms, processes=2):
    """Produces the records with several processes side by side."""
    arguments = [
        sys.executable,
        "-m",
        "tests.lab.bench.live_bench",
        "--produce",
        cluster.bootstrap,
        str(count),
        str(start_ms),
    ]
    running = [subprocess.Popen([*arguments, str(part), str(processes)]) for part in range(processes)]
    if any(process.wait() for process in running):
        raise SystemExit("a producer failed")


def time_live_read(bootstrap, start_ms, folder, count, *, rounds):
    """Seconds of the session's first ingest of the window, and of the best of those after; each replaces the window."""
    source = {"kind": "live_cluster", "bootstrap_servers": bootstrap, "internal_topics": False, "groups": False}
    settings = {"window": "PT1M", "keys": {"secret": "secret"}, "replay": {"arrivals": False}}  # the key tables only
    config = load_config(write_configuration(folder, {"live": {"sources": [source], "topics": [TOPIC]}}, **settings))
    span = TimeWindow(start_ms, start_ms + MINUTE_MS)
    (run,) = plan_runs(config, span, run_id="bench", now_ms=time.time_ns() // 1_000_000)
    spark = create_session(Spark(), app_name="bench")
    taken = []
    try:
        for _ in range(1 + rounds):
            began = time.perf_counter()
            ingest.run(spark, run)
            taken.append(time.perf_counter() - began)
    finally:
        stop_session(spark)
    found = sum(load_rows(config.warehouse, KEY_TRAFFIC, cluster="live")["record_count"].to_pylist())
    assert found == count, f"{found:,} records in the key table, {count:,} were sent"
    return taken[0], min(taken[1:])


def time_consumer_loop(bootstrap, count, settings):
    """Seconds of a loop over confluent-kafka that counts keys."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, **settings})
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
    source = LiveCluster(kind="live_cluster", bootstrap_servers=bootstrap)
    now_ms = time.time_ns() // 1_000_000
    span = TimeWindow(now_ms - 2 * MINUTE_MS, now_ms - MINUTE_MS)
    with connect(source) as connection:
        began = time.perf_counter()
        state = read_live_state(connection)
        plan_fetches(connection, state, state.in_scope, span, lateness_ms=0, as_of_ms=now_ms)
        return time.perf_counter() - began, len(state.partitions)


def create_many_topics(bootstrap):
    """The topics of the Admin pass, a hundred at a time; all of them have leaders that know their logs then."""
    with KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=120_000) as admin:
        for first in range(0, ADMIN_TOPICS, 100):
            placed = {"num_partitions": ADMIN_PARTITIONS, "replication_factor": 1}
            admin.create_topics({f"many-{n}": placed for n in range(first, first + 100)}, wait_for_metadata=False)
    with connect(LiveCluster(kind="live_cluster", bootstrap_servers=bootstrap)) as connection:
        while len(read_live_state(connection).high_watermarks) < ADMIN_TOPICS * ADMIN_PARTITIONS:
            time.sleep(1)  # leaders of new partitions are told one after the other


def measure(*, quick):
    """Figures of both sides, and of the Admin pass."""
    count = RECORDS[quick]
    with tempfile.TemporaryDirectory() as name, start_cluster(Path(name) / "kafka", 1, heap_mb=1024) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        start_ms = past_minutes()
        fill(cluster, count, start_ms)
        cold_s, live_s = time_live_read(cluster.bootstrap, start_ms, Path(name), count, rounds=1 if quick else 2)
        looped = min(count, LOOPED)
        loop_s, eager_s = (time_consumer_loop(cluster.bootstrap, looped, settings) for settings in ({}, EAGER))
        create_many_topics(cluster.bootstrap)
        admin_s, partition_count = time_admin_pass(cluster.bootstrap)
    return {
        "million_records": count / 1e6,
        "cold_live_read_million_records_per_s": count / cold_s / 1e6,
        "live_read_million_records_per_s": count / live_s / 1e6,
        "consumer_loop_million_records_per_s": looped / loop_s / 1e6,
        "ratio": (loop_s / looped) / (live_s / count),
        "eager_loop_million_records_per_s": looped / eager_s / 1e6,
        "eager_ratio": (eager_s / looped) / (live_s / count),
        "admin_pass_partitions": partition_count,
        "admin_pass_s": admin_s,
    }


def main():
    parser = make_parser(__doc__, quick="a tenth of the records, one round")
    parser.add_argument("--produce", nargs=5, metavar=("BOOTSTRAP", "COUNT", "START_MS", "PART", "PARTS"))
    arguments = parser.parse_args()
    if arguments.produce:  # a process of `fill`
        at, records, first_ms, own_part, all_parts = arguments.produce
        produce(at, int(records), int(first_ms), part=int(own_part), parts=int(all_parts))
        return
    print_figures([("live read", measure(quick=arguments.quick))], as_json=arguments.json)


if __name__ == "__main__":
    main()
