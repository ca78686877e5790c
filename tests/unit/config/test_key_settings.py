"""The section `keys` of the configuration."""

from datetime import timedelta

import pytest

from pipeline.config_file import load_config
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError
from tests.config_files import write_configuration

CLUSTER = {"sources": [{"kind": "log_directories", "paths": ["logs"]}]}


@pytest.fixture
def load(tmp_path):
    def load(**keys):
        return load_config(write_configuration(tmp_path, {"demo": CLUSTER}, keys=keys))

    return load


def test_keys_are_pseudonymous_unless_told_otherwise(load, tmp_path):
    keys = load().keys
    assert (keys.mode, keys.secret, keys.clear_topics) == ("pseudonymous", tmp_path / "partition-health.secret", {})
    assert keys.retention == timedelta(days=30)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"secret": "warehouse/silver/secret"}, "is in the warehouse .*: put it where"),
        ({"secret": "elsewhere/../warehouse/secret"}, "is in the warehouse"),
        ({"clear_topics": {"prod": ["orders"]}}, "keys.clear_topics names clusters that are not configured: prod"),
        ({"strategies": ["no_colon"]}, r"keys\.strategies\[0\]: found no_colon; expected"),
        ({"mode": "clear"}, r"keys\.mode: found clear; expected 'pseudonymous', 'counts_only' or 'off'"),
        ({"retention": "30 days"}, r"keys\.retention: .*is not a duration"),
        ({"max_distinct_keys": 1}, r"keys\.max_distinct_keys: found 1; expected 2 or more"),
    ],
)
def test_what_cannot_be_is_refused(load, keys, reason):
    with pytest.raises(ConfigError, match=reason):
        load(**keys)


def test_a_secret_from_the_environment(monkeypatch):
    monkeypatch.setenv("KEY_SECRET", "0a" * 32)
    assert environment_secret("KEY_SECRET") == "0a" * 32
    assert environment_secret(None) is None
    with pytest.raises(ConfigError, match="environment variable NO_SECRET, which the configuration names, is not set"):
        environment_secret("NO_SECRET")


def test_a_secret_in_place_of_a_variables_name_is_not_repeated():
    with pytest.raises(ConfigError) as told:
        environment_secret("https://hooks.example.com/T0/secret")
    assert "secret" not in str(told.value)
