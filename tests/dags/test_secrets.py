"""Which variables are looked for among Airflow's connections, and what becomes of those that are set."""

import os

from dags.secrets import named_variables
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.environment import provide_secrets
from pipeline.sources import kinds  # noqa: F401  (makes them known to the configuration)


def test_every_variable_that_the_configuration_names_is_found():
    basic = {"basic_auth": {"username": "u", "password_variable": "PROMETHEUS_PASSWORD"}}
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password_variable": "KAFKA_PASSWORD",
    }
    sources = [
        {"kind": "prometheus", "url": "http://p", "access": basic},
        {"kind": "live_cluster", "bootstrap_servers": "b:1", "client": client},
    ]
    config = {"warehouse": "w", "outbox": "o", "clusters": {"c": {"sources": sources}}}
    assert named_variables(PipelineConfig.model_validate(config)) == ("KAFKA_PASSWORD", "PROMETHEUS_PASSWORD")


def test_a_variable_that_is_set_wins(monkeypatch):
    monkeypatch.setenv("SET_ALREADY", "own")
    monkeypatch.setenv("NOT_SET", "")
    monkeypatch.delenv("NOT_SET")
    assert provide_secrets({"SET_ALREADY": "lent", "NOT_SET": "lent"}) == ("NOT_SET",)
    assert (os.environ["SET_ALREADY"], os.environ["NOT_SET"]) == ("own", "lent")
