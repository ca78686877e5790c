"""What clients pushed to a broker with `ClientMetrics.java`, as pages of Prometheus in both forms that reporters have.

References:
    Strimzi metrics-reporter, `ClientTelemetryCollector`: names begin with `clients_`, deltas are summed, counters end in `_total`.
    OpenTelemetry Collector, `prometheusexporter` with `resource_to_telemetry_conversion`: the client's own resource is in the labels.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData

from tests.lab.artifacts import BROKER, class_path, java_program

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORTER = Path(__file__).parent / "ClientMetrics.java"


class Push(NamedTuple):
    """One message of a client."""

    at_ms: int
    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    metrics: MetricsData


def compile_reporter(target: Path) -> Path:
    """The folder with the reporter's class."""
    command = [
        java_program(),
        "--module",
        "jdk.compiler/com.sun.tools.javac.Main",
        "-cp",
        class_path(BROKER),
        "-d",
        target,
    ]
    subprocess.run([*map(str, command), str(REPORTER)], check=True, capture_output=True)
    return target


def read_pushes(folder: Path) -> list[Push]:
    """What was pushed, in order of time."""
    found = []
    for path in folder.glob("*.otlp"):
        at_ms, _, count = path.stem.partition("-")
        head, _, message = path.read_bytes().partition(b"\n")
        push = Push(int(at_ms), *head.decode().split("\t"), MetricsData.FromString(message))
        found.append((int(at_ms), int(count), push))
    return [push for _, _, push in sorted(found, key=lambda one: one[:2])]


def format_pages(pushes: list[Push], *, as_strimzi: bool) -> Iterator[tuple[int, str]]:
    """A page after each push, with its instant: the last value of every series of every client."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    values: dict[tuple[str, str], float] = {}
    for push in pushes:
        for resource in push.metrics.resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                is_sum = metric.HasField("sum")
                data = metric.sum if is_sum else metric.gauge
                name = metric.name.replace(".", "_").replace("-", "_").removesuffix("_total" if is_sum else "\0")
                name = f"{'clients_' if as_strimzi else ''}{name}{'_total' if is_sum else ''}"
                for point in data.data_points:
                    attributes = [*point.attributes, *(() if as_strimzi else resource.resource.attributes)]
                    labels = _format_labels(push, attributes, as_strimzi=as_strimzi)
                    value = point.as_double if point.HasField("as_double") else float(point.as_int)
                    if is_sum and data.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA:
                        sums[name, labels] += value
                        value = sums[name, labels]
                    values[name, labels] = value
        yield push.at_ms, "".join(f"{name}{labels} {value!r}\n" for (name, labels), value in values.items())


def _format_labels(push: Push, attributes, *, as_strimzi: bool) -> str:
    labels = {"client_instance_id": push.instance_id}
    if as_strimzi:
        labels["client_id"] = push.client_id
    else:
        software = {"clientSoftwareName": push.software_name, "clientSoftwareVersion": push.software_version}
        labels |= {"clientId": push.client_id, **software}
    for attribute in attributes:
        value = attribute.value
        text = value.string_value if value.HasField("string_value") else str(value.int_value)
        labels[attribute.key.replace(".", "_").replace("-", "_")] = text
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
