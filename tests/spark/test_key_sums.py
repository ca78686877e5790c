"""Rows of several segments summed up: bounds hold, nothing depends on how the rows lie in Spark partitions.

Oracle: the records that were written, counted here.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.codec.records.key_ids import KeySecret, make_key_id
from pipeline.sources.records.key_frames import question_frame
from pipeline.sources.records.key_questions import Question
from pipeline.sources.records.key_rows import SCHEMA, KeyRowMaker
from pipeline.sources.records.key_scan import iter_window_keys
from pipeline.sources.records.packed_keys import KEYS, count_rows, iter_pieces, pack_rows
from pipeline.storage.delta import FEW_ROWS, merge_in_parts
from pipeline.storage.fitting import fit_frame
from pipeline.storage.frames import fit_rows
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.keys import KEY_HASHES, KEY_TRAFFIC
from pipeline.transforms.key_sums import list_key_hashes, sum_key_traffic
from pipeline.transforms.keys import (
    collect_key_answers,
    collect_key_hashes,
    describe_contradictions,
    key_problem_rows,
    summarise_key_matrices,
    summarise_key_traffic,
    with_key_window,
)
from tests.unit.sources.test_key_scan import FIRST_MS, HOUR_MS, SETTINGS, batch, segment, strategy

SECRET = KeySecret(bytes(range(32)))
RNG = random.Random(4)
SEGMENTS = [[b"k%d" % min(RNG.randrange(30), RNG.randrange(30)) for _ in range(300)] for _ in range(3)]


def rows_of(tmp_path, limit, **maker):
    """What three segments of a partition, and one of another, hand to Spark."""
    settings = replace(SETTINGS, max_distinct_keys=limit)
    made = KeyRowMaker(settings=settings, **{"secret": SECRET, **maker})
    batches = []
    for number, keys in enumerate([*SEGMENTS, SEGMENTS[0]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        read = segment(folder, batch(0, [*keys, None]), batch(301, keys[:9], hour=1), partition=2 + number // 3)
        batches += [made.make_rows(read, found) for found in iter_window_keys(read, settings)]
    return pa.Table.from_batches(batches, SCHEMA)


@pytest.fixture
def frame(spark):
    return lambda table, parts=2: with_key_window(spark.createDataFrame(table).repartition(parts))


def collect(frame, *order):
    return in_order(frame.toArrow(), *order)


def in_order(table, *order):
    return table.sort_by([(name, "ascending") for name in order]).to_pylist()


ORDER = ("window_start", "partition", "kind", "key_id")


@pytest.mark.parametrize("limit", [8, 1000])
def test_sums_are_exact_and_bounds_hold_over_segments(frame, tmp_path, limit):
    table = rows_of(tmp_path, limit)
    rows = collect(summarise_key_traffic(frame(table), "c"), *ORDER)
    assert rows == collect(summarise_key_traffic(frame(table, 5), "c"), *ORDER)
    mine = [row for row in rows if row["partition"] == 2 and row["window_start"].timestamp() * 1000 == FIRST_MS]
    true = Counter(key for keys in SEGMENTS for key in keys)
    kinds = Counter()
    for row in mine:
        kinds[row["kind"]] += row["record_count"]
    assert kinds["no_key"] == 3
    assert kinds["key"] + kinds["other_keys"] == 900
    assert (kinds["other_keys"] > 0) == (limit == 8)
    found = {row["key_id"]: row for row in mine if row["kind"] == "key"}
    unnamed = next((row["count_error"] for row in mine if row["kind"] == "other_keys"), 0)
    for key, count in true.items():
        row = found.get(make_key_id(SECRET, key), {"record_count": 0, "count_error": unnamed})
        assert row["record_count"] <= count <= row["record_count"] + row["count_error"]
    if limit == 1000:
        assert {row["count_error"] for row in mine} == {0}


@pytest.mark.parametrize("limit", [8, 1000])
def test_one_process_sums_up_as_spark_does(spark, frame, tmp_path, limit):
    table = rows_of(tmp_path, limit)
    packed = pa.Table.from_batches([piece for batch in table.to_batches() for piece in pack_rows(batch)])
    by_spark = frame(table)
    assert count_rows(spark.createDataFrame(packed)) == len(table)
    is_packed = pc.equal(packed["kind"], KEYS)
    pieces, others = list(iter_pieces(packed.filter(is_packed))), packed.filter(pc.invert(is_packed)).to_pylist()
    traffic = fit_rows(sum_key_traffic(pieces, others, "c"), KEY_TRAFFIC, run_id="r")
    expected = fit_frame(summarise_key_traffic(by_spark, "c"), KEY_TRAFFIC, run_id="r").toArrow()
    assert in_order(traffic, *ORDER) == in_order(expected, *ORDER)
    hashes = fit_rows(list_key_hashes(pieces, "c"), KEY_HASHES, run_id="r")
    expected = fit_frame(collect_key_hashes(by_spark, "c"), KEY_HASHES, run_id="r").toArrow()
    assert in_order(hashes, "window_date", "key_id") == in_order(expected, "window_date", "key_id")


def test_one_process_sums_up_nothing():
    assert len(fit_rows(sum_key_traffic([], [], "c"), KEY_TRAFFIC, run_id="r")) == 0
    assert len(fit_rows(list_key_hashes([], "c"), KEY_HASHES, run_id="r")) == 0


def test_a_key_is_hashed_once_a_date(frame, tmp_path):
    rows = collect(collect_key_hashes(frame(rows_of(tmp_path, 1000)), "c"), "key_id")
    assert [row["key_id"] for row in rows] == sorted({make_key_id(SECRET, k) for keys in SEGMENTS for k in keys})


def test_answers_and_matrices(spark, frame, tmp_path):
    asked = (strategy("by_number"), Question("orders", "java-builtin", "", 3))
    questions = question_frame(spark, asked)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    answered = frame(rows_of(tmp_path / "a", 1000, questions=asked))
    rows = collect(collect_key_answers(answered, questions, "c"), "strategy", "key_id")
    assert len(rows) == 2 * len({key for keys in SEGMENTS for key in keys})
    assert describe_contradictions(answered, questions) == key_problem_rows(answered) == []
    summed = frame(rows_of(tmp_path / "b", 1000, questions=asked, secret=None))
    cells = collect(summarise_key_matrices(summed, questions, "c"), "strategy", "partition", "chosen_partition")
    counts = Counter()
    for cell in cells:
        counts[cell["strategy"], cell["window_start"].timestamp() * 1000] += cell["record_count"]
    assert set(counts.values()) == {4 * 300, 4 * 9}


def test_answers_that_contradict_each_other_are_told_and_left_out(spark, frame):
    head = {"kind": "key", "topic": "orders", "topic_id": "", "partition": 0, "window_start_ms": FIRST_MS + HOUR_MS}
    rows = [
        {**head, "key_id": "a", "answers": [1]},
        {**head, "key_id": "a", "answers": [2]},
        {**head, "key_id": "b", "answers": [2]},
    ]
    table = frame(pa.Table.from_pylist(rows, SCHEMA))
    questions = question_frame(spark, (Question("orders", "teams:choose", "v1", 4),))
    assert [row["key_id"] for row in collect(collect_key_answers(table, questions, "c"), "key_id")] == ["b"]
    (problem,) = describe_contradictions(table, questions)
    assert problem["path"] == "teams:choose"
    assert "answered differently about 1 keys" in problem["reason"]


def test_many_rows_are_merged_in_parts_and_known_ones_not_again(frame, tmp_path):
    warehouse = tmp_path / "warehouse"
    ensure_tables(warehouse, (KEY_HASHES,))
    rows = collect_key_hashes(frame(rows_of(tmp_path, 1000)), "c")
    versions = {
        merge_in_parts(rows, warehouse, KEY_HASHES, run_id=run_id, by="key_id", row_count=3 * FEW_ROWS)
        for run_id in ("first", "again")
    }
    stored = load_rows(warehouse, KEY_HASHES)
    assert sorted(stored["key_id"].to_pylist()) == [row["key_id"] for row in collect(rows, "key_id")]
    assert set(stored["run_id"].to_pylist()) == {"first"}
    assert versions == {3}
