"""`make serve`: `airflow standalone` with our DAGs, scheduled on the configuration at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dags.airflow_home import DAGS_FOLDER, use_airflow_home
from pipeline.config_file import config_path, load_config


def main() -> None:
    """Replaces this process by Airflow, once the configuration is known to be usable.

    Raises:
        ConfigError: if the configuration cannot be used.
    """
    config = config_path().resolve()
    load_config(config)
    use_airflow_home(
        DAGS_FOLDER.parent / ".airflow",
        config,
        overrides={"AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False", "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO"},
    )
    airflow = Path(sys.executable).with_name("airflow")
    os.execv(airflow, [str(airflow), "standalone"])  # noqa: S606 - no shell


if __name__ == "__main__":
    main()
