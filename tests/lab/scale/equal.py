"""The committed capture by three sources on four engines: which columns differ, and why.

``make equal [ARGS="--base FOLDER --only ENGINE"]``: three minutes of two topics as log directories, as hosts
collected them, and asked of real brokers whose logs they are; each through all jobs on classic local Spark, a standalone
cluster of two workers, a Spark Connect server and Sail. ``--base``: a checkout of another version with its `.venv`, which reads
the disks too; of it the columns that both versions have are compared. Writes the table of `docs/evidence/scale.md`; 1 where a
column differs that no reason is known for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from deltalake import DeltaTable

from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES
from tests.engines import SAIL
from tests.integration.standalone_cluster import CONF, ROOT, standalone_cluster
from tests.integration.test_connect_server import connect_server
from tests.lab.archive import unpack_once
from tests.lab.bench.figures import write_between
from tests.lab.cluster import start_cluster
from tests.spark.capture_runs import CLUSTER, Capture, comparable_value, stable_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.model.window import TimeWindow
    from pipeline.tables import Table

PAPER = ROOT / "docs/evidence/scale.md"
TOPICS = ("orders", "ledger")
SCRAPES = ("producers/orders", "brokers/1")
OTHERS = ("producer_metrics", "broker_metrics")
ONE_OF_ONE = {"k": 1, "n": 1}
AS_THEY_ARE = {"log.retention.ms": "-1", "log.retention.check.interval.ms": "86400000", "log.cleaner.enable": "false"}
"""Settings of brokers that delete nothing of what they are given."""
DISKS, COLLECTED, LIVE = SOURCES = ("log_directories", "collected", "live_cluster")
CLASSIC, WORKERS, CONNECT, ON_SAIL = ENGINES = ("classic Spark", "two workers", "Spark Connect", "Sail")
BASE = "the other version"

REASONS: dict[tuple[str, str], str] = {}
"""Why columns differ, by the source or engine and the column, or the table for all of its rows."""


@dataclass(frozen=True)
class Input:
    """The part of the capture, and how each source finds it."""

    capture: Capture
    span: TimeWindow
    landing: Path
    bootstrap: str

    def write_config(self, folder: Path, source: str, spark: Mapping[str, object]) -> Path:
        """A configuration with tables of its own; returns the file."""
        self.capture.write_config(
            folder,
            topics=TOPICS,
            sources=(DISKS, *OTHERS),
            gate=ONE_OF_ONE,
            spark=dict(spark),
        )
        path = folder / "partition-health.yaml"
        document = yaml.safe_load(path.read_text())
        first = {COLLECTED: {"path": str(self.landing)}, LIVE: {"bootstrap_servers": self.bootstrap}}
        if source in first:
            document["clusters"][CLUSTER]["sources"][0] = {"kind": source, **first[source]}
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path


@contextmanager
def prepared(folder: Path) -> Iterator[Input]:
    """The part of the capture, collected; brokers that serve it run for as long as the block."""
    whole_folder = unpack_once(ROOT / "tests/data/capture.tar.zst", ROOT / "build")
    manifest = json.loads((whole_folder / "manifest.json").read_text())
    clock = manifest["clock"]
    whole = Capture(whole_folder, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
    capture = whole.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    well_again = whole.minute_of(manifest["slow"]["to_ms"])
    brokers = capture.folder / "brokers"
    with start_cluster(folder / "live", 3, left=brokers, settings=AS_THEY_ARE, is_brief=True) as cluster:
        found = Input(capture, whole.span(well_again - 2, well_again + 1), folder / "landing", cluster.bootstrap)
        config = found.write_config(folder / "collecting", COLLECTED, SAIL)
        for host in sorted(brokers.iterdir()):
            to = ("--to", str(found.landing), "--host", host.name, "--rate", "1000")
            run_command(ROOT, "collect", str(host), *to, "--config", str(config), "--as-of", _as_of(config))
        yield found


def _as_of(config: Path) -> str:
    return yaml.safe_load(config.read_text())["clusters"][CLUSTER]["as_of"]


def run_command(project: Path, *command: str) -> None:
    """A command of the project in a process of its own; an unhealthy verdict is none of its errors.

    Raises:
        RuntimeError: It ended otherwise.
    """
    python = project / ".venv/bin/python" if project != ROOT else Path(sys.executable)
    done = subprocess.run(
        [python, "-m", "pipeline", *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 4}:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-4000:]}")


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


def list_columns(warehouse: Path, table: Table) -> tuple[list[tuple], dict[str, list]]:
    """The keys of a table's rows, ascending, and its stable columns in this order."""
    rows = load_rows(warehouse, table)
    held = {field.name for field in DeltaTable(table_path(warehouse, table)).schema().fields}
    values = {
        name: [_without_date(comparable_value(value, rows[name].type)) for value in rows[name].to_pylist()]
        for name in rows.column_names
        if name in held
    }
    keys = list(zip(*(values[name] for name in table.key), strict=True))
    order = sorted(range(len(keys)), key=lambda place: str(keys[place]))
    kept = [name for name in stable_columns(table) if name in values]
    return [keys[place] for place in order], {name: [values[name][place] for place in order] for name in kept}


def _without_date(value: object) -> object:
    """A decoded mail without its header `Date`, which is the clock; other values as they are."""
    is_mail = isinstance(value, tuple) and any(str(part).startswith("('Message-ID'") for part in value)
    return tuple(part for part in value if not str(part).startswith("('Date'")) if is_mail else value


def find_differences(left: Path, right: Path) -> dict[str, str]:
    """What differs, by column or, where rows lack or are more, by table: how much."""
    found = {}
    for table in TABLES:
        (left_keys, left_columns), (right_keys, right_columns) = (list_columns(side, table) for side in (left, right))
        if left_keys != right_keys:
            found[table.name] = f"{len(left_keys)} and {len(right_keys)} rows"
        common = sorted({*left_keys} & {*right_keys}, key=str)
        places = [{key: place for place, key in enumerate(keys)} for keys in (left_keys, right_keys)]
        for name in left_columns.keys() & right_columns.keys():
            pairs = ((left_columns[name][places[0][key]], right_columns[name][places[1][key]]) for key in common)
            unlike = [pair for pair in pairs if pair[0] != pair[1]]
            if unlike:
                found[f"{table.name}.{name}"] = f"{len(unlike)} of {len(common)} rows, such as {str(unlike[0])[:300]}"
    return found


def main() -> int:
    """Runs all, compares with the disks on classic Spark, and writes the table."""
    parser = argparse.ArgumentParser(prog="make equal", description=__doc__)
    parser.add_argument("--base", type=Path, help="a checkout of another version, with a .venv")
    parser.add_argument("--keep", type=Path, help="a folder for all that is made; else it goes")
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=ENGINES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="equal-") as name, ExitStack() as stack:
        folder = options.keep or Path(name)
        given = stack.enter_context(prepared(folder))
        warehouses = {}
        for engine in options.only:
            place = folder / engine.replace(" ", "-")
            with running(engine, place) as spark:
                for source in SOURCES:
                    config = given.write_config(place / source, source, spark)
                    run_command(ROOT, "run", "--config", str(config), "--window", str(given.span), "--no-notify")
                    warehouses[engine, source] = config.parent / "warehouse"
                    sys.stderr.write(f"{engine}, {source}: done\n")
        if options.base:
            warehouses[BASE, DISKS] = run_other(options.base.resolve(), given, folder / "other")
        found = {key: find_differences(warehouses[options.only[0], DISKS], place) for key, place in warehouses.items()}
    (ROOT / "build/equal.json").write_text(
        json.dumps({", ".join(key): value for key, value in found.items()}, indent=1)
    )
    unknown = {key: sorted(name for name in value if not find_reason(key, name)) for key, value in found.items()}
    write_between(PAPER, "", format_paper(found), word="equal")
    for key, names in unknown.items():
        for name in names:
            sys.stdout.write(f"{key[0]}, {key[1]}: {name}: {found[key][name]}\n")
    return int(any(unknown.values()))


def run_other(project: Path, given: Input, folder: Path) -> Path:
    """The disks through all jobs of another version, whose configuration has no engine."""
    config = given.write_config(folder, DISKS, SAIL)
    document = yaml.safe_load(config.read_text())
    del document["spark"]
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    run_command(project, "run", "--config", str(config), "--window", str(given.span), "--no-notify")
    return folder / "warehouse"


def find_reason(key: tuple[str, str], name: str) -> str:
    """Why a column differs in a run; nothing where no reason is known."""
    table, column = name.split(".")[:2], name.rpartition(".")[2]
    wheres = (key[1], key[0])
    names = (name, ".".join(table), column)
    return next((REASONS[where, one] for where in wheres for one in names if (where, one) in REASONS), "")


def format_paper(found: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    """Two tables: how many columns are equal, and the others with the reason."""
    count = sum(len(stable_columns(table)) for table in TABLES)
    lines = ["| engine | " + " | ".join(SOURCES) + " |", "|---" * (1 + len(SOURCES)) + "|"]
    for engine in dict.fromkeys(engine for engine, _ in found):
        cells = [
            "not run" if (engine, source) not in found else _tell(found[engine, source], count) for source in SOURCES
        ]
        lines.append(f"| {engine} | {' | '.join(cells)} |")
    wheres: dict[tuple[str, str], set[str]] = defaultdict(set)
    for key, names in found.items():
        for name in names:
            wheres[name, find_reason(key, name) or "**not known**"].add(key[1] if key[0] != BASE else BASE)
    lines += ["", "| differs | in | why |", "|---|---|---|"]
    lines += [f"| `{name}` | {', '.join(sorted(where))} | {why} |" for (name, why), where in sorted(wheres.items())]
    return "\n".join(lines) + "\n"


def _tell(differences: Mapping[str, str], count: int) -> str:
    return f"all {count} columns" if not differences else f"all but {len(differences)}"


if __name__ == "__main__":
    sys.exit(main())
