"""Secrets of sources from Airflow's connections: what the configuration names and the environment lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, get_current_context
from airflow.sdk.exceptions import AirflowNotFoundException

from pipeline.environment import provide_secrets, variable

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import PipelineConfig


class SecretHook(BaseHook):
    """A connection that holds one secret of a source; its id is the variable that the configuration names."""

    conn_name_attr = "secret_conn_id"
    conn_type = "partition_health_secret"
    hook_name = "Partition health: secret of a source"

    def __init__(self, secret_conn_id: str) -> None:
        super().__init__()
        self.secret_conn_id = secret_conn_id

    def get_conn(self) -> str | None:
        """The secret; None where the connection holds none. `AirflowNotFoundException` if there is no such connection."""
        password: str | None = self.get_connection(self.secret_conn_id).password
        return password

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        hidden = ["host", "schema", "login", "port", "extra"]
        return {"hidden_fields": hidden, "relabeling": {"password": "Secret"}, "placeholders": {}}


def lend_secrets(config: PipelineConfig) -> tuple[str, ...]:
    """Puts passwords of connections named like variables of the configuration into this task's environment; returns which.

    A variable that is set wins. What neither holds fails where it is used. Raises Airflow's error if it cannot be asked.
    """
    found: dict[str, str] = {}
    is_missing = False
    for name in named_variables(config):
        if variable(name) is not None:
            continue
        try:
            password = SecretHook(name).get_conn()
        except AirflowNotFoundException:
            is_missing = True
            continue
        if password:
            found[name] = password
    lent = provide_secrets(found)
    if is_missing:
        get_current_context()["ti"].get_dr_count(dag_id=config.airflow.name("ingest"))  # whatever needs an answer
    return lent


def named_variables(config: PipelineConfig) -> tuple[str, ...]:
    """Variables that the configuration names as holders of secrets: what is under a key that ends in `_variable`."""
    return tuple(sorted(set(re.findall(r'_variable":"([^"]+)"', config.model_dump_json()))))
