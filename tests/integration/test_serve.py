"""`make serve` from a shell that knows nothing of the virtual environment.

Oracle: Airflow's own health page, and the kernel's list of sockets.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest
import yaml

from tests.dags.airflow_process import ROOT
from tests.dags.conftest import EMPTY
from tests.lab.process import PATIENCE_S, free_ports


@pytest.fixture
def served(tmp_path):
    """Process and port of a running `make serve`; it ends with the test."""
    config = tmp_path / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY))
    (port,) = free_ports(1)
    own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment = own | {"PATH": "/usr/bin:/bin", "PARTITION_HEALTH_CONFIG": str(config)}
    command = [sys.executable, "-m", "dags.serve", "--port", str(port), "--home", str(tmp_path / "airflow")]
    with (tmp_path / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    yield process, port, tmp_path / "serve.log"
    if process.poll() is None:
        for one in (*psutil.Process(process.pid).children(recursive=True), process):
            one.kill()


def test_it_starts_listens_on_loopback_and_stops(served):
    process, port, log = served
    health, deadline_s = {}, time.monotonic() + PATIENCE_S
    while {health.get(part, {}).get("status") for part in ("scheduler", "dag_processor")} != {"healthy"}:
        is_in_time = process.poll() is None and time.monotonic() < deadline_s
        assert is_in_time, log.read_text(errors="replace")[-4000:]
        time.sleep(1)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=30) as answer:
                health = json.load(answer)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            continue
    assert (log.parent / "airflow").stat().st_mode & 0o077 == 0  # database, logs, password: its owner's
    text = log.read_text(errors="replace")
    assert f"Airflow is ready: http://127.0.0.1:{port}, user admin" in text
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    listening = set()
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):  # Airflow's short helpers end at any moment
            connections = member.net_connections("inet")
            listening |= {connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN}
    assert listening == {("127.0.0.1", port)}
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []
