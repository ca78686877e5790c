"""The configuration that tests of jobs share: one cluster, its tables made and empty."""

from pipeline.config_file import load_config
from pipeline.storage.tables_on_disk import ensure_tables
from tests.config_files import write_configuration


def write_config(folder):
    """The configuration of cluster `lab`, read from its file; its tables are there."""
    lab = {"sources": [{"kind": "log_directories", "paths": [str(folder)]}]}
    config = load_config(write_configuration(folder, {"lab": lab}, keys={"secret": "secret"}))
    ensure_tables(config.warehouse)
    return config
