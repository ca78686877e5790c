"""A run of everything in a forked process, cheap enough to be disturbed hundreds of times.

Two topics and two minutes of the committed capture, in which an incident opens and ends, on Sail or on classic Spark. A
child begins with all modules loaded and starts an engine of its own: the threads of Sail and gRPC do not survive a fork, nor
does a JVM follow it, so the parent starts none. Mails go to a real SMTP server in a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import shutil
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from expectations import gates
from pipeline.config_file import load_config
from pipeline.errors import PipelineError, UnexpectedError
from pipeline.jobs import deliver_alerts, ingest
from pipeline.steps import judge_windows, replay_windows
from pipeline.storage.engines import running_engine
from pipeline.storage.locks import FOLDER
from pipeline.storage.session import SparkErrors
from tests.engines import SAIL
from tests.lab.archive import unpack_once
from tests.spark.capture_runs import FEW_CANDIDATES, Capture, compare, list_rows, plan
from tests.unit.alerting.smtp_servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

ROOT = Path(__file__).parents[3]
TOPICS = ("orders", "ledger")
SOURCES = ("log_directories", "consumer_groups", "producer_metrics")
ONE_OF_ONE = {"k": 1, "n": 1}  # so that an incident opens and ends within two windows
LEFT_OUT = ("gold.alert_outbox.payload",)  # its Date
HOUR_MS = 3_600_000
CONFIG = "partition-health.yaml"
JOBS = ("ingest", "gate", "replay", "health", "raise", "deliver")
STEPS = ("ingest", "gate", "replay", "health", "deliver")
"""Incidents are raised at the end of the step `health`."""


@dataclass
class Outcome:
    """What a try cost after the run that followed it: tables that differ, mails that never came, mails beyond the promise."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    repeats: int = 0
    recovery_s: float = 0.0
    said: list[str] = field(default_factory=list)


class Child:
    """A task in a forked process, the leader of a session; what it returns or raises comes back by a file."""

    def __init__(self, task, folder: Path) -> None:
        self._answer = folder / "answer.pickle"
        self._answer.unlink(missing_ok=True)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            self._work(task, folder)
        self.code: int | None = None

    def _work(self, task, folder: Path) -> None:
        log = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = 0
        try:
            result = task()
        except BaseException as error:  # noqa: BLE001 - everything goes to the parent
            traceback.print_exc()
            code, result = (
                1,
                (
                    isinstance(error, PipelineError) and not isinstance(error, UnexpectedError),
                    f"{type(error).__name__}: {error}",
                ),
            )
        with contextlib.suppress(OSError):
            self._answer.with_suffix(".part").write_bytes(pickle.dumps(result))
            self._answer.with_suffix(".part").rename(self._answer)
        os._exit(code)

    def poll(self) -> bool:
        """Whether it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def kill(self) -> bool:
        """Kills it and all that it started, as the end of a container does; False where it had ended by itself."""
        if not self.poll():
            below = psutil.Process(self.pid).children(recursive=True)
            os.kill(self.pid, signal.SIGKILL)
            kill_all(below)
        self.wait()
        return self.code == -signal.SIGKILL

    def wait(self):
        """The exit code, and what it returned, or whether its error is the project's own and the words."""
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code, pickle.loads(self._answer.read_bytes()) if self._answer.exists() else None


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to each that still lives."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


class Post:
    """An SMTP server in a process of its own, which notes the Message-ID of every mail."""

    def __init__(self, folder: Path) -> None:
        self.port, self._log = free_port(), folder / "mails.txt"
        self._log.touch()
        self._child = Child(self._serve, folder)
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)

    def _serve(self) -> None:
        from aiosmtpd.controller import Controller  # noqa: PLC0415 - threads begin in the child

        Controller(self, hostname="127.0.0.1", port=self.port).start()
        signal.pause()

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - aiosmtpd's name
        head = envelope.original_content.partition(b"\r\n\r\n")[0].decode()
        (line,) = [one for one in head.splitlines() if one.lower().startswith("message-id:")]
        with self._log.open("a") as log:
            log.write(line.partition(":")[2].strip().strip("<>") + "\n")
        return "250 kept"

    def list_arrived(self) -> list[str]:
        """Message-IDs so far."""
        return self._log.read_text().splitlines()

    def stop(self) -> None:
        """Ends the server."""
        self._child.kill()


def _take(step: str, context: RunContext, spark: SparkSession) -> None:
    if step == "ingest":
        ingest.run(spark, context)
    elif step == "gate":
        gates.check_ingested(spark, context)
    elif step == "replay":
        replay_windows(spark, context)
    else:
        judge_windows(spark, context)


class Bed:
    """A recording, an undisturbed run of it with a snapshot before each step, and tries that begin with one of them."""

    def __init__(self, folder: Path, spark: dict[str, object] = SAIL) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.post = Post(folder)
        capture = unpack_once(ROOT / "tests/data/capture.tar.zst", ROOT / "build")
        manifest = json.loads((capture / "manifest.json").read_text())
        clock = manifest["clock"]
        whole = Capture(capture, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
        part = whole.part(folder / "capture", topics=TOPICS, scrapes=("producers/orders",))
        well_again = whole.minute_of(manifest["slow"]["to_ms"])
        self.span = whole.span(well_again - 1, well_again + 1)
        self.halves = (whole.span(well_again - 1, well_again), whole.span(well_again, well_again + 1))
        smtp = {"host": "127.0.0.1", "port": self.post.port, "tls": "none"}
        part.write_config(
            folder / "start",
            topics=TOPICS,
            sources=SOURCES,
            gate=ONE_OF_ONE,
            mail={"to": ["kafka-platform@example.org"], "smtp": smtp},
            spark=spark,
            candidates=FEW_CANDIDATES[:1],
        )
        self.durations_s: dict[str, float] = {}  # of the first time, which loads modules
        self._run_undisturbed()

    def _run_undisturbed(self) -> None:
        quiet = self.folder / "undisturbed"
        shutil.copytree(self.folder / "start", quiet)
        for step in STEPS:
            self._snapshot(quiet, step)
            (quiet / "marks.txt").unlink(missing_ok=True)
            child = self.start(quiet, (step,))
            self.wait_for_step(child, quiet)
            before_s = time.monotonic()
            code, modules = child.wait()
            self.durations_s[step] = time.monotonic() - before_s
            assert code == 0, (quiet / "output.txt").read_text()
            for name in modules:  # children find them loaded
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        code, self.expected = Child(lambda: list_rows(quiet / "warehouse", LEFT_OUT), quiet).wait()
        assert code == 0, self.expected
        self.mails = Counter(self.post.list_arrived())
        assert set(self.mails.values()) == {1}, self.mails

    def _snapshot(self, source: Path, step: str) -> None:
        shutil.copytree(source, self.folder / "before" / step)

    @property
    def work(self) -> Path:
        """The folder of the current try."""
        return self.folder / "try"

    def restore(self, step: str) -> Path:
        """Begins a try with what was there before a step."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.folder / "before" / step, self.work)
        (self.work / "marks.txt").unlink(missing_ok=True)
        return self.work

    def start(
        self, folder: Path, steps=STEPS, *, hours=0, span=None, force=False, prepare=lambda: None, log=None
    ) -> Child:
        """Takes steps in a child.

        Args:
            folder: Of the configuration and the warehouse.
            steps: Some of `STEPS`.
            hours: By which the child's clock is ahead.
            span: The windows; all by default.
            force: As the command's option.
            prepare: Called in the child before the steps.
            log: Where the child writes what it says and begins; the same folder by default.
        """

        def mark(step: str) -> None:
            with ((log or folder) / "marks.txt").open("a") as marks:
                marks.write(f"{step}\n")

        def take() -> list[str]:
            prepare()
            config = load_config(folder / CONFIG)
            now_ms = self.span.end_ms + 60_000 + hours * HOUR_MS
            context = plan(config, span or self.span, now_ms=now_ms, force=force)
            on_engine = [step for step in steps if step != "deliver"]
            with ExitStack() as stack:
                if on_engine:
                    spark = stack.enter_context(running_engine(config.spark, app_name="faults"))
                    stack.enter_context(SparkErrors())  # within, as in `take_steps`: it asks whether the JVM lives
                for step in on_engine:
                    mark(step)
                    _take(step, context, spark)
            if "deliver" in steps:  # after the engine, as the command and its DAG do
                mark("deliver")
                deliver_alerts.run(config, config.mail.smtp, now_ms=context.now_ms).check()
            return sorted(sys.modules)

        return Child(take, log or folder)

    def wait_for_step(self, child: Child, folder: Path) -> None:
        """Waits until its first step begins: its engine has started then."""
        marks = folder / "marks.txt"
        while not (marks.exists() and marks.read_text()) and not child.poll():
            time.sleep(0.001)

    def find_job(self, folder: Path, since_s: float) -> str:
        """The job that was at work; of what raises incidents, their own commit is the first."""
        step = (folder / "marks.txt").read_text().split()[-1]
        commits = (folder / "warehouse/gold/incidents/_delta_log").glob("*.json")
        return "raise" if step == "health" and any(path.stat().st_mtime > since_s for path in commits) else step

    def recover(
        self, arrived_before: int, *, faults: int, hours: float = 1, force: bool = False, earlier=()
    ) -> Outcome:
        """Runs everything once more, as an operator would, then compares.

        `faults`: repeats the promise allows a mail; `earlier`: mails that arrived before those to look at.
        """
        started_s, outcome = time.monotonic(), Outcome()
        code, answer = self.start(self.work, hours=hours, force=force).wait()
        outcome.recovery_s = time.monotonic() - started_s
        if code:
            outcome.lost.append(f"no recovery: {answer}")
            return outcome
        code, found = Child(
            lambda: compare(self.expected, list_rows(self.work / "warehouse", LEFT_OUT)), self.work
        ).wait()
        outcome.lost += [f"{name} {counts}" for name, (counts, _) in found.items()] if code == 0 else [str(found)]
        outcome.lost += [f"parts left behind: {one}" for one in (self.work / "warehouse" / FOLDER).iterdir()]
        arrived = Counter((*earlier, *self.post.list_arrived()[arrived_before:]))
        outcome.lost += [f"mail {name}" for name in self.mails if not arrived[name]]
        outcome.doubled += [f"mail {name}: {count} times" for name, count in arrived.items() if count > 1 + faults]
        outcome.doubled += [f"mail {name} nobody expected" for name in arrived if name not in self.mails]
        outcome.repeats = sum(count - 1 for count in arrived.values())
        return outcome
