"""Producers of three kinds beside a Prometheus server, all watched: what metrics sources are tested against."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.lab.artifacts import class_path, client_artifacts, exporter_artifacts
from tests.lab.clients import PERF_TOOL, PRODUCERS, QUIET, exporter_agent
from tests.lab.cluster import Cluster, start_cluster
from tests.lab.node_folders import BROKER_RULES, CLIENT_RULES
from tests.lab.process import PATIENCE_S, Process, free_ports, start_java, start_program, wait_until, wait_until_ready
from tests.lab.prometheus import Job, Prometheus, start_prometheus
from tests.lab.scraper import Target, scraping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

WINDOW_MS = 50_000
QUIET_MS = 2_000
SENDING_MS = 20_000
RATE_PER_S = 400
RECORD_BYTES = 300
SCRAPE_S = 2
LEAD_MS = 2 * 1000 * SCRAPE_S
"""From the instant when all producers are ready to the window, at least."""
EXPORTED = (
    "kafka.server:type=BrokerTopicMetrics,*",
    "kafka.server:type=ReplicaManager,*",
    "kafka.server:type=KafkaRequestHandlerPool,*",
    "kafka.server:type=app-info,*",
    "kafka.network:type=RequestMetrics,request=Produce,*",
    "kafka.network:type=SocketServer,*",
    "kafka.log:type=Log,name=Size,*",
)
"""What is read of brokers; their whole page takes 3 s while its exporter is cold, and many more on a busy machine."""
BROKER_SCRAPE_S = 5
"""The edges are quiet for a counter: the window's first point was scraped before the first byte, its last one, 45 s after
the start and up to 5 s old, after the last byte, which is sent at 22 s or, where the machine is busy, many seconds later.
"""
PERF_CLIENTS = {"old-names": ("3.9.1", "0.20.0"), "new-names": ("3.9.1", "1.0.1")}
"""Topic by versions of client and exporter: 0.20.0 keeps `_total`, 1.0.1 drops it."""
RDKAFKA_TOPIC = "devices"


@dataclass
class Watched:
    """A window of traffic, over and done.

    Attributes:
        cluster: The brokers, still running.
        prometheus: The server, still running.
        folder: Where pages, statistics and outputs lie.
        start_ms: The window's start.
        producers: Processes, by topic.
    """

    cluster: Cluster
    prometheus: Prometheus
    folder: Path
    start_ms: int = 0
    producers: dict[str, Process] = field(default_factory=dict)

    @property
    def end_ms(self) -> int:
        """The window's end."""
        return self.start_ms + WINDOW_MS

    @property
    def pages(self) -> Path:
        """Producers' exporter pages, as the lab's own scraper kept them."""
        return self.folder / "pages"

    @property
    def statistics(self) -> Path:
        """librdkafka's statistics."""
        return self.folder / "statistics"

    def output(self, topic: str) -> Path:
        """What a producer printed."""
        return self.folder / "output" / f"{topic}.out"


@contextmanager
def watch_producers(
    folder: Path,
    web_config: Mapping[str, object] | None = None,
    login: tuple[str, str] | None = None,
    rules: tuple[Path, Path] | None = None,
) -> Iterator[Watched]:
    """One window with quiet edges, sent to three brokers by two Java producers and one of librdkafka.

    Args:
        folder: an empty folder.
        web_config: of the Prometheus server.
        login: user and password it asks for.
        rules: of the exporters of brokers and clients; by default the lab's, and of brokers what is read alone.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(
            start_cluster(
                folder / "kafka",
                3,
                with_exporter=True,
                exported=() if rules else EXPORTED,
                exporter_rules=rules[0] if rules else BROKER_RULES,
                is_brief=True,
            )
        )
        topics = (*PERF_CLIENTS, RDKAFKA_TOPIC)
        ports = dict(zip(PERF_CLIENTS, free_ports(len(PERF_CLIENTS)), strict=True))
        jobs = {
            "brokers": Job([broker.exporter_port for broker in cluster.brokers], BROKER_SCRAPE_S),
            "producers": Job([*ports.values()], SCRAPE_S),
        }
        prometheus = stack.enter_context(
            start_prometheus(folder / "prometheus", jobs, web_config=web_config, login=login)
        )
        for topic in topics:
            cluster.create_topic(topic, "0,1,2")
        _send_first(cluster, topics)
        watched = Watched(cluster, prometheus, folder)
        stack.callback(lambda: [process.stop() for process in watched.producers.values()])
        for topic, (client, exporter) in PERF_CLIENTS.items():
            agent = exporter_agent(ports[topic], exporter_artifacts(exporter), rules[1] if rules else CLIENT_RULES)
            watched.producers[topic] = _start_perf_tool(watched, topic, client, agent)
        watched.producers[RDKAFKA_TOPIC] = _start_rdkafka(watched)
        for process in watched.producers.values():
            wait_until_ready(process)
        # A counter that nobody scraped before the window has no known increase: its window would miss bytes.
        for topic in topics:
            series = f'group by (instance) ({{job="brokers",topic="{topic}"}})'
            wait_until(
                lambda query=series: len(prometheus.query(query)) == len(cluster.brokers), series, prometheus.process
            )
        prometheus.wait_until_scraped("brokers", len(cluster.brokers))
        prometheus.wait_until_scraped("producers", len(PERF_CLIENTS))
        ready_ms = time.time_ns() // 1_000_000 + LEAD_MS
        watched.start_ms = ready_ms + -ready_ms % WINDOW_MS
        from_ms = watched.start_ms + QUIET_MS
        for topic, process in watched.producers.items():
            process.send_line(f"{from_ms} {from_ms + SENDING_MS}" if topic == RDKAFKA_TOPIC else f"{from_ms}")
        targets = [Target(port, watched.pages / topic, SCRAPE_S) for topic, port in ports.items()]
        with scraping(targets, watched.start_ms - SCRAPE_S * 1000, watched.end_ms):
            for process in watched.producers.values():
                process.wait(PATIENCE_S)
        time.sleep(max(0.0, watched.end_ms / 1000 + SCRAPE_S - time.time()))
        yield watched


def _send_first(cluster: Cluster, topics: Iterable[str]) -> None:
    """A record to each partition, so that brokers count each topic before the window: a scrape that fails in it costs nothing."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for topic in topics:
        for broker in cluster.brokers:
            producer.produce(topic, b"first", partition=broker.node_id)
    assert producer.flush(PATIENCE_S) == 0


def _start_perf_tool(watched: Watched, topic: str, client: str, agent: str) -> Process:
    arguments = [
        agent, QUIET, "-cp", class_path(client_artifacts(client)),
        str(PRODUCERS / "StartAt.java"), "-", PERF_TOOL,
        "--topic", topic, "--num-records", str(RATE_PER_S * SENDING_MS // 1000), "--record-size", str(RECORD_BYTES),
        "--throughput", str(RATE_PER_S), "--print-metrics",
        "--producer-props", f"bootstrap.servers={watched.cluster.bootstrap}", f"client.id={topic}-producer",
    ]  # fmt: skip
    return start_java(topic, arguments, watched.output(topic), heap_mb=128, with_input=True)


def _start_rdkafka(watched: Watched) -> Process:
    command = [
        sys.executable, str(PRODUCERS / "librdkafka_load.py"), watched.cluster.bootstrap,
        "-", "-", str(RATE_PER_S / 4), str(watched.statistics / RDKAFKA_TOPIC),
    ]  # fmt: skip
    return start_program(RDKAFKA_TOPIC, command, watched.output(RDKAFKA_TOPIC), with_input=True)
