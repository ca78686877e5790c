"""The whole chain: three hosts collect into a bucket, a run on two Spark workers writes its tables into another one.

``python -m tests.lab.faults.chain [--kills N] [--seed N]``: the committed capture, all of it, by the commands that users give, and
an S3 server, a master, two workers and an SMTP server as processes of their own. First nobody is disturbed, then a drawn
process is killed by SIGKILL at a drawn moment. What ended with an error is started again, as a person would. Oracle: the
tables and mails of a run on this machine's disks, without collector, bucket and cluster. Writes the table of `docs/evidence/scale.md`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from pipeline.config_file import load_config
from pipeline.model.window import format_instant
from tests.integration.object_store import ObjectStore
from tests.integration.standalone_cluster import ROOT, StandaloneCluster, standalone_cluster
from tests.lab.demo.recording import CLUSTER, prepare_demo
from tests.lab.faults.bed import LEFT_OUT, Outcome, Post
from tests.paper_rows import read_rows, with_rows
from tests.spark.capture_runs import FEW_CANDIDATES, compare, list_rows, make_secret

if TYPE_CHECKING:
    from collections.abc import Callable

PAPER = ROOT / "docs/evidence/scale.md"
HEAD = (
    "| killed | tries | commands started again | tables that differ | mails lost | doubled | repeated once "
    "| longest from first collector to last mail |\n|---|---|---|---|---|---|---|---|\n"
)
NOBODY, COLLECTOR, WORKER, DRIVER, STORE = VICTIMS = ("nobody", "collector", "worker", "driver", "S3 server")
DONE = {0, 4}  # healthy or not
MOST_STARTS = 4
STORE_AWAY_S = 2


class Chain:
    """The processes around the chain, and what it has to give."""

    def __init__(self, folder: Path, cluster: StandaloneCluster, store: ObjectStore, post: Post) -> None:
        self.folder, self.cluster, self.store, self.post = folder, cluster, store, post
        self.demo = prepare_demo(folder / "local")
        make_secret(folder / "local")
        self.hosts = sorted((folder / "local/capture/brokers").iterdir())
        self.document = yaml.safe_load(self.demo.config.read_text())
        self.document["mail"]["smtp"] = {"host": "127.0.0.1", "port": post.port, "tls": "none"}
        # with more, half of the time is the simulator's
        self.document |= {"candidates": FEW_CANDIDATES, "replay": {"seeds": 2}}
        self.sources = self.document["clusters"][CLUSTER]["sources"]
        self.sources[0]["paths"] = [str(host) for host in self.hosts]
        self.demo.config.write_text(yaml.safe_dump(self.document))
        self.lasts_s: dict[str, float] = {}

    def run_on_disks(self) -> None:
        """What everything is compared with."""
        outcome = self._until_done("run", self._command_run(self.demo.config), None)
        assert not outcome.lost, outcome
        self.expected = self._list_rows(self.demo.config)
        self.mails = set(self.post.list_arrived())

    def try_once(self, name: str, victim: str, rng: random.Random) -> tuple[int, Outcome, int]:
        """Collects, runs and compares; how often a command was started again, what it cost, and mails that never came."""
        config, arrived = self._write_config(name), len(self.post.list_arrived())
        collected_ms, started_s = load_config(config).clusters[CLUSTER].as_of, time.monotonic()
        steps = {
            host.name: [
                *("collect", str(host), "--config", str(config), "--host", host.name, "--rate", "1000"),
                *("--to", f"s3a://landing/{name}", "--as-of", format_instant(int(collected_ms.timestamp() * 1000))),
            ]
            for host in self.hosts
        } | {"run": self._command_run(config)}
        struck = rng.choice([host.name for host in self.hosts]) if victim == COLLECTOR else "run"
        total, again = Outcome(), 0
        for step, command in steps.items():
            kill = None
            if victim != NOBODY and step == struck:
                kill = (rng.random() * self.lasts_s[step], self._killer(victim, rng))
            outcome = self._until_done(step, command, kill)
            again += len(outcome.said)
            total.lost += outcome.lost
            total.said += outcome.said
        total.recovery_s = time.monotonic() - started_s
        mails = Counter(self.post.list_arrived()[arrived:])
        self._compare(total, config, mails, faults=victim != NOBODY)
        return again, total, len(self.mails - set(mails))

    def _compare(self, outcome: Outcome, config: Path, arrived: Counter[str], *, faults: int) -> None:
        found = compare(self.expected, self._list_rows(config))
        outcome.lost += [f"{name} {differs}" for name, differs in found.items()]
        outcome.doubled += [f"mail {name}: {count} times" for name, count in arrived.items() if count > 1 + faults]
        outcome.doubled += [f"mail {name} nobody expected" for name in arrived if name not in self.mails]
        outcome.repeats = sum(count - 1 for count in arrived.values())

    def _list_rows(self, config: Path) -> dict:
        """Rows by table, whichever of the two sources the logs came from."""
        tables = list_rows(load_config(config).warehouse, LEFT_OUT)
        kinds = {"log_directories", "collected"}
        return {
            name: (columns, Counter({_rename(row, kinds): count for row, count in rows.items()}))
            for name, (columns, rows) in tables.items()
        }

    def _until_done(self, step: str, command: list[str], kill: tuple[float, Callable] | None) -> Outcome:
        """Starts a command until it comes to its end; `said` has a line for each time that it did not."""
        outcome = Outcome()
        for _ in range(MOST_STARTS):
            began_s = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "pipeline", *command],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            if kill is not None:
                after_s, strike = kill
                try:
                    process.wait(after_s)
                except subprocess.TimeoutExpired:
                    strike(process)
                kill = None
            said, _ = process.communicate()
            if process.returncode in DONE:
                self.lasts_s.setdefault(step, time.monotonic() - began_s)
                return outcome
            outcome.said.append(f"{step} ended with {process.returncode}: {said.strip()[-300:]}")
        outcome.lost.append(f"{step} never came to its end")
        return outcome

    def _killer(self, victim: str, rng: random.Random) -> Callable[[subprocess.Popen], None]:
        def kill_group(process: subprocess.Popen) -> None:
            os.killpg(process.pid, signal.SIGKILL)

        def kill_worker(_: subprocess.Popen) -> None:
            worker = rng.choice([one for one in self.cluster.workers if one.poll() is None])
            worker.kill()
            worker.wait()
            self.cluster.add_worker()  # as systemd would

        def kill_store(_: subprocess.Popen) -> None:
            self.store.kill()
            time.sleep(STORE_AWAY_S)  # so that requests meet no server
            self.store.start()

        return {COLLECTOR: kill_group, DRIVER: kill_group, WORKER: kill_worker, STORE: kill_store}[victim]

    def _command_run(self, config: Path) -> list[str]:
        return ["run", "--config", str(config), "--window", str(self.demo.span), "--notify"]

    def _write_config(self, name: str) -> Path:
        folder, local = self.folder / name, self.demo.config.parent
        folder.mkdir()
        make_secret(folder)
        sources = [{"kind": "collected", "path": f"s3a://landing/{name}"}]
        for source in self.sources[1:]:
            place = {"path": str(local / source["path"])} if "path" in source else {}
            places = {"paths": [str(local / path) for path in source["paths"]]} if "paths" in source else {}
            sources.append(source | place | places)
        conf = {
            "spark.executor.memory": "900m",
            "spark.executor.cores": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        document = self.document | {
            "warehouse": f"s3a://tables/{name}",
            "storage": self.store.storage.model_dump(mode="json"),
            "spark": {"master": self.cluster.address, "driver_memory": "1g", "conf": conf},
            "clusters": {CLUSTER: self.document["clusters"][CLUSTER] | {"sources": sources}},
        }
        file = folder / "partition-health.yaml"
        file.write_text(yaml.safe_dump(document))
        return file


def _rename(row: tuple, kinds: set[str]) -> tuple:
    return tuple("logs" if isinstance(value, str) and value in kinds else value for value in row)


def main() -> int:
    """Runs the chain undisturbed and disturbed; 0 where nothing was lost or doubled."""
    parser = argparse.ArgumentParser(prog="make chain", description=__doc__)
    parser.add_argument("--kills", type=int, default=12, help="over collectors, workers, drivers and the S3 server")
    parser.add_argument("--seed", type=int, default=20261123)
    options = parser.parse_args()
    rng, found = random.Random(options.seed), defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="chain-") as name, ExitStack() as stack:
        folder = Path(name)
        store, post = ObjectStore(folder), Post(folder)
        stack.callback(post.stop)
        store.start()
        stack.callback(store.kill)
        chain = Chain(folder, stack.enter_context(standalone_cluster(folder)), store, post)
        chain.run_on_disks()
        sys.stdout.write(f"on disks: {chain.lasts_s.pop('run'):.0f} s, {len(chain.mails)} mails\n")
        order = [NOBODY, *(VICTIMS[1 + number % len(VICTIMS[1:])] for number in range(options.kills))]
        for number, victim in enumerate(order):
            found[victim].append(chain.try_once(f"try-{number}", victim, rng))
            sys.stdout.write(f"{victim}: {found[victim][-1][1]}\n")
            sys.stdout.flush()
            write_rows(found)
    tries = [one for rows in found.values() for one in rows]
    return int(any(outcome.lost or outcome.doubled or missing for _, outcome, missing in tries))


def write_rows(found: dict[str, list[tuple[int, Outcome, int]]]) -> None:
    """Writes the rows into the paper, in the order of `VICTIMS`."""
    text, rows = PAPER.read_text(), {}
    for victim, tries in found.items():
        sums = [
            len(tries),
            sum(again for again, _, _ in tries),
            sum(len(outcome.lost) for _, outcome, _ in tries),
            sum(missing for _, _, missing in tries),
            sum(len(outcome.doubled) for _, outcome, _ in tries),
            sum(outcome.repeats for _, outcome, _ in tries),
        ]
        longest_s = max(outcome.recovery_s for _, outcome, _ in tries)
        rows[victim] = f"| {victim} | {' | '.join(map(str, sums))} | {longest_s:.0f} s |\n"
    PAPER.write_text(with_rows(text, HEAD, read_rows(text, HEAD) | rows, VICTIMS))


if __name__ == "__main__":
    sys.exit(main())
