"""Airflow in processes of its own: nothing of it is imported into pytest, and every process ends with the test."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dags.serve import airflow_environment
from tests.lab.process import PATIENCE_S

ROOT = Path(__file__).parents[2]
AIRFLOW = Path(sys.executable).with_name("airflow")
PATIENT = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": f"{PATIENCE_S}",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": f"{PATIENCE_S}",
    "PYTHONDONTWRITEBYTECODE": "",
}
"""A busy machine may take longer to load a DAG than 30 s; compiled modules halve Airflow's start."""


@dataclass(frozen=True)
class AirflowHome:
    """A folder with Airflow's database, and the configuration its DAGs read."""

    folder: Path
    config: Path
    overrides: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """Variables for every process of this home; nobody else's settings of Airflow leak in."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return own | airflow_environment(self.folder, self.config) | PATIENT | self.overrides

    def copy_to(self, folder: Path, config: Path, **overrides: str) -> "AirflowHome":
        """The same database once more, for another test."""
        folder.mkdir(parents=True)
        shutil.copy(self.folder / "airflow.db", folder)
        return AirflowHome(folder, config, overrides)

    def run_script(self, name: str, *arguments: str, timeout_s: float = 3 * PATIENCE_S) -> Any:
        """Run a module of this folder; the JSON on the last line of its output."""
        done = self.run([sys.executable, "-m", f"tests.dags.{name}", *arguments], timeout_s=timeout_s)
        return json.loads(done.stdout.splitlines()[-1])

    def run(self, command: list[str], timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run a command of this home to its end; a failure shows its output."""
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    @contextmanager
    def service(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """`airflow COMMAND…` in its own process group, ended at exit; its output is added to a log of its name."""
        with (self.folder / f"{command[0]}.log").open("ab") as sink:
            streams = {"stdin": subprocess.DEVNULL, "stdout": sink, "stderr": subprocess.STDOUT}
            of = {"cwd": self.folder, "env": self.environment, "start_new_session": True}
            process = subprocess.Popen([AIRFLOW, *command], **streams, **of)
            try:
                yield process
            finally:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None or sign == signal.SIGKILL:
            try:
                os.killpg(process.pid, sign)  # the group: children outlive their parent
                process.wait(15)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
