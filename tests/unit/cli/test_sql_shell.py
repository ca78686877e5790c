"""Statements as a person types them, and answers as a person reads them."""

import datetime as dt

import pyarrow as pa
import pytest

from pipeline.cli.sql import asks_for_rows, format_rows, split_statements
from pipeline.errors import ConfigError


@pytest.mark.parametrize(
    ("typed", "statements"),
    [
        (["SELECT 1"], ["SELECT 1"]),
        (["SELECT 1; SELECT 2;", ""], ["SELECT 1", "SELECT 2"]),
        (["SELECT", "  1", ";"], ["SELECT\n  1"]),
        (["SELECT ';\"', \"it's;\", `a;b`;"], ["SELECT ';\"', \"it's;\", `a;b`"]),
        (["SELECT 'two", "lines;'; SELECT 3"], ["SELECT 'two\nlines;'", "SELECT 3"]),
        ([";;", " ; "], []),
        (["SELECT 1;", "exit", "SELECT 2"], ["SELECT 1"]),
        (["SELECT 1; QUIT; SELECT 2"], ["SELECT 1"]),
        (["SELECT 'begun", None, "SELECT 2;"], ["SELECT 2"]),
        (["SELECT", "exit", "FROM t;"], ["SELECT\nexit\nFROM t"]),
    ],
)
def test_statements_are_cut_at_semicolons_outside_quotes(typed, statements):
    assert list(split_statements(typed)) == statements


def test_an_answer_is_aligned_numbers_to_the_right_instants_in_utc():
    found = pa.table(
        {
            "topic": ["orders", None],
            "bytes": [5, 1234567],
            "share": [0.5, 1 / 3],
            "at": pa.array([dt.datetime(2026, 11, 21, 9, tzinfo=dt.UTC), None], pa.timestamp("us", tz="UTC")),
            "payload": [b"\x01\xff", b""],
        }
    )
    assert format_rows(found) == (
        "topic     bytes     share  at                    payload\n"
        "orders        5       0.5  2026-11-21T09:00:00Z  01ff\n"
        "NULL    1234567  0.333333  NULL\n"
        "(2 rows)\n"
    )


def test_of_many_rows_the_first_thousand_are_shown_and_it_is_said():
    lines = format_rows(pa.table({"n": list(range(1001))})).splitlines()
    assert (len(lines), lines[-1]) == (1002, "(the first 1000 rows; --json gives all)")
    assert format_rows(pa.table({})) == "done\n"


@pytest.mark.parametrize(
    ("statement", "is_of_rows"),
    [
        ("SELECT broker_id FROM gold.broker_share ORDER BY share DESC", True),
        ("  (select 1) union (select 2)", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x", True),
        ("FROM gold.incidents SELECT rule", True),
        ("VALUES (1)", True),
        ("SELECT * FROM gold.incidents VERSION AS OF 3", False),
        ("SELECT * FROM gold.incidents TIMESTAMP AS\n OF '2026-11-21'", False),
        ("SELECT * FROM gold.incidents@v3", False),
        ("SELECT _metadata.file_path FROM gold.incidents", False),
        ("SELECT INPUT_FILE_NAME() FROM gold.incidents", False),
        ("SELECT * FROM table_changes('gold.incidents', 1)", False),
        ("DESCRIBE TABLE EXTENDED gold.incidents", False),
        ("EXPLAIN SELECT 1", False),
        ("SHOW TABLES IN gold", False),
        ("-- first\nSELECT 1", False),
    ],
)
def test_statements_that_copies_of_tables_answer_as_well(statement, is_of_rows):
    assert asks_for_rows(statement) is is_of_rows


def test_a_nul_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="the statement has a NUL"):
        list(split_statements(["SELECT 1; SELECT 'a\0b';"]))
