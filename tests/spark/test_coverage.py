"""A rerun may replace a window only if it read at least what is stored; what was read is summed up: each case by hand."""

import datetime as dt

import pyarrow as pa
import pytest

from pipeline.model.window import TimeWindow
from pipeline.sources.records.pieces import SUMMARY_SCHEMA
from pipeline.tables.arrow_types import format_sql_schema
from pipeline.transforms.traffic import find_covered_less, find_disputed, find_known_less, sum_windows

W = [TimeWindow(minute * 60_000, (minute + 1) * 60_000) for minute in range(4)]
P0, P1 = ("t", "id", 0), ("t", "id", 1)
STORED = {P0: (10, 19, 10), P1: (0, 4, 5)}
TRAFFIC = (
    "window_start timestamp, topic string, topic_id string, partition bigint, first_offset bigint, last_offset bigint"
)
MORE = "record_count bigint, count_kind string, sampling_rate double"


def summaries(spark, rows):
    return spark.createDataFrame(pa.Table.from_pylist(rows, SUMMARY_SCHEMA), format_sql_schema(SUMMARY_SCHEMA))


def read(window, found, kind="window"):
    """Rows of a window, one a partition: first and last offset, and records."""
    return [
        {
            "row_kind": kind, "window_start_ms": window.start_ms, "topic": topic, "topic_id": topic_id, "partition": partition,
            "first_offset": first, "last_offset": last, "record_count": records, "batch_count": 1, "max_timestamp_ms": last,
        }
        for (topic, topic_id, partition), (first, last, records) in found.items()
    ]  # fmt: skip  # fields of a value, several a line


def stored(spark, rows):
    """Rows of `silver.partition_traffic`: window, partition, offsets and records, how they were counted."""
    values = [
        (dt.datetime.fromtimestamp(window.start_ms / 1000, dt.UTC), *subject, *coverage, *counted)
        for window, subject, coverage, counted in rows
    ]
    return spark.createDataFrame(values, f"{TRAFFIC}, {MORE}")


def exactly(window, found):
    return [(window, subject, coverage, (None, None)) for subject, coverage in found.items()]


def covered_less(spark, found, traffic, windows):
    less = find_covered_less(summaries(spark, found), stored(spark, traffic), windows).toArrow()
    return {*less["window_start_ms"].to_pylist()}


CASES = {
    "same": (STORED, False),
    "more": ({P0: (5, 30, 26), P1: (0, 4, 5), ("new", "id2", 0): (0, 1, 2)}, False),
    "fewer at the start": ({P0: (11, 19, 9), P1: (0, 4, 5)}, True),
    "fewer at the end": ({P0: (10, 18, 10), P1: (0, 4, 5)}, True),
    "compacted": ({P0: (10, 19, 9), P1: (0, 4, 5)}, True),
    "no partition": ({P0: (10, 19, 10)}, True),
    "new topic": ({P0: (10, 19, 10), ("t", "id9", 1): (0, 4, 5)}, True),
    "nothing": ({}, True),
}
"""What a rerun read, and whether it is less."""


@pytest.mark.parametrize(("found", "kept"), CASES.values(), ids=CASES)
def test_a_window_is_kept_when_the_rerun_covers_less(spark, found, kept):
    traffic = exactly(W[0], STORED)
    assert covered_less(spark, read(W[0], found), traffic, [W[0]]) == ({W[0].start_ms} if kept else set())


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ([(P0, 1), (P1, 2)], [(P0, 1), (P1, -1)], True),
        ([(P0, 1), (P1, 2)], [(P0, 1), (P1, 3)], False),
        ([(P0, 1), (P1, 2), (P1, -1)], [(P0, 1), (P1, -1)], False),  # it was not known before
        ([(P0, 1)], [(P0, 1), (P1, -1)], False),  # more is read than is stored
    ],
)
def test_a_window_is_kept_when_the_rerun_no_longer_knows_who_led(spark, before, now, kept):
    """As where records stay for two weeks and the metadata log for one: complete windows became incomplete ones."""
    columns = "window_start timestamp, topic string, topic_id string, partition bigint, leader_id bigint"
    start = dt.datetime.fromtimestamp(W[1].start_ms / 1000, dt.UTC)
    batches, traffic = (
        spark.createDataFrame([(start, *place, leader) for place, leader in rows], columns) for rows in (now, before)
    )
    less = [find_known_less(batches, traffic, [window]).toArrow()["window_start_ms"].to_pylist() for window in W[:2]]
    assert less == [[], [W[1].start_ms] if kept else []]


def test_windows_are_judged_one_by_one_and_those_never_committed_or_empty_are_replaced(spark):
    traffic = [row for window in W[:3] for row in exactly(window, STORED)]
    assert covered_less(spark, read(W[0], STORED), traffic, {W[0], W[1], W[3]}) == {W[1].start_ms}


@pytest.mark.parametrize(("found", "kept"), [((10, 19, 9), False), ((10, 19, 8), True)])
def test_leaders_of_one_partition_are_counted_together(spark, found, kept):
    traffic = [(W[0], P0, (10, 14, 5), (None, None)), (W[0], P0, (15, 19, 4), (None, None))]
    assert bool(covered_less(spark, read(W[0], {P0: found}), traffic, W)) is kept


@pytest.mark.parametrize(("rate", "count"), [(0.5, 9), (0.3, 7), (0.01, 1)])
def test_a_sample_covers_what_was_read_not_what_it_stands_for(spark, rate, count):
    traffic = [(W[0], P0, (10, 19, round(count / rate)), ("sampled", rate))]
    assert covered_less(spark, read(W[0], {P0: (10, 19, count)}), traffic, W) == set()
    assert covered_less(spark, read(W[0], {P0: (10, 19, count - 1)}), traffic, W) == {W[0].start_ms}


def test_windows_are_summed_up_and_what_is_about_more_is_given_as_it_is(spark):
    problem = {"row_kind": "problem", "path": "a.log", "topic": "t", "topic_id": "", "partition": 0, "reason": "cut"}
    rows = [*read(W[0], STORED), *read(W[1], STORED), *read(W[3], STORED), problem]
    found = sum_windows(summaries(spark, rows), TimeWindow(0, W[1].end_ms)).toArrow().to_pylist()
    sums = {row["window_start_ms"]: row["record_count"] for row in found if row["row_kind"] == "window"}
    assert sums == {W[0].start_ms: 15, W[1].start_ms: 15, None: 15}
    assert [{name: row[name] for name in problem} for row in found if row["row_kind"] == "problem"] == [problem]


def test_windows_are_disputed_where_parts_hold_other_batches_than_were_counted(spark):
    rows = [
        *read(W[0], STORED),
        *read(W[0], {P0: (10, 19, 10)}, "held"),
        *read(W[1], STORED),
        *read(W[1], STORED, "held"),
    ]
    (found,) = find_disputed(summaries(spark, rows), TimeWindow(0, W[1].end_ms)).toArrow().to_pylist()
    assert (found["window_start_ms"], found["partition"]) == (W[0].start_ms, 1)
    assert (found["window_count"], found["window_last"], found["held_count"], found["held_last"]) == (1, 4, 0, -1)


def test_of_windows_in_dispute_a_thousand_are_told(spark):
    rows = read(W[0], {("t", "id", number): (0, 4, 5) for number in range(1_200)})
    disputed = find_disputed(summaries(spark, rows), TimeWindow(0, W[0].end_ms)).toArrow()
    assert disputed["partition"].to_pylist() == [*range(1_000)]
