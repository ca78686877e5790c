"""What the folders of a cluster's nodes hold when they start: formatted storage, ids, the exporter's rules."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab.cluster import Cluster

BROKER_RULES, CLIENT_RULES = (Path(__file__).parent / f"exporter/kafka-{of}.yml" for of in ("broker", "client"))


def draw_id() -> str:
    """As Kafka's own `Uuid.randomUuid`: none begins with a dash, which tools would take for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def write_exporter_rules(cluster: Cluster) -> Path:
    rules = cluster.exporter_rules
    if not cluster.exported:
        return rules
    fewer = cluster.root / "config" / rules.name
    beans = "".join(f"  - '{bean}'\n" for bean in cluster.exported)
    fewer.write_text(f"includeObjectNames:\n{beans}{rules.read_text()}")
    return fewer


def copy_formatted(cluster: Cluster) -> None:
    """Gives each broker the controller's formatted folder with ids of its own."""
    for broker in cluster.brokers:
        shutil.copytree(cluster.controller_directory, broker.log_directory)
        properties = broker.log_directory / "meta.properties"
        kept = [line for line in properties.read_text().splitlines() if line.startswith(("version=", "cluster.id="))]
        lines = (*kept, f"node.id={broker.node_id}", f"directory.id={draw_id()}")
        properties.write_text("".join(f"{line}\n" for line in lines))
