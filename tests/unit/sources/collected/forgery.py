"""Three brokers, each collected on its own host, and what somebody may write into the folder of one."""

import os
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.sources.collected.manifest import MANIFEST
from pipeline.sources.records.pieces import Kind
from tests.unit.sources.collected.disks import (
    FIRST_MS,
    HOUR_MS,
    Disk,
    collected,
    make_batches,
    plan_tasks,
    rewrite,
    run_collector,
    state_of,
    tell,
    with_column,
)

FAR = 2**62
PROBLEM = {"row_kind": "problem", "severity": "suspect", "reason": "odd", "first_bytes_hex": "00", "path": "x"}


def offsets_of(batches):
    """First offsets of batches, as the format has them in front."""
    return [int.from_bytes(batch[:8], "big") for batch in batches]


BATCHES, END = make_batches(0, 20)
ALL_OFFSETS = dict.fromkeys((0, 1, 2), offsets_of(BATCHES))


def collect_brokers(config, landing, tmp_path, logs, **fields):
    """Disks of brokers 1, 2, … with a log each, `(partition, first offset, batches)`, collected."""
    disks = []
    for broker_id, (partition, base_offset, batches) in enumerate(logs, start=1):
        disks.append(Disk(tmp_path / f"disk{broker_id}", broker_id, partition))
        disks[-1].write(base_offset, b"".join(batches), 10**9)
        run_collector(config, disks[-1], landing, **fields)
    return disks


def own_partitions(*, replicas=None):
    """Each broker leads one partition."""
    return [(FIRST_MS - HOUR_MS, state_of(one, 0, replicas or (one,), one - 1)) for one in (1, 2, 3)]


def make_three(config, landing, tmp_path):
    disks = collect_brokers(config, landing, tmp_path, [(partition, 0, BATCHES) for partition in (0, 1, 2)])
    for one in (1, 2, 3):
        tell(landing, f"broker-{one}", *own_partitions())
    return disks


def read_offsets(config, landing):
    """First offsets of the batches that a run takes up, by partition."""
    found = {}
    for piece in collected(config, landing):
        if piece.kind is Kind.BATCHES:
            for row in piece.rows.to_pylist():
                found.setdefault(row["partition"], []).append(row["base_offset"])
    return {partition: sorted(offsets) for partition, offsets in found.items()}


def read_summaries(config, landing, reading):
    """What the tasks say of what they read."""
    tasks = plan_tasks(config, landing, reading)
    pieces = [piece for task in tasks for piece in task.run() if piece.kind is Kind.SUMMARIES]
    return [row for piece in pieces for row in piece.rows.to_pylist()]


def say(landing, host, part, **changed):
    """The host's manifest says something else of a part."""
    name = f"parts/{part.name}"

    def change(manifest):
        return {"parts": tuple(one.model_copy(update=changed) if one.path == name else one for one in manifest.parts)}

    rewrite(landing, host, change)


def repeat(part, rows, **columns):
    """Writes one row many times into a part, with other values in some columns."""
    (count,) = {len(values) for values in columns.values()}
    many = rows.slice(0, 1).take(pa.array([0] * count))
    for name, values in columns.items():
        many = with_column(many, name, values)
    pq.write_table(many, part)
    return {"size_bytes": part.stat().st_size, "row_count": count}


def pack(text):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()


def unpack(path):
    with pa.CompressedInputStream(pa.BufferReader(path.read_bytes()), "zstd") as stream:
        return stream.read()


def edit(old, new):
    """Edits the manifest's text; both are texts."""

    def act(host):
        text = unpack(host / MANIFEST)
        assert old.encode() in text
        (host / MANIFEST).write_bytes(pack(text.replace(old.encode(), new.encode())))

    return act


def put(make):
    """Puts something else in the manifest's place."""

    def act(host):
        (host / MANIFEST).unlink()
        make(host / MANIFEST)

    return act


def put_text(text):
    return put(lambda path: path.write_bytes(pack(text)))


def link(choose):
    """Moves what is chosen of a host out of the landing folder, and links to it."""

    def act(host):
        path, elsewhere = choose(host), host.parent.parent / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)

    return act


def make_socket(path):
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def multiply(part):
    """One row many times over: kilobytes that become gigabytes."""
    rows = pq.read_table(part)
    with pq.ParquetWriter(part, rows.schema, compression="zstd") as writer:
        many = rows.slice(0, 1).take(pa.array([0] * 1_000_000))
        for _ in range(20):
            writer.write_table(many)


def lengthen(part, groups=1):
    """A name of a million characters in every row."""
    rows, count = pq.read_table(part), 4_000 // groups
    names = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * 1_000_000])
    many = rows.slice(0, 1).take(pa.array([0] * count))
    many = many.set_column(many.column_names.index("topic"), "topic", names)
    with pq.ParquetWriter(part, many.schema, compression="zstd", store_schema=False) as writer:
        for _ in range(groups):
            writer.write_table(many)


def widen(part):
    """Columns that no collector writes, of one value."""
    rows = pq.read_table(part)
    for number in range(300):
        rows = rows.append_column(f"x{number}", pa.repeat(pa.scalar(7, pa.int64()), len(rows)))
    pq.write_table(rows, part)


def put_value(name, value, kind="batches"):
    """Writes one value into a column of all rows of some part of a kind."""

    def act(part):
        part = next(part.parent.glob(f"*{kind}*"))
        rows = pq.read_table(part)
        pq.write_table(with_column(rows, name, [value] * len(rows)), part)
        return part

    return act


def put_problem(**values):
    """Writes problems in place of all rows of some part."""

    def act(part):
        part = next(part.parent.glob("*summaries*"))
        rows = pq.read_table(part)
        repeat(part, rows, **{name: [value] * len(rows) for name, value in {**PROBLEM, **values}.items()})
        return part

    return act


def write_no_text(part):
    rows = pq.read_table(part)
    codecs = pa.array([b"\xff"] * len(rows), pa.binary()).view(pa.string())
    pq.write_table(rows.set_column(rows.column_names.index("codec"), "codec", codecs), part)
