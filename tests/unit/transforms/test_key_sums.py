"""Rows of several logs summed up: bounds hold, nothing depends on how the rows lie in parts.

Oracle: the records that were written, counted here.
"""

import random
from collections import Counter

import pyarrow as pa
import pytest

from pipeline.codec.records.key_ids import make_key_ids
from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.key_rows import KEY_SCHEMA, OTHER_SCHEMA
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.record_scan import scan_file
from pipeline.sources.records.scan_settings import Question
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.arrow_types import format_sql_schema
from pipeline.tables.keys import KEY_HASHES
from pipeline.transforms.keys import (
    answer_keys,
    count_contradictions,
    describe_contradictions,
    key_problem_rows,
    list_key_hashes,
    sum_key_matrices,
    sum_keys,
)
from tests.unit.sources.records.test_key_scan import (
    FIRST_MS,
    HOUR_MS,
    SECRET,
    SETTINGS,
    batch,
    replace,
    segment,
    strategy,
)

RNG = random.Random(4)
SEGMENTS = [[b"k%d" % min(RNG.randrange(30), RNG.randrange(30)) for _ in range(300)] for _ in range(3)]
ORDER = ("window_start", "partition", "kind", "key_id")


def rows_of(tmp_path, limit, **changes):
    """What three segments of a partition, and one of another, say about keys; and what is not about one."""
    settings = replace(SETTINGS, max_distinct_keys=limit, **changes)
    tables = {Kind.KEYS: [KEY_SCHEMA.empty_table()], Kind.OTHERS: [OTHER_SCHEMA.empty_table()]}
    for number, keys in enumerate([*SEGMENTS, SEGMENTS[0]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        read = segment(folder, batch(0, [*keys, None]), batch(301, keys[:9], hour=1), partition=2 + number // 3)
        for kind, rows in scan_file(read, settings, LeaderEpochs({}, {})):
            tables.get(kind, []).append(rows)
    return pa.concat_tables(tables[Kind.KEYS]), pa.concat_tables(tables[Kind.OTHERS])


def frame_of(spark, rows, parts=1):
    """Rows as Spark spreads them."""
    return spark.createDataFrame(rows, format_sql_schema(rows.schema)).repartition(parts)


def traffic_of(spark, keys, others, parts=1):
    return in_order(sum_keys(frame_of(spark, keys, parts), frame_of(spark, others)).toArrow(), *ORDER)


def in_order(table, *order):
    return table.sort_by([(name, "ascending") for name in order]).to_pylist()


@pytest.mark.parametrize("limit", [8, 1000])
def test_sums_are_exact_and_bounds_hold_over_segments(spark, tmp_path, limit):
    keys, others = rows_of(tmp_path, limit)
    rows = traffic_of(spark, keys, others)
    assert rows == traffic_of(spark, keys, others, 5)
    assert rows == traffic_of(spark, keys.take(pa.array(RNG.sample(range(len(keys)), len(keys)))), others)
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
        row = found.get(*make_key_ids(SECRET, [key]), {"record_count": 0, "count_error": unnamed})
        assert row["record_count"] <= count <= row["record_count"] + row["count_error"]
    if limit == 1000:
        assert {row["count_error"] for row in mine} == {0}


def test_nothing_sums_up_to_nothing(spark):
    keys, others = (frame_of(spark, schema.empty_table()) for schema in (KEY_SCHEMA, OTHER_SCHEMA))
    for frame in (sum_keys(keys, others), list_key_hashes(keys), sum_key_matrices(others, ())):
        assert frame.toArrow().num_rows == 0


def test_a_key_is_hashed_once_a_date(spark, tmp_path):
    keys, _ = rows_of(tmp_path, 1000)
    rows = in_order(list_key_hashes(frame_of(spark, keys, 3)).toArrow(), "key_id")
    assert [row["key_id"] for row in rows] == sorted(make_key_ids(SECRET, {k for keys in SEGMENTS for k in keys}))


def triples(questions):
    return [(question.strategy, question.version, question.partition_count) for question in questions]


def test_answers_and_matrices(spark, tmp_path):
    asked = (strategy("by_number"), Question("orders", "java-builtin", "", 3))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    keys, others = rows_of(tmp_path / "a", 1000, questions=asked)
    answers = answer_keys(frame_of(spark, keys), triples(asked))
    assert answers.toArrow().num_rows == 2 * len({key for keys in SEGMENTS for key in keys})
    assert contradictions(answers) == key_problem_rows(frame_of(spark, others)) == []
    keys, others = rows_of(tmp_path / "b", 1000, questions=asked, secret=None)
    assert len(keys) == 0
    counts = Counter()
    for cell in sum_key_matrices(frame_of(spark, others), triples(asked)).toArrow().to_pylist():
        counts[cell["strategy"], cell["window_start"].timestamp() * 1000] += cell["record_count"]
    assert set(counts.values()) == {4 * 300, 4 * 9}


def contradictions(answers):
    return describe_contradictions(count_contradictions(answers).toArrow().to_pylist())


def test_answers_that_contradict_each_other_are_reported_and_left_out(spark):
    head = {"topic": "orders", "topic_id": "", "partition": 0, "window_start_ms": FIRST_MS + HOUR_MS}
    rows = [
        {**head, "key_id": "a", "answers": [1]},
        {**head, "key_id": "a", "answers": [2]},
        {**head, "key_id": "b", "answers": [2]},
    ]
    keys, asked = pa.Table.from_pylist(rows, KEY_SCHEMA), [("teams:choose", "v1", 4)]
    answers = answer_keys(frame_of(spark, keys), asked)
    agreed = answers.where("chosen_partition = greatest").toArrow().to_pylist()
    assert [(row["key_id"], row["strategy"], row["partition_count"]) for row in agreed] == [("b", "teams:choose", 4)]
    (problem,) = contradictions(answers)
    assert problem["path"] == "teams:choose"
    assert "answered differently about 1 keys" in problem["reason"]


def test_known_keys_are_not_added_again(spark, tmp_path, make_run):
    (tmp_path / "logs").mkdir()
    keys, _ = rows_of(tmp_path / "logs", 1000)
    hashes = list_key_hashes(frame_of(spark, keys, 3))
    runs = [make_run(run_id) for run_id in ("first", "again")]
    versions = [run.insert_missing(spark, KEY_HASHES, hashes, run.windows) for run in runs]
    stored = load_rows(tmp_path / "warehouse", KEY_HASHES)
    assert sorted(stored["key_id"].to_pylist()) == sorted(set(keys["key_id"].to_pylist()))
    assert set(stored["run_id"].to_pylist()) == {"first"}
    assert versions == [{"silver.key_hashes": 1}] * 2


@pytest.fixture
def make_run(tmp_path):
    path = tmp_path / "partition-health.yaml"
    path.write_text(
        "warehouse: warehouse\noutbox: outbox\nclusters: {c: {sources: [{kind: log_directories, paths: [logs]}]}}\n"
    )
    config = load_config(path)
    ensure_tables(config.warehouse, (KEY_HASHES,))
    window = TimeWindow(FIRST_MS, FIRST_MS + HOUR_MS)
    return lambda run_id: RunContext(config=config, cluster_name="c", windows=(window,), run_id=run_id, now_ms=0)
