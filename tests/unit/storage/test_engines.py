"""Engines that cannot be had, told in a line; how long an idle one lives."""

import subprocess
import sys

import pytest

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, SparkFailedError
from pipeline.storage import engines
from pipeline.storage.engines import running_engine
from tests.config_files import write_configuration
from tests.lab.process import free_ports

IDLE = """
import os
import time
from pipeline.storage import engines
engines._MOST_IDLE_S = "1"
os.environ.pop("SAIL_SPARK__SESSION_TIMEOUT_SECS", None)  # of a Sail in the process that asks
session = engines.start_sail()
session.sql("SELECT 1").collect()
time.sleep(8)
session.sql("SELECT 1").collect()
"""


def test_a_connect_server_that_is_not_there_is_told_at_once_without_the_token():
    (port,) = free_ports(1)
    config = Spark(remote=f"sc://127.0.0.1:{port}/;token=s3cr3t;use_ssl=true")
    said = f"no Spark Connect server answers at 127.0.0.1:{port}; start it"
    with pytest.raises(SparkFailedError, match=said) as told, running_engine(config, app_name="test"):
        pass
    assert "s3cr3t" not in str(told.value)


@pytest.mark.parametrize("address", ["sc://host:no-port", "sc://host:1/path"])
def test_an_address_that_is_none_is_told(address):
    said = r"spark\.remote is no address of a server"
    with pytest.raises(ConfigError, match=said), running_engine(Spark(remote=address), app_name="test"):
        pass


def test_an_address_of_another_kind_is_refused_without_its_token(tmp_path):
    """Airflow shows the error of a configuration to each of its readers."""
    spark = {"remote": "https://host:443/;use_ssl=true;token=s3cr3t"}
    cluster = {"sources": [{"kind": "log_directories", "paths": ["logs"]}]}
    with pytest.raises(ConfigError, match="such as sc://host:15002") as told:
        load_config(write_configuration(tmp_path, {"demo": cluster}, spark=spark))
    assert "s3cr3t" not in str(told.value)


def test_sail_keeps_a_session_for_as_long_as_a_run_may_wait():
    """A run that waited 20 minutes for another one, or for a server, ended at its next query: Sail had ended its session."""
    done = subprocess.run([sys.executable, "-c", IDLE], capture_output=True, text=True, check=False)
    assert "is not running" in done.stderr  # Sail does as it is told
    assert int(engines._MOST_IDLE_S) >= 86_400
