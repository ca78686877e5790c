"""What the scan reads of real log directories, task by task.

Oracle: batch headers unpacked here with the struct of `tests/lab/facts.py`, from the leaders' directories.
"""

from collections import Counter

import pyarrow as pa
import pytest

from pipeline.model.window import TimeWindow
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SCHEMAS, Kind, join_pieces
from pipeline.sources.records.record_scan import plan_segment_tasks
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.stages import Staging
from tests.lab.facts import HEADER
from tests.spark.capture_runs import MINUTE_MS

TOPICS = ("audit", "codec-lz4", "ledger")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COLUMNS = (
    *("topic", "partition", "position", "size_bytes", "base_offset", "last_offset", "leader_epoch"),
    *("magic", "codec", "timestamp_type", "is_transactional", "is_control", "base_timestamp", "max_timestamp"),
    *("producer_id", "producer_epoch", "base_sequence", "record_count", "is_crc_ok"),
)


def unpack_batches(log, *named):
    data, position = log.read_bytes(), 0
    while position < len(data):
        offset, length, epoch, magic, _, attributes, delta, first_ms, last_ms, *producer, count = HEADER.unpack_from(
            data, position
        )
        times = ("LogAppendTime" if attributes & 8 else "CreateTime", bool(attributes & 16), bool(attributes & 32))
        head = (position, length + 12, offset, offset + delta, epoch, magic, CODECS[attributes & 7])
        yield (*named, *head, *times, first_ms, last_ms, *producer, count, True)
        position += length + 12


@pytest.fixture(scope="module")
def expected(capture_folder, manifest):
    return Counter(
        row
        for topic in TOPICS
        for partition, (leader, *_) in enumerate(manifest["topics"][topic])
        for log in (capture_folder / f"brokers/{leader}/{topic}-{partition}").glob("*.log")
        for row in unpack_batches(log, topic, partition)
    )


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("part") / "capture", topics=TOPICS)


def read_batches(task):
    return ((kind.value, rows) for kind, rows in join_pieces(task.run()) if kind is Kind.BATCHES)


@pytest.fixture
def read(spark, part, tmp_path):
    """Rows of batches, and how many tasks read them."""

    def read(least=2, span=None):
        reads = plan_reads(choose_replicas(discover_logs([str(part.folder / "brokers")]), leaders={}))
        settings = ScanSettings(
            as_of_ms=part.recorded_until_ms, span=span or TimeWindow(0, 1 << 45), window_ms=MINUTE_MS
        )
        tasks = plan_segment_tasks(reads, settings, LeaderEpochs({}, {}), least)
        staging = Staging(spark, tmp_path)
        parts = staging.run_tasks("read", tasks, read_batches, {Kind.BATCHES.value: SCHEMAS[Kind.BATCHES]})[
            Kind.BATCHES.value
        ]
        assert parts.load().num_rows == parts.row_count
        return [parts.frame().toArrow()], tasks

    return read


def batches(tables):
    rows = pa.concat_tables(tables).select(COLUMNS)
    columns = [
        c.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns
    ]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("least", [1, 5])
def test_rows_are_the_headers_on_disk(read, expected, least):
    tables, tasks = read(least)
    assert batches(tables) == expected
    assert len(tasks) == least
    on_disk = [path for task in tasks for path in (one.read.path for one in task.reads)]
    assert len(set(on_disk)) == len(on_disk)  # of replicas one is read, and by one task


def test_only_batches_of_the_windows_are_read(read, expected, part):
    span = part.span(3, 5)
    tables, _ = read(span=span)
    at = COLUMNS.index("max_timestamp")
    assert batches(tables) == Counter({row: n for row, n in expected.items() if row[at] in span})
    starts = {start.timestamp() * 1000 for table in tables for start in table["window_start"].to_pylist()}
    assert starts == {span.start_ms, span.start_ms + MINUTE_MS}
