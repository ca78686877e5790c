"""``python -m tests.lab.capture``: twelve minutes of real traffic into the archive that tests and ``make run`` read.

Three brokers behind a proxy; in minutes 4 to 7 (counted from 0) broker 1 answers Produce requests 20 ms late.
"""

import argparse
import json
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.lab import traffic
from tests.lab.archive import COMMITTED, pack
from tests.lab.clients import start_producers, start_readers, wait_for_outcomes
from tests.lab.cluster import Cluster, start_cluster
from tests.lab.facts import is_whole, measure_share_ratios, read_capture
from tests.lab.manifest import describe
from tests.lab.node_settings import CONTROLLER_ID
from tests.lab.process import LabError, free_ports
from tests.lab.proxy import start_proxy
from tests.lab.recording import METADATA, WINDOW_MS, Recording, read_clock_ms, say, sleep_until
from tests.lab.scraper import Target, scraping

PREPARATION_MS = 25_000  # time for the producers' JVMs to compile and connect before the first window


def main() -> None:
    """Make a capture, pack it, and print the shares of its minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=12)
    parser.add_argument("--slow", type=int, nargs=2, default=(4, 8), metavar=("FROM", "TO"), help="end excluded")
    parser.add_argument("--output", type=Path, default=COMMITTED)
    parser.add_argument("--keep", type=Path, help="work in this folder and keep everything")
    arguments = parser.parse_args()
    root = arguments.keep or Path(tempfile.mkdtemp(prefix="partition-health-capture-"))
    root.mkdir(parents=True, exist_ok=True)
    try:
        folder = record(root, arguments.minutes, tuple(arguments.slow))
        say(f"packing {folder}")
        pack(folder, arguments.output)
        print_summary(folder)
        say(f"{arguments.output}: {arguments.output.stat().st_size / 1e6:.1f} MB")
    finally:
        if arguments.keep is None:
            shutil.rmtree(root)


def record(root: Path, minutes: int, slow_minutes: tuple[int, int]) -> Path:
    """Run brokers and clients, then lay out ``root/capture``; returns that folder."""
    advertised = free_ports(3)
    broker_ports = free_ports(3)
    pairs = list(zip(advertised, broker_ports, strict=True))
    settings = {"log.segment.bytes": str(traffic.SEGMENT_BYTES)}
    with ExitStack() as stack:
        proxy = stack.enter_context(start_proxy(pairs, root / "output/proxy.log"))
        running = start_cluster(
            root, 3, settings=settings, client_ports=broker_ports, advertised_ports=advertised, with_exporter=True
        )
        recording = Recording(root, minutes, slow_minutes, stack.enter_context(running))
        create_topics(recording.cluster)
        recording.start_ms = -(-(read_clock_ms() + PREPARATION_MS) // WINDOW_MS) * WINDOW_MS
        slow_from, slow_to = (recording.at_minute(minute) for minute in slow_minutes)
        proxy.slow(traffic.SLOW_BROKER, slow_from, slow_to, traffic.SLOW_MS)
        stack.callback(lambda: [process.stop() for process in recording.processes])
        start_producers(recording)
        watch(recording)
        acked = wait_for_outcomes(recording)
        ask(recording, "topics-describe", "kafka-topics", "--describe")
        ask(recording, "log-dirs-describe", "kafka-log-dirs", "--describe")
        copy_metadata(recording)
    lay_out(recording)
    (recording.folder / "manifest.json").write_text(json.dumps(describe(recording, acked), indent=1) + "\n")
    return recording.folder


def create_topics(cluster: Cluster) -> None:
    """All topics in one request, replicas placed as declared."""
    admin = AdminClient({"bootstrap.servers": cluster.internal_bootstrap})
    topics = [
        NewTopic(topic.name, num_partitions=len(topic.placement), replica_assignment=[list(p) for p in topic.placement])
        for topic in traffic.TOPICS
    ]
    for created in admin.create_topics(topics).values():
        created.result(30)


def watch(recording: Recording) -> None:
    """Scrape exporters and ask about the group while the traffic runs, until the last window ends."""
    producers = list(recording.targets)
    brokers = [
        Target(broker.exporter_port, recording.folder / f"scrapes/brokers/{broker.node_id}", interval_s=60)
        for broker in recording.cluster.brokers
        if broker.exporter_port is not None
    ]
    recording.targets += brokers
    for target in brokers:
        target.fetch()  # the first page costs seconds; not while the traffic runs
    wait_s = recording.start_ms / 1000 - time.time()
    say(f"traffic from {recording.start_ms} to {recording.end_ms}, {wait_s:.0f} s from now")
    start_ms, end_ms = recording.start_ms, recording.end_ms
    with scraping(producers, start_ms + 2500, end_ms), scraping(brokers, start_ms, end_ms):
        sleep_until(recording.start_ms + 500)
        readers = start_readers(recording)
        recording.processes.append(readers)
        for minute in (0.6, recording.minutes / 2 + 0.5, recording.minutes - 0.3):
            sleep_until(recording.at_minute(minute))
            ask_groups(recording)
        sleep_until(recording.end_ms - 1500)
        # Ended without a farewell: a leaving member would make the coordinator write after the last window.
        readers.stop()
        sleep_until(recording.end_ms)
    for target in brokers:
        target.scrape()


def ask_groups(recording: Recording) -> None:
    """The groups as Kafka's tool shows them at this moment: offsets and state."""
    at_ms = read_clock_ms()
    ask(recording, f"consumer-groups-describe-{at_ms}", "kafka-consumer-groups", "--describe", "--all-groups")
    ask(recording, f"consumer-groups-state-{at_ms}", "kafka-consumer-groups", "--describe", "--all-groups", "--state")


def ask(recording: Recording, file_name: str, tool: str, *arguments: str) -> None:
    """Keep what one of Kafka's tools prints."""
    at_ms = read_clock_ms()
    folder = recording.folder / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{file_name}.txt").write_text(recording.cluster.run_tool(tool, *arguments))
    recording.tools.append({"file": f"tools/{file_name}.txt", "at_ms": at_ms, "command": [tool, *arguments]})


def copy_metadata(recording: Recording) -> None:
    """Set every ``__cluster_metadata`` aside while the cluster is whole: stopping brokers adds their farewells to it."""
    directories = [broker.log_directory for broker in recording.cluster.brokers]
    for directory in (*directories, recording.cluster.controller_directory):
        copy = recording.root / "metadata" / directory.name
        for _ in range(10):
            shutil.copytree(directory / METADATA, copy, dirs_exist_ok=True)
            if all(is_whole(log) for log in copy.glob("*.log")):
                break
        else:
            raise LabError(f"{directory}: the metadata log ends in a torn batch in ten copies")
    recording.recorded_until_ms = read_clock_ms()


def lay_out(recording: Recording) -> None:
    """Move the stopped nodes' directories into place, each with the metadata log of the whole cluster."""
    places = {broker.log_directory: f"brokers/{broker.node_id}" for broker in recording.cluster.brokers}
    places[recording.cluster.controller_directory] = f"controllers/{CONTROLLER_ID}"
    for directory, place in places.items():
        target = recording.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        directory.rename(target)
        shutil.rmtree(target / METADATA)
        shutil.move(recording.root / "metadata" / directory.name, target / METADATA)


def print_summary(folder: Path) -> None:
    """Share ratios per minute, and how many records and batches each topic has."""
    facts = read_capture(folder)
    for title, topics in (("all topics", None), *((load.topic, [load.topic]) for load in traffic.PERF_LOADS)):
        print(f"share of fair share per minute, brokers 0 1 2, {title}")
        for minute, ratios in measure_share_ratios(facts, topics).items():
            print(f"  {minute:3d}  " + "  ".join(f"{ratio:5.3f}" for ratio in ratios.values()))
    for topic in dict.fromkeys(topic for topic, _, _ in facts):
        own = [fact for (name, _, _), fact in facts.items() if name == topic]
        print(f"{topic}: {sum(f.record_count for f in own)} records in {sum(f.batch_count for f in own)} batches")


if __name__ == "__main__":
    main()
