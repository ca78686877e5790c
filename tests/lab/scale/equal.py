"""One input by several sources on four engines: which columns differ, and why.

``make equal [ARGS="--base FOLDER --only ENGINE"]``: three minutes of two topics of the committed capture, as log directories and
as hosts collected them; and three minutes of traffic on three real brokers, as their log directories, collected, and asked
of the brokers while they run. Each goes through all jobs on classic local Spark, a standalone cluster of two workers, a Spark Connect
server and Sail. ``--base``: a checkout of another version with its `.venv`, which reads the same; of it the columns that
both versions have are compared. Writes the tables of `docs/evidence/equal.md`; 1 where a column differs that no reason is known for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from pipeline.cli import main as run_cli
from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow, format_instant
from pipeline.steps import STEPS, take_steps
from tests.config_files import write_configuration
from tests.engines import SAIL
from tests.integration.live.runs import wait_for_checkpoints
from tests.integration.standalone_cluster import CONF, ROOT, standalone_cluster
from tests.integration.test_connect_server import connect_server
from tests.lab.archive import unpack_once
from tests.lab.bench.figures import write_between
from tests.lab.cluster import WRITES_ONLY_CHANGES, start_cluster
from tests.lab.live_traffic import MINUTE_MS, MINUTES, coming_minutes, create_topics, produce
from tests.lab.live_traffic import TOPICS as PRODUCED
from tests.lab.recording import sleep_until
from tests.lab.scale.differences import (
    BASE,
    COLLECTED,
    CONNECT,
    DISKS,
    ENGINES,
    INPUTS,
    LIVE,
    ON_SAIL,
    RECORDED,
    TRAFFIC,
    WORKERS,
    find_differences,
    find_reason,
    format_paper,
)
from tests.spark.capture_runs import CLUSTER, FEW_CANDIDATES, Capture, make_secret, plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.lab.cluster import Cluster

PAPER = ROOT / "docs/evidence/equal.md"
TOPICS = ("orders", "ledger")
SCRAPES = ("producers/orders", "brokers/1")
OTHERS = ("producer_metrics", "broker_metrics")
ONE_OF_ONE = {"k": 1, "n": 1}


@dataclass(frozen=True)
class Given:
    """What is read: the part of the capture, the running brokers, and what hosts collected of both, by input."""

    capture: Capture
    cluster: Cluster | None
    spans: dict[str, TimeWindow]
    landing: Path

    def write_config(self, folder: Path, given: str, source: str, spark: Mapping[str, object]) -> Path:
        """A configuration with tables of its own; returns the file."""
        if given == RECORDED:
            self.capture.write_config(
                folder,
                topics=TOPICS,
                sources=(DISKS, *OTHERS),
                gate=ONE_OF_ONE,
                candidates=FEW_CANDIDATES[:1],
                spark=dict(spark),
            )
            path = folder / "partition-health.yaml"
            document = yaml.safe_load(path.read_text())
        else:
            disks = {"kind": DISKS, "paths": [str(one) for one in self.list_disks(given)]}
            named = {CLUSTER: {"topics": list(PRODUCED), "sources": [disks], "gate": ONE_OF_ONE}}
            more = {"window": "PT1M", "candidates": FEW_CANDIDATES[:1], "replay": {"seeds": 2}, "spark": dict(spark)}
            path = write_configuration(folder, named, mail={"to": ["kafka-platform@example.org"]}, **more)
            make_secret(folder)
            document = yaml.safe_load(path.read_text())
        if source == COLLECTED:
            document["clusters"][CLUSTER]["sources"][0] = {"kind": source, "path": str(self.landing / given)}
        elif source == LIVE:
            servers = self.cluster.bootstrap if self.cluster else ""
            document["clusters"][CLUSTER]["sources"][0] = {"kind": source, "bootstrap_servers": servers}
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def list_disks(self, given: str) -> list[Path]:
        """Log directories by host."""
        if given == RECORDED:
            return sorted((self.capture.folder / "brokers").iterdir())
        return [broker.log_directory for broker in self.cluster.brokers] if self.cluster else []

    def clock_ms(self, given: str) -> int:
        """The clock of a run: windows and what they allow for lateness are over."""
        return self.spans[given].end_ms + 2 * MINUTE_MS

    def collect(self, folder: Path) -> None:
        """Collects what there is, host by host."""
        for given in self.spans:
            config = self.write_config(folder / given, given, COLLECTED, SAIL)
            for command in self.iter_collects(given, self.landing / given, config):
                code = run_cli(command)
                assert code == 0, f"{' '.join(command)}: exit code {code}"

    def iter_collects(self, given: str, landing: Path, config: Path) -> Iterator[list[str]]:
        """The command of each host that collects an input into a landing folder."""
        now = format_instant(self.capture.recorded_until_ms if given == RECORDED else self.clock_ms(given))
        for host in self.list_disks(given):
            to = ("--to", str(landing), "--host", host.name, "--rate", "1000")
            yield ["collect", str(host), *to, "--config", str(config), "--as-of", now]


@contextmanager
def prepared(folder: Path, wanted: Sequence[str]) -> Iterator[Given]:
    """What is read; the brokers run for as long as the block."""
    whole_folder = unpack_once(ROOT / "tests/data/capture.tar.zst", ROOT / "build")
    manifest = json.loads((whole_folder / "manifest.json").read_text())
    clock = manifest["clock"]
    whole = Capture(whole_folder, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
    capture = whole.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    well_again = whole.minute_of(manifest["slow"]["to_ms"])
    spans = {RECORDED: whole.span(well_again - 2, well_again + 1)}
    with ExitStack() as stack:
        cluster = None
        if TRAFFIC in wanted:
            cluster = stack.enter_context(
                start_cluster(folder / "live", 3, controller_settings=WRITES_ONLY_CHANGES, is_brief=True)
            )
            create_topics(cluster)
            start_ms = coming_minutes()
            produce(cluster.bootstrap, start_ms)
            wait_for_checkpoints(cluster)
            spans[TRAFFIC] = TimeWindow(start_ms, start_ms + MINUTES * MINUTE_MS)
        found = Given(capture, cluster, spans, folder / "landing")
        found.collect(folder / "collecting")
        yield found


def run_command(project: Path, *command: str | Path) -> None:
    """A Python program of a checkout in a process of its own; an unhealthy verdict is none of its errors.

    Raises:
        RuntimeError: It ended otherwise.
    """
    python = project / ".venv/bin/python" if project != ROOT else Path(sys.executable)
    done = subprocess.run(
        [python, *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    if done.returncode not in {0, 4}:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr[-4000:]}")


def take_all(plans: Sequence[tuple[str, int, int, int]]) -> int:
    """All steps, and what they queued, in one session for several configurations: file, first and last instant, clock."""
    contexts = [
        plan(load_config(Path(file)), TimeWindow(start_ms, end_ms), now_ms=now_ms)
        for file, start_ms, end_ms, now_ms in plans
    ]
    _, errors = take_steps(tuple(contexts), STEPS, lambda *_: None)
    for error in errors:
        sys.stderr.write(f"{error}\n")
    return len(errors)


@contextmanager
def running(engine: str, folder: Path) -> Iterator[dict[str, object]]:
    """The section `spark` of a configuration, while what it names runs."""
    folder.mkdir()
    with ExitStack() as stack:
        if engine == WORKERS:
            master = stack.enter_context(standalone_cluster(folder)).address
            yield {"master": master, "driver_memory": "1g", "conf": CONF}
        elif engine == CONNECT:
            yield {"remote": stack.enter_context(connect_server(folder))}
        else:
            yield SAIL if engine == ON_SAIL else {"master": "local[2]", "driver_memory": "1g"}


def main() -> int:
    """Runs all, compares with the disks on the first engine, and writes the tables."""
    parser = argparse.ArgumentParser(prog="make equal", description=__doc__)
    parser.add_argument("--base", type=Path, help="a checkout of another version, with a .venv")
    parser.add_argument("--keep", type=Path, help="a folder for all that is made; else it goes")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--given", nargs="+", choices=(RECORDED, TRAFFIC), default=(RECORDED, TRAFFIC))
    parser.add_argument("--take", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.take:
        return take_all(options.take)
    with tempfile.TemporaryDirectory(prefix="equal-") as name, ExitStack() as stack:
        folder = options.keep or Path(name)
        given = stack.enter_context(prepared(folder, options.given))
        warehouses = {}
        with ThreadPoolExecutor(len(options.only)) as pool:  # each waits for a process
            for found in pool.map(partial(run_engine, given, folder=folder), options.only):
                warehouses |= found
        if options.base:
            warehouses |= run_other(options.base.resolve(), given, folder / "other")
        found = {
            key: find_differences(warehouses[options.only[0], key[1], DISKS], place)
            for key, place in warehouses.items()
        }
    (ROOT / "build/equal.json").write_text(
        json.dumps({", ".join(key): value for key, value in found.items()}, indent=1)
    )
    write_between(PAPER, "", format_paper(found), word="equal")
    unknown = [(key, name) for key, names in found.items() for name in names if not find_reason(key, name)]
    for key, name in unknown:
        sys.stdout.write(f"{', '.join(key)}: {name}: {found[key][name]}\n")
    return int(bool(unknown))


def run_engine(given: Given, engine: str, *, folder: Path) -> dict[tuple[str, str, str], Path]:
    """All inputs in one session of an engine; their warehouses."""
    place, plans, warehouses = folder / engine.replace(" ", "-"), [], {}
    with running(engine, place) as spark:
        for name, source in (one for one in INPUTS if one[0] in given.spans):
            config = given.write_config(place / name / source, name, source, spark)
            span = given.spans[name]
            plans.append((str(config), span.start_ms, span.end_ms, given.clock_ms(name)))
            warehouses[engine, name, source] = config.parent / "warehouse"
        run_command(ROOT, "-m", "tests.lab.scale.equal", "--take", json.dumps(plans))
    sys.stderr.write(f"{engine}: done\n")
    return warehouses


def run_other(project: Path, given: Given, folder: Path) -> dict[tuple[str, str, str], Path]:
    """All inputs through all jobs of another version, which has no engines nor zones, and collects for itself."""
    warehouses = {}
    for name, source in (one for one in INPUTS if one[0] in given.spans):
        config = given.write_config(folder / name / source, name, source, SAIL)
        document = yaml.safe_load(config.read_text())
        del document["spark"]
        cluster = document["clusters"][CLUSTER]
        cluster.pop("zones", None)
        commands: list[list[str]] = []
        if source == COLLECTED:
            landing = folder / "landing" / name
            cluster["sources"][0]["path"] = str(landing)
            commands += given.iter_collects(name, landing, config)
        config.write_text(yaml.safe_dump(document, sort_keys=False))
        for command in commands:
            run_command(project, "-m", "pipeline", *command)
        span = str(given.spans[name])
        sleep_until(given.clock_ms(name))  # its `run` goes by the clock
        run_command(project, "-m", "pipeline", "run", "--config", config, "--window", span, "--no-notify")
        warehouses[BASE, name, source] = config.parent / "warehouse"
    return warehouses


if __name__ == "__main__":
    sys.exit(main())
