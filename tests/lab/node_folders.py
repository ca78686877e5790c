"""What a node of the laboratory's cluster starts with: formatted folders, or what brokers of another run left."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.node_settings import CONTROLLER_ID, format_properties

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


def take_over(cluster: Cluster, left: Path) -> None:
    """Copies what brokers left; the controller goes on with the metadata log that each of them followed."""
    for broker in cluster.brokers:
        shutil.copytree(left / str(broker.node_id), broker.log_directory)
    metadata = left / "0" / "__cluster_metadata-0"
    forget = shutil.ignore_patterns("quorum-state")  # whom a follower knew as leader
    shutil.copytree(metadata, cluster.controller_directory / metadata.name, ignore=forget)
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy2(left / "0" / name, cluster.controller_directory / name)
    _write_properties(cluster.controller_directory, CONTROLLER_ID)


def read_properties(folder: Path) -> dict[str, str]:
    lines = (folder / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _write_properties(folder: Path, node_id: int) -> None:
    """Makes a copied folder another node's."""
    kept = {name: value for name, value in read_properties(folder).items() if name in {"version", "cluster.id"}}
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
