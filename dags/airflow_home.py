"""A self-contained Airflow home in one folder: SQLite, LocalExecutor, our DAGs and nothing else."""

import os
from collections.abc import Mapping
from pathlib import Path

from pipeline.config_file import CONFIG_VARIABLE

DAGS_FOLDER = Path(__file__).resolve().parent


def airflow_environment(home: Path, config: Path) -> dict[str, str]:
    """The variables under which any `airflow` command works on this home, and the DAGs read our configuration."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",  # dozens of idle workers otherwise
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",  # as long may others write
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        CONFIG_VARIABLE: str(config),
    }


def use_airflow_home(home: Path, config: Path, *, overrides: Mapping[str, str] | None = None) -> None:
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)  # it holds the database, the logs and a generated password
    os.environ.update(airflow_environment(home, config) | dict(overrides or {}))
