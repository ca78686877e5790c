"""A host whose files or collected parts contradict each other: its partition is `incomplete`, and the gate lets the others go on.

Two hosts with a topic each, of which the first one's is changed: each of these failed the data gate of the whole cluster.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from expectations.gates import check_ingested
from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect
from pipeline.sources.collected.manifest import read_manifest, write_manifest
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.batches import make_batch, make_records
from tests.config_files import write_configuration
from tests.engines import sail
from tests.spark.capture_runs import CLUSTER, MINUTE_MS, make_secret, plan, stored

FIRST_MS = 1_700_000_040_000
AS_OF_MS = FIRST_MS + 5 * MINUTE_MS


def make_batches(first_offset, count=10):
    """Batches of ten records and a second each."""
    return [
        make_batch(make_records(10, base_offset=offset, start_ms=FIRST_MS + 200 * first_offset + 100 * offset))
        for offset in range(first_offset, first_offset + 10 * count, 10)
    ]


@pytest.fixture
def disks(tmp_path):
    """Two brokers with a log of three files."""
    for broker, name in (("1", "a-0"), ("2", "b-0")):
        log = tmp_path / "brokers" / broker / name
        log.mkdir(parents=True)
        (log.parent / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=c\n")
        for first_offset in (0, 100, 200):
            (log / f"{first_offset:020d}.log").write_bytes(b"".join(make_batches(first_offset)))
    return tmp_path / "brokers"


def run(tmp_path, source):
    """What is missing of the window, the records of each topic, and what is wrong, once the data gate has passed."""
    cluster = {"as_of": format_instant(AS_OF_MS), "sources": [source]}
    config = write_configuration(tmp_path, {CLUSTER: cluster}, window="PT2M", mail={"to": ["a@example.org"]})
    make_secret(tmp_path)
    start_ms = FIRST_MS - FIRST_MS % (2 * MINUTE_MS)
    context = plan(load_config(config), TimeWindow(start_ms, start_ms + 2 * MINUTE_MS))
    ingest.run(sail(), context)
    check_ingested(sail(), context)
    (status,) = stored(context.warehouse, "bronze.window_status", "missing", "expected_count", "arrived_count")
    assert (status["expected_count"] > status["arrived_count"]) is bool(status["missing"])
    traffic = stored(context.warehouse, "silver.partition_traffic", "topic", "record_count")
    wrong = stored(context.warehouse, "bronze.quarantine", "path", "reason")
    records = {row["topic"]: row["record_count"] for row in traffic}
    return status["missing"], records, {row["reason"] for row in wrong if "1/" in row["path"] or row["path"][-1] == "1"}


TWICE = "offsets that another batch has, of this file or of the one before or after it: left out"
FILES = {
    "an offset twice in a file": (100, lambda log: log + b"".join(make_batches(150, 2)), 300, TWICE),
    "an offset in two files": (0, lambda log: log + b"".join(make_batches(100, 2)), 300, TWICE),
    "a file with offsets of the one before": (200, lambda _: b"".join(make_batches(40)), 200, TWICE),
    "a file that is replaced by a text": (100, lambda _: b"hello, a text" * 20, 200, "a text file, not a log"),
    "a file that is cut between two batches": (
        *(100, lambda log: log[: len(log) // 2], 250),
        "50 offsets are missing, though the topic is not compacted",
    ),
    "a file that is emptied": (
        *(100, lambda _: b"", 200),
        "100 offsets are missing, though the topic is not compacted",
    ),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_files_that_contradict_each_other_stop_no_other_host(disks, tmp_path, case):
    file, change, count, reason = case
    path = disks / f"1/a-0/{file:020d}.log"
    path.write_bytes(change(path.read_bytes()))
    missing, records, wrong = run(tmp_path, {"kind": "log_directories", "paths": [str(disks)]})
    assert missing == "files are damaged or cannot be read (`bronze.quarantine`): of a-0"
    assert records == {"a": count, "b": 300}
    assert reason in wrong


def collect_all(disks, tmp_path):
    landing = tmp_path / "landing"
    source = {"kind": "collected", "path": str(landing)}
    file = write_configuration(tmp_path, {CLUSTER: {"sources": [source]}}, window="PT2M", mail={"to": ["a@b.org"]})
    make_secret(tmp_path)
    for host in ("1", "2"):
        of = {"config": load_config(file), "cluster": CLUSTER, "keep_ms": 86_400_000, "as_of_ms": AS_OF_MS}
        request = CollectRequest(paths=[disks / host], host=host, run_id=host, **of)
        rate_limit = RateLimit(bytes_per_s=10**12, clock=lambda: 0.0, pause=lambda _: None)
        collect(request, StoredFolder(str(landing)), rate_limit)
    return landing, source


def more(column, by):
    def change(rows):
        place = rows.column_names.index(column)
        return rows.set_column(place, rows.schema.field(place), pc.add(rows[column], by))

    return change


def count_one_more(rows):
    told = rows.to_pylist()
    window = next(row for row in told if row["row_kind"] == "window")
    window["batch_count"] += 1
    window["record_count"] += 10
    return pa.Table.from_pylist(told, rows.schema)


PARTS = {
    "keys of more records than there are": {"keys": more("record_count", 1)},
    "no keys": {"keys": lambda rows: rows.slice(0, 0)},
    "arrivals of fewer records than there are": {"arrivals": lambda rows: rows.slice(1)},
    "a batch twice, and so counted": {
        "batches": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
        "summaries": count_one_more,
    },
    "batches with fewer records": {"batches": more("record_count", -1)},
}


@pytest.mark.parametrize("changes", PARTS.values(), ids=PARTS)
def test_parts_that_contradict_each_other_stop_no_other_host(disks, tmp_path, changes):
    landing, source = collect_all(disks, tmp_path)
    folder = StoredFolder(f"{landing}/1")
    manifest, parts = read_manifest(folder), []
    for part in manifest.parts:
        path = landing / "1" / part.path
        if part.kind in changes:
            rows = changes[part.kind](pq.read_table(path))
            pq.write_table(rows, path)
            row_count = part.row_count if part.kind == "arrivals" else rows.num_rows
            parts.append(part.model_copy(update={"size_bytes": path.stat().st_size, "row_count": row_count}))
        else:
            parts.append(part)
    write_manifest(folder, manifest.model_copy(update={"parts": tuple(parts)}))
    missing, records, wrong = run(tmp_path, source)
    assert missing.startswith("not as hosts say: a-0: ")
    assert records == {"b": 300}
    assert "left out, parts that contradict each other: a-0" in wrong


def test_a_collected_log_that_lacks_offsets_stops_no_other_host(disks, tmp_path):
    path = disks / f"1/a-0/{100:020d}.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    _, source = collect_all(disks, tmp_path)
    missing, records, _ = run(tmp_path, source)
    assert missing.startswith("not as hosts say: ")
    assert missing.endswith("offsets are missing, though the topic is not compacted: of a-0")
    assert records == {"a": 250, "b": 300}


def test_a_file_whose_records_do_not_fill_its_offsets_is_a_problem(disks, tmp_path):
    landing, source = collect_all(disks, tmp_path)
    (path,) = (landing / "1/parts").glob("*summaries*")
    rows = pq.read_table(path)
    is_file = pc.equal(rows["row_kind"], "segment")
    place = rows.column_names.index("record_count")
    counts = pc.if_else(is_file, pc.add(rows["record_count"], 1000), rows["record_count"])
    pq.write_table(rows.set_column(place, rows.schema.field(place), counts), path)
    folder = StoredFolder(f"{landing}/1")
    manifest = read_manifest(folder)
    sizes = [one.model_copy(update={"size_bytes": (landing / "1" / one.path).stat().st_size}) for one in manifest.parts]
    write_manifest(folder, manifest.model_copy(update={"parts": tuple(sizes)}))
    _, records, wrong = run(tmp_path, source)
    assert records == {"a": 300, "b": 300}
    assert "its records do not fill its offsets, though the topic is not compacted" in wrong
