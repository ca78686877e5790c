"""`docs/SMALL-CLUSTER.md`: its commands as they stand there, on other ports and in another folder.

Oracle: what the paper promises, and the capture's own slow broker, number 1.
"""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.object_store import server_program
from tests.lab.process import free_ports

ROOT = Path(__file__).parents[2]
PORTS = ("7070", "7077", "8079")
HOSTS = ("broker-0", "broker-1", "broker-2")


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """What the commands printed, and the folder."""
    server_program()  # so that the paper's command finds all modules, or the test is skipped
    folder = tmp_path_factory.mktemp("small")
    script = "".join(re.findall(r"```sh\n(.*?)```", (ROOT / "docs/SMALL-CLUSTER.md").read_text(), re.DOTALL))
    replaced = {"$PWD/build/small": str(folder)} | dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    for old, new in replaced.items():
        assert old in script
        script = script.replace(old, new)
    process = subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said, _ = process.communicate()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what a command that failed left behind
    logs = "".join(f"{log.name}\n{log.read_text()[-1000:]}" for log in folder.glob("*.log"))
    assert process.returncode == 0, f"{said[-4000:]}\n{logs}"
    return said, folder


def test_the_mail_and_the_question_name_the_slow_broker(followed):
    said, _ = followed
    assert re.search(r"^Subject: \[FAIL\] small broker 1 carries", said, re.MULTILINE)
    assert re.search(r"2026-11-21T09:4\d:00Z +1 +2\.\d\d", said.rpartition("broker_id")[2])


def test_each_collector_and_each_worker_did_its_part(followed):
    _, folder = followed
    assert {path.name for path in (folder / "s3/landing/small").iterdir()} >= {*HOSTS}
    assert (folder / "s3/tables/small/gold/broker_share/_delta_log").is_dir()
    for worker in ("worker-1", "worker-2"):
        assert list((folder / worker).glob("app-*"))
