"""The data source `kafka_record_batches` on real log directories.

Oracle: batch headers unpacked here with the struct of `tests/lab/facts.py`, from the leaders' directories.
"""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan

from pipeline.sources.records.frames import register_sources
from pipeline.sources.records.record_batches import RecordBatchReader
from tests.lab.facts import HEADER
from tests.spark.capture_runs import MINUTE_MS

TOPICS = ("audit", "codec-lz4", "ledger")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COLUMNS = (
    *("topic", "partition", "broker_id", "position", "size_bytes", "base_offset", "last_offset", "leader_epoch"),
    *("magic", "codec", "timestamp_type", "is_transactional", "is_control", "base_timestamp_ms", "max_timestamp_ms"),
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
        for row in unpack_batches(log, topic, partition, leader)
    )


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("part") / "capture", topics=TOPICS)


@pytest.fixture
def read(spark, part):
    """The frame over a tree, in so many Spark partitions."""
    register_sources(spark)

    def read(spark_partitions=2):
        return (
            spark.read.format("kafka_record_batches")
            .option("path", str(part.folder / "brokers"))
            .option("spark_partitions", str(spark_partitions))
            .load()
        )

    return read


def collected(frame, columns=COLUMNS):
    return Counter(tuple(row) for row in frame.select(*columns).collect())


@pytest.mark.parametrize("spark_partitions", [1, 5])
def test_rows_are_the_headers_on_disk(read, expected, manifest, spark_partitions):
    frame = read(spark_partitions)
    leaders = {
        (topic, number): leader for topic in TOPICS for number, (leader, *_) in enumerate(manifest["topics"][topic])
    }
    # Nobody told the source who leads: of equal replicas it took the lowest broker's.
    of_leader = [name if name != "broker_id" else "0 AS broker_id" for name in COLUMNS]
    rows = Counter(
        (topic, number, leaders[topic, number], *rest)
        for topic, number, _, *rest in (tuple(row) for row in frame.selectExpr(*of_leader).collect())
    )
    assert rows == expected
    assert frame.rdd.getNumPartitions() == spark_partitions


def test_replicas_count_once(read, manifest):
    assert {len(replicas) for replicas in manifest["topics"]["audit"]} == {3}
    rows = read().where("topic = 'audit'").select("partition", "base_offset", "broker_id").collect()
    assert len({row[:2] for row in rows}) == len(rows)
    assert len({(row["partition"], row["broker_id"]) for row in rows}) == len(manifest["topics"]["audit"])


FILTERS = [
    "topic = 'ledger'",
    "topic IN ('ledger', 'codec-lz4') AND partition = 1",
    "event_time_ms >= {start} AND event_time_ms < {end}",
    "topic = 'audit' AND partition = 2 AND event_time_ms >= {start} AND event_time_ms < {end} AND record_count = 1",
    "partition > 1 AND is_control",
    "topic = 'none of these'",
    "topic = 'audit' AND topic IN ('ledger')",
    "partition = 1 OR event_time_ms < {start}",
]


def test_filters_pushed_down_change_no_row(spark, read, part):
    bounds = {"start": part.start_ms + 3 * MINUTE_MS, "end": part.start_ms + 5 * MINUTE_MS}
    everything = spark.createDataFrame(read().toArrow())  # rows that no source can filter any more
    counts = []
    for text in FILTERS:
        condition = text.format(**bounds)
        key = ("topic", "partition", "base_offset")
        pushed, afterwards = (collected(frame.where(condition), key) for frame in (read(), everything))
        assert pushed == afterwards, condition
        counts.append(len(pushed))
    assert [count > 0 for count in counts] == [True, True, True, True, True, False, False, True]


@pytest.mark.parametrize(
    ("filters", "left_to_spark", "partitions"),
    [
        ([EqualTo(("topic",), "ledger")], 0, {"ledger-0", "ledger-1", "ledger-2"}),
        ([In(("topic",), ("ledger", "codec-lz4")), EqualTo(("partition",), 1)], 0, {"ledger-1", "codec-lz4-1"}),
        ([EqualTo(("topic",), "ledger"), EqualTo(("topic",), "audit")], 1, {"ledger-0", "ledger-1", "ledger-2"}),
        ([EqualTo(("topic",), "nothing")], 0, set()),
        ([GreaterThan(("partition",), 0), EqualTo(("magic",), 2)], 2, None),
        ([GreaterThanOrEqual(("event_time_ms",), 5), LessThan(("event_time_ms",), 9)], 0, None),
    ],
)
def test_only_files_that_may_hold_wanted_rows_are_read(part, filters, left_to_spark, partitions):
    reader = RecordBatchReader({"path": str(part.folder / "brokers")})
    assert len(list(reader.pushFilters(filters))) == left_to_spark
    planned = {f"{read.topic}-{read.partition}" for group in reader.partitions() for read in group.reads}
    everything = {f"{r.topic}-{r.partition}" for g in RecordBatchReader(reader._options).partitions() for r in g.reads}
    assert planned == (everything if partitions is None else partitions)
    assert len(everything) == 12
