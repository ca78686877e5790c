"""Brokers behind the delaying proxy, and what both cost: the bed on which every setting runs."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic

from tests.lab.artifacts import BROKER, BROKER_VERSION, class_path, client_artifacts
from tests.lab.clients import QUIET
from tests.lab.cluster import Cluster, start_cluster
from tests.lab.process import Process, free_ports, start_java
from tests.lab.proxy import Proxy, start_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.lab.fidelity.settings import Delay

# What kafka-run-class.sh gives a client.
CLIENT_OPTIONS = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Bed:
    """Running brokers and their proxy."""

    root: Path
    cluster: Cluster
    proxy: Proxy

    def create_topic(self, topic: str, leaders: Sequence[int], replicas: int = 1) -> None:
        """A topic whose partition i is led by ``leaders[i]``; further replicas lie on the brokers after it."""
        admin = AdminClient({"bootstrap.servers": self.cluster.internal_bootstrap})
        count = len(self.cluster.brokers)
        assignment = [[(leader + number) % count for number in range(replicas)] for leader in leaders]
        request = NewTopic(topic, num_partitions=len(leaders), replica_assignment=assignment)
        admin.create_topics([request])[topic].result(30)

    def log_directory(self, topic: str, partition: int, leader: int) -> Path:
        """Where that partition's segments lie."""
        return self.cluster.brokers[leader].log_directory / f"{topic}-{partition}"

    def plan_delays(self, delays: Sequence[Delay], start_ms: int) -> None:
        """Has the proxy hold answers as planned from a run's start on, and no others."""
        for broker in range(len(self.cluster.brokers)):
            self.proxy.slow(broker, 0, 0, 0)
        for delay in delays:
            from_ms, to_ms = (start_ms + round(1000 * at_s) for at_s in (delay.from_s, delay.to_s))
            self.proxy.slow_too(delay.broker, from_ms, to_ms, delay.delay_ms)

    def processes(self) -> list[Process]:
        """Every process of the bed."""
        return [*self.cluster.processes, self.proxy.process]


@contextmanager
def start_bed(
    root: Path,
    broker_count: int = 3,
    settings: Mapping[str, str] | None = None,
    *,
    version: str = BROKER_VERSION,
    racks: Sequence[str] = (),
    classes: Path | None = None,
) -> Iterator[Bed]:
    """Brokers 0, 1, … that clients reach through the proxy only, for as long as the block lasts.

    Args:
        root: An empty folder.
        broker_count: How many.
        settings: Broker settings beyond the lab's own.
        version: Of the brokers.
        racks: Of each of them; none by default.
        classes: A folder of classes that the settings name.
    """
    advertised = free_ports(broker_count)
    broker_ports = free_ports(broker_count)
    pairs = list(zip(advertised, broker_ports, strict=True))
    with (
        start_proxy(pairs, root / "output/proxy.log") as proxy,
        start_cluster(
            root,
            broker_count,
            version=version,
            settings=settings,
            racks=racks,
            classes=classes,
            client_ports=broker_ports,
            advertised_ports=advertised,
        ) as cluster,
    ):
        yield Bed(root, cluster, proxy)


def start_client(name: str, version: str, arguments: Sequence[str], output: Path) -> Process:
    """A Java program with the client of one version on its class path."""
    artifacts = BROKER if version == BROKER_VERSION else client_artifacts(version)
    command = [QUIET, "-cp", class_path(artifacts), *arguments]
    return start_java(name, command, output, heap_mb=512, options=CLIENT_OPTIONS)


def write_properties(file: Path, config: Mapping[str, str]) -> None:
    """A client's configuration as Java reads it."""
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))


class CpuMeter:
    """Processor time used by others while a run lasts.

    Those of the class that runs only where nobody else wants to (SCHED_IDLE) are left out: they yield at once.
    """

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._start = self._read()
        self._yielding = _read_yielding()

    def foreign_cpu_s(self) -> float:
        """Processor seconds since the start that neither the bed nor its clients (ended ones) nor we used."""
        busy, own = self._read()
        yielding_s = 0.0
        for pid, used_s in _read_yielding().items():
            yielding_s += max(used_s - self._yielding.get(pid, 0.0), 0.0)
        return max(0.0, busy - self._start[0] - (own - self._start[1]) - yielding_s)

    def _read(self) -> tuple[float, float]:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        user, nice, system, _idle, _iowait, irq, softirq, steal = fields
        busy = (user + nice + system + irq + softirq + steal) / TICKS_PER_S
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        for process in self._bed.processes():
            words = Path(f"/proc/{process.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
            own += (int(words[11]) + int(words[12])) / TICKS_PER_S
        return busy, own


def _read_yielding() -> dict[int, float]:
    """Processor seconds of each process in the class SCHED_IDLE, its ended children's with them."""
    used = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.sched_getscheduler(int(entry.name)) == os.SCHED_IDLE:
                words = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                used[int(entry.name)] = sum(map(int, words[11:15])) / TICKS_PER_S
        except OSError:
            continue  # it has ended meanwhile
    return used
