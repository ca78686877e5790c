"""`docker/partition-health.yaml` is one the pipeline accepts, and its paths and mail server exist in the containers."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from pipeline.config.pipeline_config import PipelineConfig, load_config
from tests.unit.docker.setup_files import ROOT, environment, mounts, read_setup

CONFIG = """
warehouse: /var/lib/partition-health/warehouse
outbox: /var/lib/partition-health/outbox
clusters:
  docker:
    sources:
      - {kind: log_directories, paths: [/srv/kafka/kafka-1, /srv/kafka/kafka-2, /srv/kafka/kafka-3]}
"""


def check_config(config: PipelineConfig) -> list[str]:
    """What a container would not find, or would lose with its end."""
    services = read_setup().services
    seen = mounts(services["airflow-scheduler"])
    cluster_sources = [source for cluster in config.clusters.values() for source in cluster.sources]
    read = [path for s in cluster_sources for path in getattr(s, "paths", None) or (s.path,)]
    problems = [f"{p} is on no volume" for p in (config.warehouse, config.outbox, *read) if not _is_below(p, seen)]
    read_only = [mount for mount in seen if mount[2]]
    problems += [f"{p} cannot be written" for p in (config.warehouse, config.outbox) if _is_below(p, read_only)]
    if config.mail.smtp is not None and config.mail.smtp.host not in services:
        problems.append(f"mail goes to {config.mail.smtp.host}, which is no service")
    return problems


def _is_below(path, seen):
    return any(PurePosixPath(path).is_relative_to(target) for _, target, _ in seen)


def test_real_config_fits_the_containers():
    assert check_config(load_config(ROOT / "docker/partition-health.yaml")) == []


def test_config_is_mounted_where_the_pipeline_looks():
    scheduler = read_setup().services["airflow-scheduler"]
    target = environment(scheduler)["PARTITION_HEALTH_CONFIG"]
    assert ("./partition-health.yaml", target, True) in mounts(scheduler)


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ("", "", []),
        ("/partition-health/outbox", "/outbox", ["/var/lib/outbox is on no volume"]),
        ("/srv/kafka/kafka-2", "/srv/kafka-2", ["/srv/kafka-2 is on no volume"]),
        (
            "outbox: /var/lib/partition-health/outbox",
            "outbox: /srv/kafka/kafka-1/o",
            ["/srv/kafka/kafka-1/o cannot be written"],
        ),
        ("clusters:", "mail: {smtp: {host: mailhog}}\nclusters:", ["mail goes to mailhog, which is no service"]),
    ],
)
def test_planted_faults(tmp_path, old, new, problems):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.replace(old, new))
    assert check_config(load_config(file)) == problems
