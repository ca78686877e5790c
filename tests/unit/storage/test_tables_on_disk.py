"""Declared tables on disk, read back from the transaction log: what another program would see."""

import contextlib
import dataclasses
import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from pipeline.errors import TableMismatchError
from pipeline.storage.frames import find_mismatch, rows_of
from pipeline.storage.rows import commit, insert_rows, load_rows
from pipeline.storage.tables_on_disk import SCHEMA_VERSION_PROPERTY, count_added_rows, ensure_tables, table_path
from pipeline.tables import TABLES, Column, Table
from pipeline.tables.table import Check

FIRST = Table(
    name="gold.notes",
    grain="note",
    key=("note_id",),
    write_mode="merge",
    columns=(
        Column(name="note_id", type="bigint", nullable=False, doc="Its number."),
        Column(name="size_bytes", type="bigint", unit="bytes", doc="Its size."),
        Column(name="text", type="string", doc="What it says."),
    ),
)
ADDED = (
    Column(name="written_at", type="timestamp", doc="When."),
    Column(name="labels", type="map<string,string>", doc="Labels."),
    Column(name="gap_ms", type="array<int>", doc="Gaps."),
)
SECOND = dataclasses.replace(FIRST, schema_version=2, columns=(FIRST.columns[0], *ADDED, *FIRST.columns[1:]))


def test_every_declared_table_has_its_columns_comments_partitions_checks_and_the_oldest_protocol(tmp_path):
    assert ensure_tables(tmp_path) == tuple(table.name for table in TABLES)
    assert ensure_tables(tmp_path) == ()
    for table in TABLES:
        on_disk = DeltaTable(table_path(tmp_path, table))
        fields = on_disk.schema().fields
        assert tuple(field.name for field in fields) == table.column_names
        assert [field.nullable for field in fields] == [column.nullable for column in table.columns]
        assert all(field.metadata["comment"].startswith(c.doc) for field, c in zip(fields, table.columns, strict=True))
        assert tuple(on_disk.metadata().partition_columns) == table.partitioned_by
        properties = on_disk.metadata().configuration
        constraints = {name.removeprefix("delta.constraints.") for name in properties if "constraints" in name}
        assert constraints == {check.name for check in table.checks}
        assert properties.get("delta.enableChangeDataFeed") == ("true" if table.has_change_feed else None)
        writer = 4 if table.has_change_feed else 3 if table.checks else 2
        assert (on_disk.protocol().min_reader_version, on_disk.protocol().min_writer_version) == (1, writer)


CHECKED = dataclasses.replace(
    FIRST, checks=(Check("size_bytes", least=0, most=9), Check("text", one_of=("old", "new")))
)


@pytest.mark.parametrize(("note", "is_taken"), [
    ({"size_bytes": 0, "text": "old"}, True), ({"size_bytes": 9, "text": "old"}, True), ({"text": "old"}, True),
    ({"size_bytes": -1, "text": "old"}, False), ({"size_bytes": 10, "text": "old"}, False), ({"size_bytes": 1, "text": "other"}, False),
])  # fmt: skip  # a table: a case a line
def test_a_value_outside_its_check_is_refused_by_us_and_by_delta_rs(tmp_path, note, is_taken):
    ensure_tables(tmp_path, [CHECKED])
    rows = rows_of(CHECKED, [{"note_id": 1} | note], run_id="a")
    assert (find_mismatch(rows, CHECKED) == "") is is_taken
    refused = (
        contextlib.nullcontext() if is_taken else pytest.raises(TableMismatchError, match=r"a row breaks .*note_id")
    )
    with refused:
        insert_rows(rows, tmp_path, CHECKED)
    others = contextlib.nullcontext() if is_taken else pytest.raises(DeltaError, match="failed validation check")
    with others:
        write_deltalake(table_path(tmp_path, CHECKED), rows, mode="append")


@pytest.mark.parametrize(("size_bytes", "is_added"), [(5, True), (50, False)])
def test_an_older_table_gets_its_checks_unless_its_rows_break_them(tmp_path, size_bytes, is_added):
    ensure_tables(tmp_path, [FIRST])
    old = rows_of(FIRST, [{"note_id": 1, "size_bytes": size_bytes, "text": "old"}], run_id="a")
    insert_rows(old, tmp_path, FIRST)
    assert ensure_tables(tmp_path, [CHECKED]) == (("gold.notes",) if is_added else ())
    constraints = DeltaTable(table_path(tmp_path, FIRST)).metadata().configuration
    assert ("delta.constraints.size_bytes_in_range" in constraints) is is_added
    assert load_rows(tmp_path, CHECKED).num_rows == 1


def test_runs_that_begin_at_one_time_all_find_the_tables_with_their_checks(tmp_path, caplog):
    """Several attempts: some make a table, some add its constraints, and each may come before another's commit."""
    tables = [table for table in TABLES if table.checks][:3]
    for number in range(4):
        warehouse = tmp_path / str(number)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda _, at=warehouse: ensure_tables(at, tables), range(6)))
        for table in tables:
            properties = DeltaTable(table_path(warehouse, table)).metadata().configuration
            assert {f"delta.constraints.{check.name}" for check in table.checks} <= {*properties}
    assert caplog.records == []


def test_the_change_feed_says_what_a_commit_changed(tmp_path):
    """Also of a table that had none before; by delta-rs alone."""
    followed = dataclasses.replace(FIRST, has_change_feed=True)
    ensure_tables(tmp_path, [FIRST])
    insert_rows(rows_of(FIRST, [{"note_id": 1, "size_bytes": 1, "text": "old"}], run_id="a"), tmp_path, FIRST)
    ensure_tables(tmp_path, [followed])
    version = commit(tmp_path, FIRST, lambda on_disk: on_disk.update({"size_bytes": "2"}))
    feed = DeltaTable(table_path(tmp_path, followed)).load_cdf(starting_version=version)
    changes = {(row["_change_type"], row["size_bytes"]) for row in pa.table(feed.read_all()).to_pylist()}
    assert changes == {("update_preimage", 1), ("update_postimage", 2)}


def test_a_warehouse_of_the_first_version_gets_the_new_columns_and_keeps_its_rows(tmp_path):
    ensure_tables(tmp_path, [FIRST])
    insert_rows(rows_of(FIRST, [{"note_id": 1, "size_bytes": 2, "text": "old"}], run_id="a"), tmp_path, FIRST)
    assert ensure_tables(tmp_path, [SECOND]) == ("gold.notes",)
    assert ensure_tables(tmp_path, [SECOND]) == ()
    insert_rows(rows_of(SECOND, [{"note_id": 2, "gap_ms": [1, 2], "text": "new"}], run_id="b"), tmp_path, SECOND)
    assert load_rows(tmp_path, SECOND).sort_by("note_id").to_pylist() == [
        {"note_id": 1, "written_at": None, "labels": None, "gap_ms": None, "size_bytes": 2, "text": "old"},
        {"note_id": 2, "written_at": None, "labels": None, "gap_ms": [1, 2], "size_bytes": None, "text": "new"},
    ]
    assert DeltaTable(table_path(tmp_path, SECOND)).metadata().configuration[SCHEMA_VERSION_PROPERTY] == "2"


@pytest.mark.parametrize(
    ("on_disk", "declared", "reason"),
    [
        (SECOND, FIRST, "schema version 2, this program knows 1"),
        (FIRST, dataclasses.replace(FIRST, columns=(*FIRST.columns, Column(name="x", type="int", nullable=False, doc="."))), "x is NOT NULL"),
        (FIRST, dataclasses.replace(FIRST, columns=(*FIRST.columns[:2], Column(name="text", type="bigint", doc="."))), "text is .*string.* on disk"),
    ],
    ids=["older program", "new column NOT NULL", "other type"],
)  # fmt: skip  # a table: a case a line
def test_a_table_that_differs_in_more_than_added_columns_is_refused(tmp_path, on_disk, declared, reason):
    ensure_tables(tmp_path, [on_disk])
    with pytest.raises(TableMismatchError, match=reason):
        ensure_tables(tmp_path, [declared])


@pytest.mark.parametrize(
    ("metrics", "rows"),
    [
        ({"num_added_rows": 7, "num_added_files": 2}, {"gold.notes": 7}),  # as delta-rs writes it
        ({"numOutputRows": "7", "numFiles": "2"}, {"gold.notes": 7}),  # as Spark does
        ({"num_added_rows": 0}, {"gold.notes": 0}),
        ({}, {}),
        (None, {}),
    ],
)
def test_the_rows_of_a_commit_are_those_its_writer_counted(tmp_path, metrics, rows):
    log = tmp_path / "gold/notes/_delta_log"
    log.mkdir(parents=True)
    actions = [{"add": {"path": "a"}}, {"commitInfo": {} if metrics is None else {"operationMetrics": metrics}}]
    (log / "00000000000000000003.json").write_text("\n".join(map(json.dumps, actions)))
    assert count_added_rows(tmp_path, {"gold.notes": 3, "gold.gone": 9}) == rows


def test_mails_and_hashes_are_for_one_user(tmp_path):
    ensure_tables(tmp_path)
    private = {
        name
        for name in ("gold/alert_outbox", "silver/key_hashes")
        if stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    }
    assert private == {"gold/alert_outbox", "silver/key_hashes"}
