"""Reads the configuration: the sections of `pipeline.config`, with every kind of source in `pipeline.sources.kinds`.

`PARTITION_HEALTH_CONFIG` names the file. Relative paths in it are taken from the file's own folder.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.yaml_file import read_yaml
from pipeline.environment import variable
from pipeline.errors import ConfigError
from pipeline.sources import kinds  # noqa: F401  (makes them known to the configuration)

CONFIG_VARIABLE = "PARTITION_HEALTH_CONFIG"
DEFAULT_CONFIG = "partition-health.yaml"


def load_config(path: Path | None = None) -> PipelineConfig:
    """Reads and validates the configuration.

    Args:
        path: The YAML file; without it `$PARTITION_HEALTH_CONFIG`, else `partition-health.yaml` here.

    Raises:
        ConfigError: naming file, line and key of everything that is wrong.
    """
    path = path or config_path()
    if not path.exists():
        raise ConfigError(f"no configuration at {path}: pass --config FILE or set {CONFIG_VARIABLE}")
    file = path.resolve()
    return read_yaml(path).validate(PipelineConfig, context={"folder": file.parent, "file": file})


def config_path() -> Path:
    """Where the configuration is looked for: `$PARTITION_HEALTH_CONFIG`, else `partition-health.yaml` here."""
    return Path(variable(CONFIG_VARIABLE) or DEFAULT_CONFIG)
