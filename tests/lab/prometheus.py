"""A real Prometheus server on loopback, scraping what it is told."""

from __future__ import annotations

import base64
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import yaml

from tests.lab.process import PATIENCE_S, LabError, Process, free_ports, is_listening, start_program, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

PROGRAM = "prometheus"


@dataclass(frozen=True, slots=True)
class Job:
    """Loopback ports that are scraped every so many seconds, which is also as long as an answer may take."""

    ports: Sequence[int]
    interval_s: int


class Prometheus:
    """A running server.

    Attributes:
        url: Its base address.
    """

    def __init__(self, port: int, process: Process, login: tuple[str, str] | None = None) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.process = process
        self._headers = {}
        if login is not None:
            self._headers["Authorization"] = f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"

    def is_ready(self) -> bool:
        """Whether it answers queries; its port is open before."""
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{self.url}/-/ready", headers=self._headers), timeout=PATIENCE_S
            ):
                return True
        except urllib.error.HTTPError as refused:
            if refused.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return False

    def query(self, promql: str, *, at_s: float | None = None) -> list[dict[str, object]]:
        """The result of an instant query, now or at an instant."""
        asked = {"query": promql} if at_s is None else {"query": promql, "time": str(at_s)}
        body = urllib.parse.urlencode(asked).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/query", data=body, headers=self._headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]["result"]

    def wait_until_scraped(self, job: str, targets: int) -> None:
        """Waits until the last scrape of so many targets of a job succeeded."""
        query = f'up{{job="{job}"}} == 1'
        wait_until(lambda: len(self.query(query)) == targets, f"scrape of {targets} {job}", self.process)


def find_prometheus() -> str | None:
    """The server's program, where the package `prometheus` is installed."""
    return shutil.which(PROGRAM)


@contextmanager
def start_prometheus(
    root: Path,
    jobs: Mapping[str, Job],
    *,
    web_config: Mapping[str, object] | None = None,
    login: tuple[str, str] | None = None,
) -> Iterator[Prometheus]:
    """A server for as long as the block lasts.

    Args:
        root: an empty folder for its data.
        jobs: what to scrape, by job name.
        web_config: its own web configuration (users, TLS), where it has one.
        login: user and password that `query` sends.

    Raises:
        LabError: it is not installed, or did not start.
    """
    program = find_prometheus()
    if program is None:
        raise LabError("no prometheus on this machine: install the package prometheus")
    root.mkdir(parents=True, exist_ok=True)
    port = free_ports(1)[0]
    config = root / "prometheus.yml"
    config.write_text(yaml.safe_dump(_config(jobs)))
    command = [
        program, f"--config.file={config}", f"--storage.tsdb.path={root / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    if web_config is not None:
        (root / "web.yml").write_text(yaml.safe_dump(dict(web_config)))
        command.append(f"--web.config.file={root / 'web.yml'}")
    process = start_program(PROGRAM, command, root / "prometheus.log")
    try:
        wait_until(lambda: is_listening(port), "open port", process)
        server = Prometheus(port, process, login)
        wait_until(server.is_ready, "readiness", process)
        yield server
    finally:
        process.stop()


def _config(jobs: Mapping[str, Job]) -> dict[str, object]:
    return {
        "scrape_configs": [
            {
                "job_name": name,
                "scrape_interval": f"{job.interval_s}s",
                "scrape_timeout": f"{job.interval_s}s",
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in job.ports]}],
            }
            for name, job in jobs.items()
        ]
    }
