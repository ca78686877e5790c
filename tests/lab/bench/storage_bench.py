"""What a warehouse takes of a disk: bytes in Delta per GB of traffic, by table; and what order of rows does for readers.

    make bench ARGS="storage --write docs/evidence/scale.md"

Traffic: the committed capture in windows of a minute, and the logs of `collected_bench` in windows of an hour, both
ingested, replayed and judged with the default candidates. A batch counts once, whatever its replicas.
"""

import argparse
import datetime as dt
import tempfile
from pathlib import Path

import duckdb
import polars as pl
import yaml
from deltalake import DeltaTable, write_deltalake

from pipeline.config.sections import SUMMED_UP
from pipeline.config_file import load_config
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.runs import plan_runs
from pipeline.steps import STEPS, take_steps
from pipeline.storage.maintenance import maintain_tables
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import TABLES
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.keys import EXPIRING
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.batches import START_MS
from tests.lab.bench.collected_bench import write_log
from tests.lab.bench.figures import best_of, write_between
from tests.lab.demo.recording import prepare_demo

CASES = ((100, 16), (1_000, 160), (10_000, 10))
"""Bytes of a value, records of a batch."""
LEAST_MB = 0.1
"""Of a GB: tables that take less everywhere are one line."""
BROKERS, DAYS = 30, 365
GAIN = 2


def judge_capture(folder):
    demo = prepare_demo(folder)
    document = yaml.safe_load(demo.config.read_text())
    document.pop("candidates", None)  # those of anybody who names none
    demo.config.write_text(yaml.safe_dump(document))
    return take_all(demo.config, demo.span)


def judge_made(folder, value_bytes, batch_records, most_bytes):
    write_log(folder / "disk", value_bytes, batch_records, most_bytes)
    cluster = {"sources": [{"kind": "log_directories", "paths": [str(folder / "disk")]}]}
    path = folder / "partition-health.yaml"
    path.write_text(yaml.safe_dump({"warehouse": "w", "outbox": "o", "clusters": {"made": cluster}}))
    start_ms = START_MS // HOUR_MS * HOUR_MS
    return take_all(path, TimeWindow(start_ms, start_ms + HOUR_MS))


def take_all(path, span):
    """Ingests, replays, judges and compacts; bytes of traffic, and by table in Delta."""
    config = load_config(path)
    runs = plan_runs(config, span, run_id="storage", now_ms=span.end_ms, notify=False)
    _, errors = take_steps(runs, STEPS, lambda *_: None)
    if errors:
        raise errors[0]
    maintain_tables(config.warehouse, as_of_ms=span.end_ms + 48 * HOUR_MS)
    found = {}
    for table in TABLES:
        files = pl.DataFrame(DeltaTable(table_path(config.warehouse, table)).get_add_actions(flatten=True))
        found[table.name] = files["size_bytes"].sum() or 0
    return sum(load_rows(config.warehouse, PARTITION_TRAFFIC)["size_bytes"].to_pylist()), found


def format_sizes(cases):
    """The table: megabytes per gigabyte, the largest first."""
    per_gb = {
        name: {table: size * 1e3 / traffic for table, size in sizes.items()} for name, (traffic, sizes) in cases.items()
    }
    columns = list(per_gb.values())
    dropped = {table.name for table in (*SUMMED_UP, *EXPIRING)}
    large = [t.name for t in TABLES if max(column[t.name] for column in columns) >= LEAST_MB]
    large.sort(key=lambda name: -sum(column[name] for column in columns))
    lines = [(f"`{name}`{' *' if name in dropped else ''}", [column[name] for column in columns]) for name in large]
    others = [sum(size for name, size in column.items() if name not in large) for column in columns]
    lines.append((f"{len(TABLES) - len(large)} others", others))
    lines.append(("all", [sum(column.values()) for column in columns]))
    sums = [sum(size for name, size in column.items() if name not in dropped) for column in columns]
    lines.append(("all with `sums_only`", sums))
    head = f"| MB in Delta per GB of traffic | {' | '.join(per_gb)} |\n|{'---|' * (len(per_gb) + 1)}\n"
    return head + "\n".join(f"| {name} | {' | '.join(f'{one:,.2f}' for one in ones)} |" for name, ones in lines)


def write_year(folder, rows):
    """`gold.broker_share` of a year of hours and 30 brokers, a commit a day."""
    ensure_tables(folder, (BROKER_SHARE,))
    path, frame = table_path(folder, BROKER_SHARE), pl.DataFrame(rows)
    first, kind = frame["window_start"][0], frame.schema["window_start"]
    drawn = frame.sample(BROKERS, with_replacement=True, seed=1).with_columns(broker_id=pl.int_range(1, BROKERS + 1))
    for day in range(DAYS):
        hours = [first + dt.timedelta(days=day, hours=hour) for hour in range(24)]
        many = (
            drawn.drop("window_start")
            .join(pl.DataFrame({"window_start": hours}, schema={"window_start": kind}), how="cross")
            .with_columns(share_ratio=pl.col("share_ratio") * (1 + pl.int_range(pl.len()).shuffle(seed=day) / 1_000))
        )
        write_deltalake(path, many.select(frame.columns).to_arrow().cast(rows.schema), mode="append")
    return path


def ask(path):
    """The queries of docs/READING.md about shares, and one broker's history, by name."""
    newest = "SELECT max(window_start) FROM shares"

    def over(sql):
        def answer():
            shares = DeltaTable(path).to_pyarrow_dataset()  # noqa: F841 - named in the SQL
            return duckdb.sql(sql).fetchall()

        return answer

    return {
        "all rows to pandas": lambda: DeltaTable(path).to_pandas(),
        "the hottest, Polars": lambda: pl.read_delta(str(path)).sort("share_ratio").tail(1),
        "mean by broker, DuckDB": over("SELECT broker_id, avg(share_ratio) FROM shares GROUP BY broker_id"),
        "one broker's history, DuckDB": over("SELECT window_start, share_ratio FROM shares WHERE broker_id = 7"),
        "the newest window, DuckDB": over(f"SELECT * FROM shares WHERE window_start = ({newest})"),
    }


def measure_order(folder, rows):
    """Milliseconds of each query, by layout; best of five."""
    path, layouts = write_year(folder, rows), {}
    now_ms = START_MS + (DAYS + 2) * 24 * HOUR_MS

    def measure(name):
        layouts[name] = {query: best_of(5, action) * 1e3 for query, action in ask(path).items()}

    measure("a file a day")
    maintain_tables(folder, as_of_ms=now_ms, tables=(BROKER_SHARE,))
    measure("compacted")
    DeltaTable(path).optimize.z_order(["broker_id", "window_start"])
    measure("Z-ordered")
    return layouts


def format_order(layouts):
    head = f"| ms of a query | {' | '.join(layouts)} | Z-order gains |\n|{'---|' * (len(layouts) + 2)}\n"
    lines = []
    for query in next(iter(layouts.values())):
        times = [layout[query] for layout in layouts.values()]
        gain = times[-2] / times[-1]
        said = f"{gain:.2f} ({'twice' if gain >= GAIN else 'not twice'})"
        lines.append(f"| {query} | {' | '.join(f'{one:,.1f}' for one in times)} | {said} |")
    return head + "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64, help="of each made log")
    parser.add_argument("--write", type=Path, metavar="PAPER", help="put the tables between their markers there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = {"the capture": judge_capture(folder / "capture")}
        rows = load_rows(load_config(folder / "capture/partition-health.yaml").warehouse, BROKER_SHARE)
        for value_bytes, records in CASES:
            made = judge_made(folder / f"{value_bytes}", value_bytes, records, arguments.megabytes << 20)
            cases[f"{value_bytes:,} B, {records} a batch"] = made
        traffic = ", ".join(f"{name} {bytes_read / 1e6:,.0f} MB" for name, (bytes_read, _) in cases.items())
        text = f"{format_sizes(cases)}\n\nTraffic: {traffic}.\n\n{format_order(measure_order(folder / 'year', rows))}"
    print(text)
    if arguments.write:
        write_between(arguments.write, "storage", f"\n{text}\n")


if __name__ == "__main__":
    main()
