"""A Spark standalone cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from pipeline.storage.java import find_java
from tests.lab.process import PATIENCE_S

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


@contextmanager
def standalone_cluster(folder, *, worker_count=2):
    """Starts a master and workers of one core each; yields the master's address; ends them all."""
    with ExitStack() as stack:
        master = _start(stack, folder / "master.log", "master.Master", "--port", "0", "--webui-port", "0")
        address = _read_until(master, _MASTER.search).group(1)
        for number in range(worker_count):
            place = ("--work-dir", str(folder / f"worker-{number}"), "--port", "0", "--webui-port", "0")
            worker = _start(
                stack,
                folder / f"worker-{number}.log",
                "worker.Worker",
                *place,
                "--cores",
                "1",
                "--memory",
                "1g",
                address,
            )
            _read_until(worker, lambda line: _REGISTERED in line)
        yield address


def _start(stack, log, name, *arguments):
    command = [
        *(str(find_java().home / "bin/java"), "-cp", f"{SPARK_HOME}/jars/*", "-Xmx512m"),
        *(f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments),
    ]
    variables = {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13", "PYTHONPATH": str(ROOT)}
    written = stack.enter_context(log.open("w"))
    process = subprocess.Popen(
        command, env={**os.environ, **variables, "SPARK_LOCAL_IP": "127.0.0.1"}, stdout=written, stderr=written
    )
    stack.callback(_end, process)
    return log, process


def _end(process):
    process.terminate()
    process.wait(PATIENCE_S)


def _read_until(started, look):
    """What `look` finds in a line of the log, as soon as it is there."""
    log, process = started
    with log.open() as lines:
        while True:
            line = lines.readline()
            if found := line and look(line):
                return found
            if not line:
                try:
                    process.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
                raise RuntimeError(f"{log.name} ended:\n{log.read_text()[-3000:]}")
