"""The configuration that tests of jobs share: one cluster, its tables made and empty."""

from __future__ import annotations

import yaml

from pipeline.config_file import load_config
from pipeline.storage.tables_on_disk import ensure_tables


def write_config(folder):
    """The configuration of cluster `lab`, read from its file; its tables are there."""
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "keys": {"secret": "secret"},
        "clusters": {"lab": {"sources": [{"kind": "log_directories", "paths": [str(folder)]}]}},
    }
    path = folder / "partition-health.yaml"
    path.write_text(yaml.safe_dump(document))
    config = load_config(path)
    ensure_tables(config.warehouse)
    return config
