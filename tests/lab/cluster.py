"""A real KRaft cluster on loopback: one controller, any number of brokers, each a JVM of its own."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic

from tests.lab.artifacts import (
    BROKER,
    BROKER_VERSION,
    EXPORTER,
    ArtifactSet,
    broker_artifacts,
    class_path,
    java_program,
    resolve_jars,
    tool_artifacts,
)
from tests.lab.node_folders import BROKER_RULES, copy_formatted, draw_id, write_exporter_rules
from tests.lab.node_settings import broker_settings, controller_settings, format_properties
from tests.lab.process import FRUGAL, PATIENCE_S, LabError, Process, free_ports, is_listening, start_java, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LASTING = ("-XX:+UseSerialGC", "-Xshare:auto")
"""Java options of brokers whose speed matters: the second compiler takes half of the CPU of one that lives for a minute."""

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-storage": "kafka.tools.StorageTool",
}


def run_tool(name: str, *arguments: str, with_errors: bool = False, artifacts: ArtifactSet = BROKER) -> str:
    """Standard output of one of Kafka's own command line tools, by the name its shell script has.

    Args:
        name: the script's name.
        arguments: the tool's own.
        artifacts: whose version of the tool.
        with_errors: append what it wrote to standard error; kafka-dump-log tells mismatches there.

    Raises:
        LabError: the tool failed.
    """
    command = [
        str(java_program()), "-Xmx256m", *FRUGAL, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", class_path(artifacts), TOOLS[name], *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        raise LabError(f"{name} {' '.join(arguments)}: exit {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout + done.stderr if with_errors else done.stdout


def dump_logs(files: Iterable[Path], *options: str) -> dict[str, str]:
    """What kafka-dump-log prints, by file."""
    text = run_tool("kafka-dump-log", *options, "--files", ",".join(map(str, files)))
    parts = re.split(r"^(?:Dumping (.*)|(/.*) is empty\.)$", text, flags=re.MULTILINE)[1:]
    return {name or empty: body.strip() for name, empty, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker: where it keeps its logs and where it listens."""

    node_id: int
    log_directory: Path
    client_port: int
    advertised_port: int
    internal_port: int
    exporter_port: int | None


@dataclass
class Cluster:
    """A running cluster."""

    root: Path
    cluster_id: str
    controller_directory: Path
    brokers: tuple[Broker, ...]
    settings: dict[str, str]
    racks: tuple[str, ...] = ()
    controller_settings: dict[str, str] = field(default_factory=dict)
    artifacts: ArtifactSet = BROKER
    tools: ArtifactSet = BROKER
    listeners: dict[str, int] = field(default_factory=dict)
    heap_mb: int = 300
    options: tuple[str, ...] = LASTING
    exported: tuple[str, ...] = ()
    exporter_rules: Path = BROKER_RULES
    classes: Path | None = None
    processes: list[Process] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers`` as clients shall use it: the advertised addresses."""
        return ",".join(f"127.0.0.1:{broker.advertised_port}" for broker in self.brokers)

    @property
    def internal_bootstrap(self) -> str:
        """``bootstrap.servers`` of the listener no proxy stands before."""
        return ",".join(f"127.0.0.1:{broker.internal_port}" for broker in self.brokers)

    def run_tool(self, name: str, *arguments: str) -> str:
        """A command line tool against this cluster, past any proxy."""
        return run_tool(name, "--bootstrap-server", self.internal_bootstrap, *arguments, artifacts=self.tools)

    def create_topic(
        self, topic: str, assignment: str | None = None, partitions: int = 1, **configs: str | int
    ) -> None:
        """Create a topic, by the leaders and replicas of each partition (`0:1,1:2`) or by a number of partitions."""
        replicas = [[int(broker) for broker in each.split(":")] for each in (assignment or "").split(",") if each]
        config = {name.replace("_", "."): str(value) for name, value in configs.items()}
        admin = AdminClient({"bootstrap.servers": self.internal_bootstrap, "logger": logging.getLogger("lab")})
        new = (
            NewTopic(topic, num_partitions=len(replicas), replica_assignment=replicas, config=config)
            if replicas
            else NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=config)
        )
        admin.create_topics([new])[topic].result()
        count = len(replicas) or partitions
        wait_until(lambda: _count_led(admin, topic) == count, f"leaders of {topic}", self.processes[-1])

    def kill_broker(self, node_id: int) -> None:
        """End a broker at once, as a crash does."""
        process = self._process_of(node_id)
        os.killpg(process.popen.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)

    def start_broker(self, node_id: int) -> None:
        """Start a broker that ended, and wait until it serves."""
        name = f"broker-{node_id}"
        self.processes.remove(self._process_of(node_id))
        (self.root / "output" / f"{name}.log").rename(self.root / "output" / f"{name}-before.log")
        process = _start_node(self, name, self.root / "config" / f"{name}.properties", None)
        self.processes.append(process)
        _wait_for_registration(self, [process])

    def _process_of(self, node_id: int) -> Process:
        return next(process for process in self.processes if process.name == f"broker-{node_id}")

    def stop(self) -> None:
        """Stop the brokers cleanly, the controller last."""
        for process in reversed(self.processes):
            process.stop()
        self.processes.clear()


WRITES_ONLY_CHANGES = {"metadata.max.idle.interval.ms": "0"}
"""Of a controller, for tests whose windows are ahead of the clock: its log would say that all disks are copies of before."""


@contextmanager
def start_cluster(
    root: Path,
    broker_count: int = 1,
    *,
    version: str = BROKER_VERSION,
    settings: Mapping[str, str] | None = None,
    racks: Sequence[str] = (),
    controller_settings: Mapping[str, str] | None = None,
    client_ports: Sequence[int] | None = None,
    advertised_ports: Sequence[int] | None = None,
    listeners: Mapping[str, int] | None = None,
    with_exporter: bool = False,
    exported: Sequence[str] = (),
    exporter_rules: Path = BROKER_RULES,
    classes: Path | None = None,
    heap_mb: int = 300,
    is_brief: bool = False,
) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts; its files stay under ``root`` afterwards.

    Args:
        root: an empty folder.
        broker_count: brokers 0, 1, …
        version: of brokers and controller.
        settings: broker settings beyond the lab's own.
        racks: of the brokers, in their order; none by default.
        controller_settings: the controller's likewise.
        client_ports: where each broker listens for clients (default: any free port).
        advertised_ports: what each broker tells clients to connect to (a proxy in front of it).
        listeners: ports of a lone broker's further listeners, by name.
        with_exporter: run each broker with the Prometheus agent.
        exported: beans it shows, such as `kafka.server:type=ReplicaManager,*`; all by default, some 480 KB a page.
        exporter_rules: the agent's rule file.
        classes: a folder of classes that the nodes' settings name, such as a reporter.
        heap_mb: of each JVM.
        is_brief: JVMs of 256 MB with the first compiler only, for a test: half of the CPU of three brokers.
    """
    ports = free_ports(1 + 3 * broker_count)
    listening = client_ports or ports[1 : 1 + broker_count]
    advertised = advertised_ports or listening
    brokers = tuple(
        Broker(
            node_id,
            root / f"broker-{node_id}",
            client_port=listening[node_id],
            advertised_port=advertised[node_id],
            internal_port=ports[1 + broker_count + node_id],
            exporter_port=ports[1 + 2 * broker_count + node_id] if with_exporter else None,
        )
        for node_id in range(broker_count)
    )
    cluster = Cluster(
        root,
        draw_id(),
        root / "controller",
        brokers,
        dict(settings or {}),
        racks=tuple(racks),
        controller_settings=dict(controller_settings or {}),
        listeners=dict(listeners or {}),
        artifacts=broker_artifacts(version),
        tools=tool_artifacts(version),
        heap_mb=256 if is_brief else heap_mb,
        options=FRUGAL if is_brief else LASTING,
        exported=tuple(exported),
        exporter_rules=exporter_rules,
        classes=classes,
    )
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        _start_nodes(cluster, ports[0])
        yield cluster


def _start_nodes(cluster: Cluster, controller_port: int) -> None:
    settings = {"controller": controller_settings(cluster, controller_port)} | {
        f"broker-{broker.node_id}": broker_settings(cluster, broker, controller_port) for broker in cluster.brokers
    }
    files = {name: cluster.root / "config" / f"{name}.properties" for name in settings}
    (cluster.root / "config").mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        file.write_text(format_properties(settings[name]))
    _format_storage(cluster, files["controller"])
    exporter_ports = [None, *(broker.exporter_port for broker in cluster.brokers)]
    for (name, file), exporter_port in zip(files.items(), exporter_ports, strict=True):
        cluster.processes.append(_start_node(cluster, name, file, exporter_port))
    for broker, process in zip(cluster.brokers, cluster.processes[1:], strict=True):
        wait_until(lambda port=broker.internal_port: is_listening(port), "open port", process)
    _wait_for_registration(cluster, cluster.processes[1:])


def _wait_for_registration(cluster: Cluster, processes: Sequence[Process]) -> None:
    """Brokers open their port before they are unfenced; a topic created between would fail."""
    deadline = time.monotonic() + PATIENCE_S
    ready = "Transition from STARTING to STARTED"
    for process in processes:
        while ready not in process.output.read_text(errors="replace"):
            if not process.is_running() or time.monotonic() > deadline:
                raise LabError(f"{process.name} did not start:\n{process.tail()}")
            time.sleep(0.1)


def _count_led(admin: AdminClient, topic: str) -> int:
    """Partitions with a leader, as a broker knows them."""
    partitions = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
    return sum(partition.leader >= 0 for partition in partitions)


def _start_node(cluster: Cluster, name: str, config: Path, exporter_port: int | None) -> Process:
    agent = []
    if exporter_port is not None:
        jar = resolve_jars(EXPORTER)[0]
        agent = [f"-javaagent:{jar}=127.0.0.1:{exporter_port}:{write_exporter_rules(cluster)}"]
    levels = [f"-Dorg.slf4j.simpleLogger.{what}" for what in ("defaultLogLevel=warn", "log.kafka.server=info")]
    path = os.pathsep.join((*([str(cluster.classes)] if cluster.classes else []), class_path(cluster.artifacts)))
    arguments = [*levels, *agent, "-cp", path, "kafka.Kafka", str(config)]
    output = cluster.root / "output" / f"{name}.log"
    return start_java(name, arguments, output, heap_mb=cluster.heap_mb, options=cluster.options)


def _format_storage(cluster: Cluster, controller_config: Path) -> None:
    """Formats the controller's folder by the tool, and each broker's without a JVM of 1.3 CPU-s: the same files, two ids."""
    arguments = ("format", "--cluster-id", cluster.cluster_id, "--config", str(controller_config))
    run_tool("kafka-storage", *arguments, artifacts=cluster.artifacts)
    copy_formatted(cluster)
