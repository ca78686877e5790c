"""Secrets of sources from Airflow's connections: what the configuration names and the environment lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from pipeline.environment import provide_secrets, variable

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import PipelineConfig


def lend_secrets(config: PipelineConfig) -> tuple[str, ...]:
    """Puts into this task's environment the password of each connection named like a variable of the configuration.

    A variable that is set wins. What neither the environment nor a connection holds fails where it is used, with the
    source that needs it.

    Returns:
        The variables that were filled, never what they hold.
    """
    found: dict[str, str] = {}
    for name in named_variables(config):
        if variable(name) is not None:
            continue
        try:
            password = Connection.get(name).password
        except AirflowNotFoundException:
            continue
        if password:
            found[name] = password
    return provide_secrets(found)


def named_variables(config: PipelineConfig) -> tuple[str, ...]:
    """Variables that the configuration names as holders of secrets: what is under a key that ends in `_variable`."""
    return tuple(sorted(set(re.findall(r'_variable":"([^"]+)"', config.model_dump_json()))))
