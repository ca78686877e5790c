"""`make layout`: what each way to lay out a table of partitions costs those who read it, and which writers take which features.

A year of hourly windows of 1, 100 and 10,000 partitions, written three times: by time as ours are, by partition as liquid
clustering on it would leave them, and by both at once. Files that a question touches are those whose statistics do not rule it out.
"""

import argparse
import resource
import shutil
import tempfile
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

from tests.lab.bench.figures import write_between

HOURS = 24 * 365
FILE_ROWS = 2_500_000
"""Rows of one file, some 30 MB: ours are joined to 128 MB at most."""
QUESTIONS = {"a window": f"w = {HOURS - 1}", "a day": f"w >= {HOURS - 24}", "a partition's year": "p = {middle}"}
PARTITIONS = (1, 100, 10_000)


def cut(partitions, layout):
    """Ranges of windows and of partitions, one a file: (first window, last, first partition, last)."""
    rows = partitions * HOURS
    files = max(1, -(-rows // FILE_ROWS))
    by_time = {"by time": files, "by partition": 1, "by both": max(1, round(files**0.5))}[layout]
    by_partition = min(partitions, -(-files // by_time))
    windows = np.linspace(0, HOURS, by_time + 1).astype(int)
    parts = np.linspace(0, partitions, by_partition + 1).astype(int)
    for first, last in pairwise(windows):
        for low, high in pairwise(parts):
            yield int(first), int(last), int(low), int(high)


def write(folder, partitions, layout):
    """The table: window, partition, bytes and records of each, ordered within a file as the layout says."""
    rng = np.random.default_rng(1)
    for first, last, low, high in cut(partitions, layout):
        windows, parts = np.arange(first, last), np.arange(low, high)
        if layout == "by time":
            w, p = np.repeat(windows, len(parts)), np.tile(parts, len(windows))
        else:
            p, w = np.repeat(parts, len(windows)), np.tile(windows, len(parts))
        load = rng.integers(0, 1 << 20, len(w))
        rows = pa.table(
            {"w": w.astype(np.int32), "p": p.astype(np.int32), "size_bytes": load, "record_count": load // 100}
        )
        properties = WriterProperties(max_row_group_size=200_000)
        write_deltalake(folder, rows, mode="append", writer_properties=properties, target_file_size=1 << 30)


def ask(folder, where):
    """Files whose statistics do not rule a question out, their MB, and the CPU-s of its answer (the least of three)."""
    files = DeltaTable(folder).get_add_actions(flatten=True)
    lows_highs = {name: (np.array(files[f"min.{name}"]), np.array(files[f"max.{name}"])) for name in ("w", "p")}
    name, sign, value = where.split()
    low, high = lows_highs[name]
    touched = (high >= int(value)) & ((low <= int(value)) | (sign == ">="))
    costs = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF)
        table = DeltaTable(folder)
        query = (
            QueryBuilder()
            .register("t", table)
            .execute(f"SELECT sum(size_bytes) AS s, count(1) AS n FROM t WHERE {where}")
        )
        pa.table(query.read_all())
        after = resource.getrusage(resource.RUSAGE_SELF)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return int(touched.sum()), float(np.array(files["size_bytes"])[touched].sum() / 1e6), min(costs)


def measure(folder):
    """Lines of the table of layouts."""
    yield (
        "| partitions | rows | layout | files | MB | "
        + " | ".join(f"{name}: files, MB, CPU-s" for name in QUESTIONS)
        + " | rewritten for a day's rows |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for partitions in PARTITIONS:
        for layout in ("by time", "by partition", "by both"):
            place = folder / layout
            write(place, partitions, layout)
            sizes = np.array(DeltaTable(place).get_add_actions(flatten=True)["size_bytes"]) / 1e6
            cells = []
            for where in QUESTIONS.values():
                touched, size, cost = ask(place, where.format(middle=partitions // 2))
                cells.append(f"{touched}, {size:.1f}, {cost:.2f}")
            touched = ask(place, QUESTIONS["a day"])[1]
            yield f"| {partitions:,} | {partitions * HOURS:,} | {layout} | {len(sizes)} | {sizes.sum():.0f} | {' | '.join(cells)} | {touched:.0f} MB |"
            shutil.rmtree(place)


def try_features(folder):
    """Lines of the table of features: what Spark makes, and what delta-rs does with it."""
    from pipeline.config.pipeline_config import Spark  # noqa: PLC0415  # a JVM, for this table only
    from pipeline.storage.session import running_session  # noqa: PLC0415

    features = {
        "liquid clustering": "CLUSTER BY (a)",
        "deletion vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "change data feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "`CHECK`": "",
    }
    yield "| feature | reader, writer version | reads it: pyarrow, DataFusion | delta-rs appends | replaces | merges | joins files |"
    yield "|---|---|---|---|---|---|---|"
    number = count(10)
    rows = pa.table({name: pa.array([next(number)], pa.int64()) for name in ("a", "b")})
    with running_session(Spark()) as spark:
        for feature, clause in features.items():
            path = str(folder / feature.strip("`").replace(" ", "_"))
            spark.sql(f"CREATE TABLE delta.`{path}` (a BIGINT, b BIGINT) USING DELTA {clause}")
            spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1), (2, 1), (3, 1)")
            if feature == "`CHECK`":
                spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT a_in_range CHECK (a IS NULL OR a >= 0)")
            spark.sql(f"DELETE FROM delta.`{path}` WHERE a = 2")
            table = DeltaTable(path)
            protocol = table.protocol()

            def merge(path=path):
                merger = DeltaTable(path).merge(rows, "s.a = t.a", source_alias="s", target_alias="t")
                merger.when_matched_update_all().when_not_matched_insert_all().execute()

            does = [
                lambda table=table: table.to_pyarrow_table(),
                lambda table=table: QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all(),
                lambda path=path: write_deltalake(path, rows, mode="append"),
                lambda path=path: write_deltalake(path, rows, mode="overwrite", predicate=f"a = {rows['a'][0]}"),
                merge,
                lambda path=path: DeltaTable(path).optimize.compact(),
            ]
            answers = [is_done(one) for one in does]
            versions = f"{protocol.min_reader_version}, {protocol.min_writer_version}"
            yield f"| {feature} | {versions} | {answers[0]}, {answers[1]} | {' | '.join(answers[2:])} |"


def is_done(action):
    """`yes`, or `no` where delta-rs refuses."""
    with suppress(Exception):
        action()
        return "yes"
    return "no"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="write a table into this paper, between the markers of its word")
    parser.add_argument("--only", choices=("features", "orders"), required=True, help="which table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for line in {"features": try_features, "orders": measure}[arguments.only](Path(folder)):
            print(line, flush=True)
            lines.append(line)
    if arguments.write:
        write_between(arguments.write, f"--only={arguments.only}", "\n".join(lines), word="layout")


if __name__ == "__main__":
    main()
