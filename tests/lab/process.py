"""Processes of the lab: each in its own group, each stopped by its own id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.artifacts import java_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


PATIENCE_S = 600
"""How long is waited for a condition: it ends what hangs, so it is far above what a slow and busy machine takes."""
LOWEST_PORT, HIGHEST_PORT = 10_000, 32_768
_LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_reserved: dict[int, socket.socket] = {}


class LabError(RuntimeError):
    """A process of the lab did not do what it should."""


# Many small JVMs share few cores: one compiler stage and one collector thread each keep them out of each other's way.
FRUGAL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:CICompilerCount=1")


@dataclass
class Process:
    """One running program and the file its output goes to."""

    name: str
    popen: subprocess.Popen[bytes]
    output: Path

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.popen.poll() is None

    def send_line(self, line: str) -> None:
        """Write one line to its standard input."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(line.encode() + b"\n")
        self.popen.stdin.flush()

    def wait(self, timeout_s: float) -> int:
        """Its exit code.

        Raises:
            LabError: it is still running after ``timeout_s``.
        """
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired as still_running:
            raise LabError(f"{self.name} has not ended within {timeout_s} s:\n{self.tail()}") from still_running

    def stop(self, timeout_s: float = 30) -> None:
        """Ask it to end, with its whole group; insist when it does not."""
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        if self.is_running():
            os.killpg(self.popen.pid, signal.SIGTERM)
            try:
                self.popen.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(self.popen.pid, signal.SIGKILL)
                self.popen.wait(PATIENCE_S)

    def tail(self, length: int = 3000) -> str:
        """The end of its output."""
        return self.output.read_text(errors="replace")[-length:]


def start_java(
    name: str,
    arguments: Sequence[str],
    output: Path,
    *,
    heap_mb: int = 96,
    options: Sequence[str] = FRUGAL,
    with_input: bool = False,
) -> Process:
    """Start ``java`` in a new process group with its output in a file."""
    command = [str(java_program()), f"-Xmx{heap_mb}m", *options, *arguments]
    return start_program(name, command, output, with_input=with_input)


def start_program(name: str, command: Sequence[str], output: Path, *, with_input: bool = False) -> Process:
    """Start a program in a new process group with its output in a file."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as sink:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Process(name, popen, output)


def wait_until(condition: Callable[[], bool], what: str, process: Process, timeout_s: float = PATIENCE_S) -> None:
    """Poll until ``condition``.

    Raises:
        LabError: the process ended, or time ran out.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if not process.is_running():
            raise LabError(f"{process.name} ended before {what}:\n{process.tail()}")
        if time.monotonic() > deadline:
            raise LabError(f"{process.name}: no {what} within {timeout_s} s:\n{process.tail()}")
        time.sleep(0.05)


def wait_until_ready(process: Process) -> None:
    """Wait until it has printed `ready`."""
    wait_until(lambda: "ready" in process.tail(), "readiness", process)


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections on that loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody uses, and that nobody else is given for as long as this process lives.

    They lie below those that the kernel hands out, so no connection and no server without a port of its own takes one
    before ours listens. On Linux a socket of the port's name, in no folder, keeps the lab's other processes off it.
    """
    return [_reserve_port() for _ in range(count)]


def _reserve_port() -> int:
    is_linux = _LOCAL_PORTS.exists()
    first_local = int(_LOCAL_PORTS.read_text().split()[0]) if is_linux else HIGHEST_PORT
    highest = min(first_local, HIGHEST_PORT) if first_local > 2 * LOWEST_PORT else HIGHEST_PORT
    while True:
        port = random.SystemRandom().randrange(LOWEST_PORT, highest)
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe, suppress(OSError):  # taken
            if is_linux:
                name.bind(f"\0partition-health-port-{port}")
            probe.bind(("127.0.0.1", port))
            _reserved[port] = name
            return port
        name.close()
