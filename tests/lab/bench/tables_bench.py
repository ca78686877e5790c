"""Whether tables of the capture equal those of an earlier version: `BASELINE=/path/to/its/checkout make bench ARGS=tables`.

Takes the warehouse that `make run` left in that checkout, and runs this version over the same windows with the same secret, so that
keys have the same ids. Columns that both have are compared row by row, volatile ones (`partition-health tables`) left out; numbers
are equal where they differ by no more than their last digits. `--write` puts the table into `docs/evidence/performance.md`.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deltalake import DeltaTable

from pipeline.tables import TABLES
from tests.lab.bench.figures import write_between
from tests.lab.demo.recording import prepare_demo

ROOT = Path(__file__).resolve().parents[3]
MADE = Path("build/run")
LAST_DIGITS, MOST_NAMED = 1e-12, 8
HEAD = "| table | rows before | now | columns that are equal | columns that differ (rows) |\n|---|---|---|---|---|\n"


def read_rows(warehouse, table):
    """Rows by key, and the names of their columns; None without the table."""
    place = warehouse.joinpath(*table.name.split("."))
    if not (place / "_delta_log").is_dir():
        return None
    found = DeltaTable(str(place)).to_pyarrow_table()
    rows = {tuple(repr(row[name]) for name in table.key): row for row in found.to_pylist()}
    return rows, found.column_names


def is_equal(before, now):
    """Numbers to the last digits, lists element by element.

    >>> is_equal(0.1 + 0.2, 0.3), is_equal([1.0, None], [1.0, None]), is_equal(1.0, 1.1)
    (True, True, False)
    """
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(map(is_equal, before, now))
    if isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=LAST_DIGITS) or (math.isnan(before) and math.isnan(now))
    return before == now


def compare(table, before, now):
    """A line of the table; None where neither version has it."""
    if before is None or now is None:
        return None if now is None else f"| {table.name} | | {len(now[0])} | new | |"
    (old, old_names), (new, new_names) = before, now
    volatile = {column.name for column in table.columns if column.volatile} | {"run_id"}
    names = [name for name in old_names if name in new_names and name not in volatile]
    both = old.keys() & new.keys()
    differ = {name: sum(not is_equal(old[key][name], new[key][name]) for key in both) for name in names}
    said = [f"{name} ({count})" for name, count in differ.items() if count]
    said[MOST_NAMED:] = [f"{len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
    if lost := len(old.keys() - both):
        said.insert(0, f"**keys of {lost} rows**")
    return f"| {table.name} | {len(old)} | {len(new)} | {len(names) - sum(map(bool, differ.values()))} of {len(names)} | {', '.join(said)} |"


def run_again(folder, secret):
    """This version over all windows of the capture, in a folder; its warehouse."""
    demo = prepare_demo(folder)
    shutil.copy2(secret, folder)
    command = [
        Path(sys.executable).parent / "partition-health",
        "run",
        "--config",
        demo.config,
        "--window",
        str(demo.span),
    ]
    subprocess.run(command, cwd=ROOT, check=False)  # ends with 1, as some verdicts fail
    return folder / "warehouse"


def main():
    parser = argparse.ArgumentParser(prog="make bench ARGS=tables", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence/performance.md")
    arguments = parser.parse_args()
    made = Path(os.environ["BASELINE"]) / MADE
    if not (made / "warehouse").is_dir():
        raise SystemExit(f"{made}: no warehouse: `make run` there first")
    with tempfile.TemporaryDirectory(prefix="partition-health-tables-") as folder:
        now = run_again(Path(folder), made / "partition-health.secret")
        lines = [compare(table, read_rows(made / "warehouse", table), read_rows(now, table)) for table in TABLES]
    text = HEAD + "\n".join(line for line in lines if line)
    print(text)
    if arguments.write:
        write_between(ROOT / "docs/evidence/performance.md", "tables", text)
