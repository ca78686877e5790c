"""A Spark standalone cluster on this machine: a master and workers, each a process of its own."""

import os
import re
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from pipeline.storage.java import find_java
from tests.lab.process import FRUGAL, PATIENCE_S

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
FOR_A_MINUTE = " ".join((*FRUGAL, "-XX:ReservedCodeCacheSize=256m"))
"""Options of JVMs that live for a minute; the first compiler alone reserves 48 MB for code, which a job fills."""
CONF = {
    "spark.executor.memory": "900m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",  # without it the next two mean nothing: no task starts before both executors are there
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings of a driver on this machine."""


class StandaloneCluster:
    """A master and workers of one core each, which can be killed and added."""

    def __init__(self, folder: Path, stack: ExitStack, *, is_bound: bool) -> None:
        self._folder, self._stack, self._is_bound = folder, stack, is_bound
        self.workers: list[subprocess.Popen] = []
        master = self._start("master", "master.Master")
        self.address = _read_until(master, _MASTER.search).group(1)

    def add_worker(self) -> None:
        """Returns when the master knows it."""
        name = f"worker-{len(self.workers)}"
        place = ("--work-dir", str(self._folder / name), "--cores", "1", "--memory", "1g")
        # Spark counts cores, and binds nothing to them: a JVM and its Python worker take two where they find two.
        bound = ("taskset", "--cpu-list", str(len(self.workers))) if self._is_bound else ()
        worker = self._start(name, "worker.Worker", *place, self.address, before=bound)
        _read_until(worker, lambda line: _REGISTERED in line)
        self.workers.append(worker[1])

    def _start(self, name, program, *arguments, before=()):
        command = [
            *before,
            *(str(find_java().home / "bin/java"), "-cp", f"{SPARK_HOME}/jars/*", "-Xmx512m", *FRUGAL),
            *(f"org.apache.spark.deploy.{program}", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            *arguments,
        ]
        variables = {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13", "PYTHONPATH": str(ROOT)}
        log = self._folder / f"{name}.log"
        written = self._stack.enter_context(log.open("w"))
        process = subprocess.Popen(
            command, env={**os.environ, **variables, "SPARK_LOCAL_IP": "127.0.0.1"}, stdout=written, stderr=written
        )
        self._stack.callback(_end, process)
        return log, process


@contextmanager
def standalone_cluster(folder, *, worker_count=2, is_bound=False):
    """Starts a master and workers, where bound each on a processor of its own; yields the cluster; ends them all."""
    with ExitStack() as stack:
        cluster = StandaloneCluster(folder, stack, is_bound=is_bound)
        for _ in range(worker_count):
            cluster.add_worker()
        yield cluster


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
