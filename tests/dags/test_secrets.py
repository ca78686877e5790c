"""Which variables are looked for among Airflow's connections, and what becomes of those that are set."""

import os

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import DRCount, ErrorResponse, GetDRCount
from airflow.sdk.execution_time.context import set_current_context

from dags.secrets import lend_secrets, named_variables
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.environment import provide_secrets


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


def test_a_secret_that_nobody_has_is_missing_at_once_and_not_where_airflow_cannot_be_asked(monkeypatch):
    """Airflow's SDK says of a connection that there is none also where its API server does not answer."""

    class Supervisor:
        error = ErrorType.CONNECTION_NOT_FOUND

        def send(self, message):
            if isinstance(message, GetDRCount) and self.error == ErrorType.CONNECTION_NOT_FOUND:
                return DRCount(count=1)
            raise AirflowRuntimeError(ErrorResponse(error=self.error))

    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    monkeypatch.delenv("NOBODY_HAS_IT", raising=False)
    access = {"bearer_token_variable": "NOBODY_HAS_IT"}
    sources = [{"kind": "prometheus", "url": "http://p", "access": access}]
    config = PipelineConfig.model_validate({"warehouse": "w", "outbox": "o", "clusters": {"c": {"sources": sources}}})
    with set_current_context({"ti": task_runner.RuntimeTaskInstance}):
        assert lend_secrets(config) == ()
        supervisor.error = ErrorType.API_SERVER_ERROR
        with pytest.raises(AirflowRuntimeError, match="API_SERVER_ERROR"):
            lend_secrets(config)
