"""The clients of a capture, each started as its users would start it, and noted for the manifest."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import traffic
from tests.lab.artifacts import BROKER, BROKER_VERSION, EXPORTER, class_path, client_artifacts, resolve_jars
from tests.lab.node_folders import CLIENT_RULES
from tests.lab.process import LabError, Process, free_ports, start_java, start_program
from tests.lab.scraper import Target

if TYPE_CHECKING:
    from tests.lab.artifacts import ArtifactSet
    from tests.lab.recording import Recording

PRODUCERS = Path(__file__).parent / "producers"
PERF_TOOL = "org.apache.kafka.tools.ProducerPerformance"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
LIBRDKAFKA_PROCESS = "devices"
# Every producer ends before the last window does: the perf tool starts up to a second late, batches linger.
PERF_MARGIN_S = 2
KEYED_MARGIN_MS = 1000


def start_producers(recording: Recording) -> None:
    """Start every producer; all wait for the first window by themselves."""
    payload = recording.root / "payload.txt"
    payload.write_text("x" * traffic.KEYLESS_BYTES)
    for load in traffic.PERF_LOADS:
        _start_perf_tool(recording, load, payload)
    for name, streams in traffic.KEYED_PROCESSES.items():
        _start_keyed(recording, name, streams)
    _start_librdkafka(recording)


def start_readers(recording: Recording) -> Process:
    """Start the consumer group."""
    arguments = [recording.cluster.bootstrap, traffic.GROUP, traffic.GROUP_TOPIC, *traffic.GROUP_MEMBERS]
    command = [QUIET, "-cp", class_path(BROKER), str(PRODUCERS / "GroupReader.java"), *arguments]
    return start_java("readers", command, recording.output("readers"), heap_mb=160)


def wait_for_outcomes(recording: Recording, timeout_s: float = 60) -> dict[str, int]:
    """Topic → records acknowledged, as each producer counts them, once all have said so.

    Raises:
        LabError: a producer did not finish, or a record of it failed.
    """
    expected = {str(producer["topic"]) for producer in recording.producers}
    deadline = time.monotonic() + timeout_s
    while (acked := _read_outcomes(recording)).keys() != expected:
        if time.monotonic() > deadline:
            raise LabError(f"no outcome within {timeout_s} s for {sorted(expected - acked.keys())}")
        time.sleep(0.2)
    return acked


def exporter_agent(port: int, version: ArtifactSet = EXPORTER, rules: Path = CLIENT_RULES) -> str:
    """The option that makes a client's JVM serve its metrics."""
    return f"-javaagent:{resolve_jars(version)[0]}=127.0.0.1:{port}:{rules}"


def _read_outcomes(recording: Recording) -> dict[str, int]:
    acked: dict[str, int] = {}
    for load in traffic.PERF_LOADS:
        total = re.search(r"^(\d+) records sent, .*99.9th", recording.output(load.topic).read_text(), re.MULTILINE)
        if total:
            acked[load.topic] = int(total[1])
    for name in (*traffic.KEYED_PROCESSES, LIBRDKAFKA_PROCESS):
        text = recording.output(name).read_text()
        for topic, count, failed in re.findall(r"^sent topic=(\S+) acked=(\d+) failed=(\d+)", text, re.MULTILINE):
            if int(failed):
                raise LabError(f"{topic}: {failed} records failed:\n{text[-2000:]}")
            acked[topic] = int(count)
    return acked


def _start_perf_tool(recording: Recording, load: traffic.PerfLoad, payload: Path) -> None:
    record_count = traffic.KEYLESS_RATE_PER_S * (recording.minutes * 60 - PERF_MARGIN_S)
    bootstrap = f"bootstrap.servers={recording.cluster.bootstrap}"
    arguments = [
        str(PRODUCERS / "StartAt.java"), str(recording.start_ms), PERF_TOOL,
        "--topic", load.topic, "--num-records", str(record_count), "--payload-file", str(payload),
        "--throughput", str(traffic.KEYLESS_RATE_PER_S),
        "--producer-props", bootstrap, f"client.id={load.client_id}",
    ]  # fmt: skip
    _start_java_producer(recording, load.topic, load.client_version, arguments)
    recording.producers.append(
        {
            "process": load.topic,
            "topic": load.topic,
            "client_id": load.client_id,
            "client": f"java {load.client_version}",
            "tool": "ProducerPerformance",
            "rate_per_s": traffic.KEYLESS_RATE_PER_S,
            "value_bytes": traffic.KEYLESS_BYTES,
            "keys": None,
            "linger_ms": traffic.DEFAULT_LINGER_MS[load.client_version],
            "settings": {},
        }
    )


def _start_keyed(recording: Recording, name: str, streams: tuple[traffic.KeyedStream, ...]) -> None:
    arguments = [
        str(PRODUCERS / "KeyedLoad.java"), recording.cluster.bootstrap,
        str(recording.start_ms), str(recording.end_ms - KEYED_MARGIN_MS),
        *(stream.format_argument() for stream in streams),
    ]  # fmt: skip
    _start_java_producer(recording, name, BROKER_VERSION, arguments)
    recording.producers.extend(
        {
            "process": name,
            "topic": stream.topic,
            "client_id": stream.client_id,
            "client": f"java {BROKER_VERSION}",
            "tool": "KeyedLoad",
            "rate_per_s": stream.rate_per_s,
            "value_bytes": stream.value_bytes,
            "keys": stream.keys,
            "linger_ms": int(stream.settings.get("linger.ms", traffic.DEFAULT_LINGER_MS[BROKER_VERSION])),
            "settings": stream.settings,
        }
        for stream in streams
    )


def _start_java_producer(recording: Recording, name: str, version: str, arguments: list[str]) -> None:
    """With the Prometheus agent; the page's place is noted for the scraper."""
    artifacts = BROKER if version == BROKER_VERSION else client_artifacts(version)
    port = free_ports(1)[0]
    command = [exporter_agent(port), QUIET, "-cp", class_path(artifacts), *arguments]
    recording.processes.append(start_java(name, command, recording.output(name), heap_mb=160))
    recording.targets.append(Target(port, recording.folder / "scrapes/producers" / name, interval_s=5))


def _start_librdkafka(recording: Recording) -> None:
    """It reports its statistics by itself, no exporter needed."""
    output = recording.output(LIBRDKAFKA_PROCESS)
    statistics = recording.folder / "scrapes/librdkafka" / LIBRDKAFKA_PROCESS
    command = [
        sys.executable, str(PRODUCERS / "librdkafka_load.py"), recording.cluster.bootstrap,
        str(recording.start_ms), str(recording.end_ms - KEYED_MARGIN_MS),
        str(traffic.LIBRDKAFKA_RATE_PER_S), str(statistics),
    ]  # fmt: skip
    recording.processes.append(start_program(LIBRDKAFKA_PROCESS, command, output))
    recording.producers.append(
        {
            "process": LIBRDKAFKA_PROCESS,
            "topic": "devices",
            "client_id": "devices-rdkafka",
            "client": "librdkafka",  # its version is what the process prints
            "tool": "confluent-kafka",
            "rate_per_s": traffic.LIBRDKAFKA_RATE_PER_S,
            "value_bytes": 200,
            "keys": "device-:500:0",
            "linger_ms": traffic.DEFAULT_LINGER_MS["librdkafka"],
            "settings": {},
        }
    )
