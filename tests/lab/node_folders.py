"""What a node of the laboratory's cluster starts with: formatted folders, and rules of its exporter."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.node_settings import format_properties

if TYPE_CHECKING:
    from tests.lab.cluster import Cluster


EXPORTER_RULES = Path(__file__).parent / "exporter"


def draw_id() -> str:
    """As Kafka's own `Uuid.randomUuid`: none begins with a dash, which tools would take for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def copy_formatted(cluster: Cluster) -> None:
    """Gives each broker the controller's formatted folder, without a JVM of 1.3 CPU-s each: the same files, two ids."""
    for broker in cluster.brokers:
        shutil.copytree(cluster.controller_directory, broker.log_directory)
        _write_properties(broker.log_directory, broker.node_id)


def _write_properties(folder: Path, node_id: int) -> None:
    """Makes a copied folder another node's."""
    lines = (folder / "meta.properties").read_text().splitlines()
    kept = dict(line.split("=", 1) for line in lines if line.startswith(("version=", "cluster.id=")))
    kept |= {"node.id": str(node_id), "directory.id": draw_id()}
    (folder / "meta.properties").write_text(format_properties(kept))


def write_exporter_rules(cluster: Cluster) -> Path:
    rules = EXPORTER_RULES / "kafka-broker.yml"
    if not cluster.exported:
        return rules
    fewer = cluster.root / "config" / rules.name
    beans = "".join(f"  - '{bean}'\n" for bean in cluster.exported)
    fewer.write_text(f"includeObjectNames:\n{beans}{rules.read_text()}")
    return fewer
