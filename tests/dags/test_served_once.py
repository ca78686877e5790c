"""`make serve` where it runs already, or has no configuration: refused in a line, before anything starts."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dags.serve import format_url
from tests.lab.process import PATIENCE_S, free_ports

ROOT = Path(__file__).parents[2]
CONFIG = """\
warehouse: tables
outbox: mails
clusters:
  demo:
    sources:
      - {kind: log_directories, paths: [logs]}
"""


@pytest.fixture
def refused(tmp_path):
    """Runs it on a configuration in a folder, and gives the last line of what it says."""
    (tmp_path / "partition-health.yaml").write_text(CONFIG)

    def serve(port, *, config="partition-health.yaml"):
        command = [sys.executable, "-m", "dags.serve", "--port", str(port), "--home", str(tmp_path / "airflow")]
        variables = {**os.environ, "PARTITION_HEALTH_CONFIG": str(tmp_path / config)}
        done = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr.splitlines()[-1]

    return serve


def test_a_port_that_is_taken(refused):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refused(port)
    assert said == (
        f"make serve: error: 127.0.0.1:{port} cannot be listened on (Address already in use): pass another --port"
    )


def test_a_folder_that_is_served_already(refused, tmp_path):
    (tmp_path / "airflow").mkdir()
    with (tmp_path / "airflow" / ".serving").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = refused(*free_ports(1))
    assert said.startswith(f"make serve: error: {tmp_path / 'airflow'} is served already: stop that, or pass another")


def test_no_configuration(refused, tmp_path):
    said = refused(*free_ports(1), config="gone.yaml")
    assert said.endswith("gone.yaml: go to the folder that holds it, or set PARTITION_HEALTH_CONFIG")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("fe80::2", "http://[fe80::2]:80"),
    ],
)
def test_an_address_of_ipv6_stands_in_brackets(host, url):
    assert format_url(host, 80) == url
