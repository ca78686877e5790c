"""Every check of every data gate with a passing and a failing example.

Oracle: the rows of `examples.py`, made by hand; `FAILING` names the check each one breaks.
"""

import json
import math

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from expectations.reports import raise_for_data_gate
from expectations.suite_files import SUITES, ask_for_suspects, read_suite
from pipeline.errors import DataGateError, GateBrokenError
from tests.gates.examples import FAILING, PASSING, WINDOWS, refused, status, traffic
from tests.gates.rows import MINUTE_0_MS, at, declared, rows_of, run_suite, suite_rows

GROWING = {
    *("partition_traffic_gate", "record_batches_gate", "cluster_state_gate", "log_counts_gate", "key_traffic_gate"),
    *("arrival_counts_gate", "replay_results_gate"),
}
"""Suites about rows that grow with the traffic: a task looks for those that break a check."""


@pytest.fixture(params=["at hand", "asked for"])
def engine(request, tmp_path):
    """Rows as they are, and those that a task finds suspect: checks have to find the same in both."""
    if request.param == "at hand":
        return lambda rows, suite: rows

    def ask(rows, suite):
        write_deltalake(tmp_path / "rows", rows)
        query = QueryBuilder().register("rows", DeltaTable(tmp_path / "rows"))
        found = pa.table(query.execute(ask_for_suspects("SELECT * FROM rows", read_suite(suite))).read_all())
        return found.select(rows.column_names).cast(rows.schema)

    return ask


ENGINES = ("at hand", "asked for")
engines_and_suites = pytest.mark.parametrize(
    ("engine", "suite"),
    [(engine, suite) for engine in ENGINES for suite in PASSING if engine == "at hand" or suite in GROWING],
    indirect=["engine"],
)
every_engine = pytest.mark.parametrize("engine", ENGINES, indirect=True)
at_hand = pytest.mark.parametrize("engine", ["at hand"], indirect=True)


def run(engine, suite, added=(), without=()):
    kept = [row for row in PASSING[suite] if row.get("window_start") not in without]
    return run_suite(suite, engine(suite_rows(suite, [*kept, *added]), suite), WINDOWS)


@engines_and_suites
def test_good_rows_pass_every_check(engine, suite):
    report = run(engine, suite)
    assert [check.name for check in report.checks if not check.success] == []
    raise_for_data_gate([report])


@engines_and_suites
def test_bad_rows_break_their_own_check_alone(engine, suite):
    bad = {check: rows for check, rows in FAILING[suite].items() if rows}
    report = run(engine, suite, [row for rows in bad.values() for row in rows])
    assert {check.name for check in report.checks if not check.success} == {*bad}
    counts = {check.name: check.observed for check in report.checks if check.name in bad}
    assert counts == {check: 2 * len(rows) if check == "key_unique" else len(rows) for check, rows in bad.items()}
    assert all(check.rows for check in report.checks if not check.success)
    assert {check.severity for check in report.failures} == ({"critical"} if suite != "log_ends_gate" else set())
    assert {check.severity for check in report.warnings} <= {"warning"}


@every_engine
def test_warnings_alone_do_not_stop_a_run(engine):
    report = run(engine, "partition_traffic_gate", [traffic(5, crc_error_count=2)])
    assert [check.name for check in report.warnings] == ["crc_ok"]
    (row,) = report.warnings[0].rows
    shown = {"window_start": "2026-11-21T09:00:00Z", "topic": "orders", "partition": 5, "crc_error_count": 2}
    assert row.items() >= shown.items()
    raise_for_data_gate([report])


@at_hand
def test_a_window_nobody_committed_is_named(engine):
    report = run(engine, "window_status_gate", without=[at(1)])
    assert [(check.name, check.rows) for check in report.failures] == [
        ("windows_present", ({"window_start": "2026-11-21T09:01:00Z"},))
    ]


def test_an_empty_frame_is_no_proof_that_windows_arrived():
    report = run_suite("window_status_gate", rows_of("bronze.window_status", []), WINDOWS)
    assert [check.name for check in report.failures] == ["windows_present"]


@every_engine
def test_the_error_names_each_failed_check_and_its_first_rows(engine):
    report = run(engine, "partition_traffic_gate", [traffic(p, missing_offset_count=p) for p in range(10, 48)])
    with pytest.raises(DataGateError) as raised:
        raise_for_data_gate([report])
    text = str(raised.value)
    assert "partition_traffic_gate: 1 of 6 checks failed" in text
    assert "Offsets are contiguous in each leader's log" in text
    assert "Found 38." in text
    assert "window_start 2026-11-21T09:00:00Z, topic orders, partition 10, leader_id 1" in text
    assert text.count("partition ") == 5
    assert len(report.failures[0].rows) == 20


@pytest.mark.parametrize(
    ("added", "check"),
    [
        ([traffic(1, topic="z", missing_offset_count=1_000)], "offsets_contiguous"),
        (2 * [traffic(p, topic="z") for p in range(1_500)], "key_unique"),
    ],
)
@pytest.mark.parametrize("engine", ["asked for"], indirect=True)
def test_no_number_of_warnings_hides_a_row_that_breaks_a_critical_check(engine, added, check):
    warned = [traffic(p, topic="of one producer", time_outlier_count=1) for p in range(10_000)]
    assert [one.name for one in run(engine, "partition_traffic_gate", [*warned, *added]).failures] == [check]


@every_engine
def test_what_is_no_number_is_within_no_range(engine):
    """To pandas it is NULL, and NULL is within all."""
    sent = [{"client_id": "a", "outgoing_bytes": math.nan}, {"client_id": "b", "outgoing_bytes": 1.0}]
    report = run_suite("producer_nodes_gate", engine(rows_of("silver.producer_nodes", sent), "producer_nodes_gate"))
    assert [(check.name, check.observed) for check in report.checks if not check.success] == [("bytes_not_negative", 1)]


def test_a_check_that_raises_is_an_error_and_not_bad_data():
    rows = rows_of("bronze.quarantine", [refused("a")]).drop_columns(["position"])
    with pytest.raises(GateBrokenError, match=r"key_unique could not be evaluated.*position"):
        run_suite("quarantine_gate", rows)


def test_a_check_that_is_not_about_rows_cannot_be_asked_of_a_table_that_grows():
    with pytest.raises(GateBrokenError, match="expect_windows_to_be_present cannot be asked of a table that grows"):
        ask_for_suspects("SELECT 1", read_suite("window_status_gate"))


def test_a_missing_parameter_is_an_error_and_not_bad_data():
    with pytest.raises(GateBrokenError, match="max_age_ms"):
        run_suite("window_status_gate", rows_of("bronze.window_status", [status(0)]), {"windows_ms": [MINUTE_0_MS]})


def test_every_check_is_named_described_and_graded():
    for path in SUITES.glob("*.json"):
        document = json.loads(path.read_text())
        assert document["name"] == path.stem
        names = [entry["meta"]["check"] for entry in document["expectations"]]
        assert len(names) == len({*names})
        for entry in document["expectations"]:
            assert entry["severity"] in {"critical", "warning"}
            assert entry["description"].endswith(".")
            if entry["type"] == "expect_compound_columns_to_be_unique":
                key = declared(document["meta"]["table"]).key
                assert entry["kwargs"]["column_list"] == [name for name in key if name != "cluster"]
