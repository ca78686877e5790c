"""A stranger's cluster: three brokers behind slow links, Prometheus, producers that start anew with other settings."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.integration.live.runs import wait_until
from tests.lab.artifacts import BROKER, BROKER_VERSION, class_path, client_artifacts
from tests.lab.clients import PERF_TOOL, PRODUCERS, QUIET, exporter_agent
from tests.lab.cluster import Cluster, run_tool, start_cluster
from tests.lab.facts import read_partition
from tests.lab.live_traffic import MINUTE_MS
from tests.lab.measured_clients import EXPORTED
from tests.lab.process import Process, free_ports, start_java
from tests.lab.prometheus import Job, Prometheus, start_prometheus
from tests.lab.proxy import Proxy, start_proxy
from tests.lab.recording import read_clock_ms, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SCRAPE_S = 5
FAR_MS = 6 * 60 * MINUTE_MS  # no walk takes so long
TOPICS = {
    "orders": "0:1:2,1:2:0,2:0:1,0:2:1,1:0:2,2:1:0,0:1:2,1:2:0,2:0:1,0:2:1,1:0:2,2:1:0",
    "payments": "0:1:2,1:2:0,2:0:1,0:2:1,1:0:2,2:1:0",
    "events": "0:1:2,1:2:0,2:0:1,0:2:1,1:0:2,2:1:0",
}


@dataclass(frozen=True, slots=True)
class Load:
    """What one producer sends; `keys` as `KeyedLoad.java` reads them, "" for records without a key."""

    topic: str
    version: str
    rate_per_s: int
    value_bytes: int
    keys: str = ""
    heavy: float = 0.0  # part of the records that have the first key
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def client_id(self) -> str:
        """As metrics show it."""
        return f"{self.topic}-producer"


@dataclass
class Bed:
    """The cluster while it runs, and what its producers are."""

    cluster: Cluster
    proxy: Proxy
    prometheus: Prometheus
    folder: Path
    ports: Mapping[str, int]
    topics: Mapping[str, str]  # replicas of each partition, as `kafka-topics --replica-assignment` reads them
    loads: dict[str, Load] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    started: int = 0

    def start(self, *loads: Load, at_ms: int | None = None) -> None:
        """Starts producers, each in place of the one that wrote to its topic."""
        for load in loads:
            if load.topic in self.processes:
                self.processes[load.topic].stop()
            self.started += 1
            self.loads[load.topic] = load
            arguments = self._keyed(load, at_ms) if load.keys else self._keyless(load, at_ms)
            is_newest = load.version == BROKER_VERSION
            jars = class_path(BROKER if is_newest else client_artifacts(load.version))
            command = [exporter_agent(self.ports[load.topic]), QUIET, "-cp", jars, *arguments]
            output = self.folder / "output" / f"{load.topic}-{self.started}.log"
            self.processes[load.topic] = start_java(load.topic, command, output, heap_mb=128)

    def _keyed(self, load: Load, at_ms: int | None) -> list[str]:
        from_ms = read_clock_ms() if at_ms is None else at_ms
        own = {"topic": load.topic, "client.id": load.client_id, "keys": load.keys, "rate": load.rate_per_s}
        settings = own | {"bytes": load.value_bytes, "heavy": load.heavy} | dict(load.settings)
        stream = ";".join(f"{name}={value}" for name, value in settings.items())
        return [str(PRODUCERS / "KeyedLoad.java"), self.cluster.bootstrap, str(from_ms), str(from_ms + FAR_MS), stream]

    def _keyless(self, load: Load, at_ms: int | None) -> list[str]:
        settings = {"bootstrap.servers": self.cluster.bootstrap, "client.id": load.client_id} | dict(load.settings)
        return [
            str(PRODUCERS / "StartAt.java"), str(read_clock_ms() if at_ms is None else at_ms), PERF_TOOL,
            "--topic", load.topic, "--num-records", str(load.rate_per_s * FAR_MS // 1000),
            "--record-size", str(load.value_bytes), "--throughput", str(load.rate_per_s),
            "--producer-props", *(f"{name}={value}" for name, value in settings.items()),
        ]  # fmt: skip

    def change(self, topic: str, **changes: object) -> None:
        """Starts a topic's producer anew with something else."""
        self.start(replace(self.loads[topic], **changes))

    def slow(self, broker_id: int, delay_ms: float) -> None:
        """Has a broker answer Produce requests late from now on; 0 ends it."""
        now_ms = read_clock_ms()
        self.proxy.slow(broker_id, now_ms, now_ms + FAR_MS, delay_ms)

    def elect(self) -> None:
        """Has every partition led by its first replica."""
        self.cluster.run_tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")

    def reassign(self, folder: Path) -> None:
        """Carries out the files of a plan as the mail says."""
        tools, files = self.cluster.tools, folder / "reassignment.json"
        server = ("--bootstrap-server", self.cluster.internal_bootstrap)
        if files.exists():
            named = ("kafka-reassign-partitions", *server, "--reassignment-json-file", str(files))
            run_tool(*named, "--execute", artifacts=tools)
            wait_until(
                lambda: "is still in progress" not in run_tool(*named, "--verify", artifacts=tools), "end of the moves"
            )
        elect = ("--election-type", "preferred", "--path-to-json-file", str(folder / "election.json"))
        run_tool("kafka-leader-election", *server, *elect, artifacts=tools)

    def measure_shares(self, start_ms: int, minutes: int) -> list[dict[int, float]]:
        """Each broker's part of the bytes of some minutes, by batch headers in the logs of those who lead now."""
        written: list[Counter[int]] = [Counter() for _ in range(minutes)]
        text = self.cluster.run_tool("kafka-topics", "--describe")
        for topic, partition, leader in re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)", text):
            if topic in self.topics:
                log = self.cluster.brokers[int(leader)].log_directory / f"{topic}-{partition}"
                for minute, size in read_partition(log, start_ms).bytes_by_minute.items():
                    if 0 <= minute < minutes:
                        written[minute][int(leader)] += size
        return [{broker: size / (sum(of.values()) or 1) for broker, size in of.items()} for of in written]


@contextmanager
def start_bed(folder: Path, loads: Sequence[Load], topics: Mapping[str, str] = TOPICS) -> Iterator[Bed]:
    """Three brokers, a Prometheus that scrapes them and the producers; nothing is produced yet."""
    with ExitStack() as stack:
        advertised, ports = free_ports(3), free_ports(3)
        pairs = list(zip(advertised, ports, strict=True))
        proxy = stack.enter_context(start_proxy(pairs, folder / "output/proxy.log"))
        cluster = stack.enter_context(
            start_cluster(
                folder / "cluster",
                3,
                settings={"min.insync.replicas": "1"},
                controller_settings={"auto.leader.rebalance.enable": "false", "min.insync.replicas": "1"},
                client_ports=ports,
                advertised_ports=advertised,
                with_exporter=True,
                exported=EXPORTED,
                heap_mb=256,
            )
        )
        for topic, assignment in topics.items():
            cluster.create_topic(topic, assignment)
        own = dict(zip((load.topic for load in loads), free_ports(len(loads)), strict=True))
        jobs = {
            "brokers": Job([broker.exporter_port or 0 for broker in cluster.brokers], SCRAPE_S),
            "producers": Job([*own.values()], SCRAPE_S),
        }
        prometheus = stack.enter_context(start_prometheus(folder / "prometheus", jobs))
        bed = Bed(cluster, proxy, prometheus, folder, own, topics)
        stack.callback(lambda: [process.stop() for process in bed.processes.values()])
        yield bed


def outage(bed: Bed, broker_id: int, seconds: float) -> None:
    """Kills a broker and starts it again."""
    say(f"broker {broker_id} is killed")
    bed.cluster.kill_broker(broker_id)
    time.sleep(seconds)
    bed.cluster.start_broker(broker_id)
    say(f"broker {broker_id} is back")
