"""A segment cut among tasks gives the rows of one that is read whole, and more tasks the larger it is.

Oracle: the scan of the whole file by one task.
"""

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.sources.records.batch_rows import BATCH_SCHEMA, LeaderEpochs
from pipeline.sources.records.key_rows import KEY_SCHEMA, OTHER_SCHEMA
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.record_scan import SegmentTask, cut_reads, plan_segment_tasks
from pipeline.tables.arrow_types import format_sql_schema
from pipeline.transforms.keys import list_key_hashes, sum_keys
from tests.arrivals import HOUR_MS, join, settings_for, write_log
from tests.batches import START_MS, make_batch, make_marker, make_records

LEADERS = LeaderEpochs({}, {("orders", number): 1 for number in range(3)})
MINUTE_MS = 60_000
SETTINGS = replace(settings_for(window_ms=MINUTE_MS), max_distinct_keys=1000)
BATCHES = 60


def make_batches(count=BATCHES):
    """Batches of several producers, minutes and leader epochs: broken, late, without a sensible time, in transactions."""
    rng = random.Random(3)
    offset = 0
    for number in range(count):
        size, producer_id = rng.randrange(1, 9), rng.randrange(3)
        at_ms = START_MS + number * 4000 - (rng.random() < 0.2) * 9000
        keys = (b"k%d", b"fixed", None, b"")[number % 4]
        records = make_records(size, base_offset=offset, start_ms=at_ms, key=keys, value=b"v" * rng.randrange(60))
        named = {"producer_id": producer_id, "producer_epoch": 0, "leader_epoch": number // 25}
        odd = {"max_timestamp_ms": at_ms + 90 * 24 * HOUR_MS} if number % 17 == 5 else {}
        batch = bytearray(make_batch(records, attributes=16 if producer_id else 0, **named, **odd))
        if number % 19 == 7:
            batch[-1] ^= 0xFF
        yield bytes(batch)
        offset += size + (number % 13 == 0)
        if producer_id and rng.random() < 0.5:
            yield make_marker(offset, producer_id=producer_id, commit=rng.random() < 0.5, timestamp_ms=at_ms)
            offset += 1


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """One large partition, and small ones beside it."""
    folder = tmp_path_factory.mktemp("logs")
    batches = list(make_batches())
    return [write_log(folder, 0, batches), *(write_log(folder, number, batches[:2]) for number in (1, 2))]


def read_tables(spark, tasks):
    """What tables are made of: their rows, counted."""
    found = {kind: [] for kind in Kind}
    for task in tasks:
        for kind, rows in task.run():
            found[kind].append(rows)
    keys, others = (
        spark.createDataFrame(pa.concat_tables([schema.empty_table(), *found[kind]]), format_sql_schema(schema))
        for kind, schema in ((Kind.KEYS, KEY_SCHEMA), (Kind.OTHERS, OTHER_SCHEMA))
    )
    tables = {
        "summaries": pa.concat_tables(found[Kind.SUMMARIES]),
        "batches": pa.concat_tables([BATCH_SCHEMA.empty_table(), *found[Kind.BATCHES]]),
        "keys": sum_keys(keys, others).toArrow(),
        "hashes": list_key_hashes(keys).toArrow(),
        "arrivals": join([batch for rows in found[Kind.ARRIVALS] for batch in rows.to_batches()]),
    }
    return {name: Counter(map(repr, table.to_pylist())) for name, table in tables.items()}


@pytest.mark.parametrize("task_bytes", [1, 700, 2000])
def test_rows_do_not_depend_on_where_a_segment_is_cut(spark, logs, task_bytes):
    (whole,) = plan_segment_tasks(logs, SETTINGS, LEADERS, 1)
    cut = plan_segment_tasks(logs, SETTINGS, LEADERS, 15, task_bytes)
    assert len(cut) > len(logs)
    expected = read_tables(spark, [whole])
    assert min(len(rows) for rows in expected.values()) > 1
    assert read_tables(spark, cut) == expected


def test_parts_share_a_file_without_gap_or_overlap(logs):
    for most_bytes in (1, 7, 333, 10**9):
        parts = cut_reads(logs, most_bytes)
        for read in logs:
            edges = [(part.start, part.end) for part in parts if part.read is read]
            assert [0, *(end for _, end in edges)] == [*(start for start, _ in edges), read.size_bytes]
            assert max(end - start for start, end in edges) <= most_bytes


@pytest.mark.parametrize(
    ("sizes", "least", "counts"),
    [
        ((10_000,), 2, [4]),  # alone: two parts for each core
        ((40_000,), 2, [4]),
        ((10_000,), 20, [10]),  # but none below what a task reads
        ((10_000, 100, 100), 2, [4, 1, 1]),  # a large one among small ones
        ((10_000, 10_000, 10_000, 10_000), 2, [1, 1, 1, 1]),  # enough for every core
        ((999,), 20, [1]),
    ],
)
def test_a_file_is_cut_where_others_would_wait_for_it(logs, sizes, least, counts):
    reads = [
        replace(logs[0], size_bytes=size, path=f"/{number}", partition=number) for number, size in enumerate(sizes)
    ]
    tasks = plan_segment_tasks(reads, SETTINGS, LEADERS, least, 1_000)
    parts = Counter(part.read.partition for task in tasks for part in task.reads)
    assert [parts[number] for number in range(len(sizes))] == counts


def test_tasks_grow_with_the_partition(logs):
    counts = []
    for growth in (1, 2, 4, 8):
        large = replace(logs[0], size_bytes=4_000 * growth)
        tasks: list[SegmentTask] = plan_segment_tasks([large, *logs[1:]], SETTINGS, LEADERS, 50, 1_000)
        counts.append(sum(any(part.read is large for part in task.reads) for task in tasks))
    assert counts == [4, 8, 16, 32]


def test_keys_without_names_are_counted_per_whole_segment(logs):
    tasks = plan_segment_tasks(logs, replace(SETTINGS, secret=None), LEADERS, 50, 100)
    assert sorted(len(task.reads) for task in tasks) == [1, 1, 1]


def test_of_a_file_that_is_gone_one_problem_is_told(logs):
    gone = replace(logs[0], path="/nowhere/00000000000000000000.log")
    tasks = plan_segment_tasks([gone], SETTINGS, LEADERS, 50, 1_000)
    assert len(tasks) > 1
    told = [row["row_kind"] for task in tasks for piece in task.run() for row in piece.rows.to_pylist()]
    assert sorted(told) == ["problem", "shortfall"]  # whether its topic was deleted the driver sees
