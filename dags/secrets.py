"""Secrets of sources from Airflow's connections: what the configuration names and the environment lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from pipeline.environment import provide_secrets, variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.config.pipeline_config import PipelineConfig


def lend_secrets(config: PipelineConfig) -> tuple[str, ...]:
    """Gives this task's process the password of each connection that is called like a variable the configuration names.

    A variable that is set wins. What neither the environment nor a connection holds fails where it is used, with the
    source that wants it.

    Args:
        config: The configuration.

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
    """Variables that the configuration names as holders of secrets, by name."""
    return tuple(sorted(set(_named(config.model_dump()))))


def _named(value: object) -> Iterator[str]:
    """What stands under a key that ends in `_variable`, at any depth."""
    if isinstance(value, dict):
        for key, held in value.items():
            if isinstance(held, str) and str(key).endswith("_variable"):
                yield held
            yield from _named(held)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named(item)
