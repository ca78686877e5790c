"""Every check of every data gate with a passing and a failing example.

Oracle: the rows of `examples.py`, made by hand; `FAILING` names the check each one breaks.
"""

import json
from pathlib import Path

import pytest

from expectations.gate import raise_for_data_gate, run_suite
from expectations.replay_gate import add_extremes
from pipeline.errors import DataGateError, GateBrokenError
from pipeline.tables.arrow_types import format_sql_schema
from tests.gates.examples import ADDED, FAILING, PASSING, WINDOWS, traffic
from tests.gates.rows import MINUTE_0_MS, at, declared, rows_of

SUITES = Path(__file__).parents[2] / "expectations" / "suites"


SUMS = {
    *("log_counts_gate", "log_ends_gate", "key_traffic_gate", "arrivals_gate"),
    *("scenario_comparison_gate", "hash_verdicts_gate", "back_tests_gate"),
}
"""Suites over what was summed up: never over a frame of Spark, unlike those that `check_table` runs."""


@pytest.fixture(scope="module", params=["at hand", "spark"])
def engine(request):
    """Rows at hand as they are, and as a frame of Spark: both engines have to find the same."""
    if request.param == "at hand":
        return lambda rows: rows
    spark = request.getfixturevalue("spark")
    return lambda rows: spark.createDataFrame(rows, format_sql_schema(rows.schema))


engines_and_suites = pytest.mark.parametrize(
    ("engine", "suite"),
    [
        (engine, suite)
        for engine in ("at hand", "spark")
        for suite in PASSING
        if engine == "at hand" or suite not in SUMS
    ],
    indirect=["engine"],
)


def run(engine, suite, added=(), without=()):
    table, parameters, rows = PASSING[suite]
    kept = [row for row in rows if row.get("window_start") not in without]
    rows = rows_of(table, [*kept, *added], counts=ADDED.get(suite, ()))
    return run_suite(suite, engine(add_extremes(rows) if suite == "hash_verdicts_gate" else rows), parameters)


@engines_and_suites
def test_good_rows_pass_every_check(engine, suite):
    report = run(engine, suite)
    assert [check.name for check in report.checks if not check.success] == []
    raise_for_data_gate([report])


@engines_and_suites
def test_bad_rows_break_their_own_check_alone(engine, suite):
    bad = {check: rows for check, rows in FAILING[suite].items() if rows}
    report = run(engine, suite, [row for rows in bad.values() for row in rows])
    assert {check.name: check.observed for check in report.checks if not check.success} == {
        check: len(rows) for check, rows in bad.items()
    }
    assert all(check.rows for check in report.checks if not check.success)
    assert {check.severity for check in report.failures} == ({"critical"} if suite != "log_ends_gate" else set())
    assert {check.severity for check in report.warnings} <= {"warning"}


def test_warnings_alone_do_not_stop_a_run(engine):
    report = run(engine, "partition_traffic_gate", [traffic(5, crc_error_count=2)])
    assert [check.name for check in report.warnings] == ["crc_ok"]
    assert report.warnings[0].rows == (
        {
            "window_start": "2026-11-21T09:00:00Z",
            "topic": "orders",
            "partition": 5,
            "leader_id": 1,
            "batch_count": 0,
            "crc_error_count": 2,
        },
    )
    raise_for_data_gate([report])


def test_a_window_nobody_committed_is_named(engine):
    report = run(engine, "window_status_gate", without=[at(1)])
    assert [(check.name, check.rows) for check in report.failures] == [
        ("windows_present", ({"window_start": "2026-11-21T09:01:00Z"},))
    ]


def test_an_empty_frame_is_no_proof_that_windows_arrived(engine):
    report = run_suite("window_status_gate", engine(rows_of("bronze.window_status", [])), WINDOWS)
    assert [check.name for check in report.failures] == ["windows_present"]


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


def test_a_check_that_raises_is_an_error_and_not_bad_data(engine):
    table, _, rows = PASSING["keys_gate"]
    with pytest.raises(GateBrokenError, match=r"key_unique could not be evaluated.*no_such_column"):
        run_suite("keys_gate", engine(rows_of(table, rows)), {"key": ["no_such_column"]})


def test_a_missing_parameter_is_an_error_and_not_bad_data(engine):
    table, _, rows = PASSING["window_status_gate"]
    with pytest.raises(GateBrokenError, match="max_age_ms"):
        run_suite("window_status_gate", engine(rows_of(table, rows)), {"windows_ms": [MINUTE_0_MS]})


def test_every_check_is_named_described_graded_and_has_examples():
    named: dict[str, list[str]] = {}
    for path in SUITES.glob("*.json"):
        document = json.loads(path.read_text())
        assert document["name"] == path.stem
        for entry in document["expectations"]:
            named.setdefault(path.stem, []).append(entry["meta"]["check"])
            assert entry["severity"] in {"critical", "warning"}
            assert entry["description"].endswith(".")
            if table := document["meta"].get("table"):
                assert set(entry["kwargs"].get("shown", [])) <= set(declared(table).column_names)
    examples = {suite: sorted(checks) for suite, checks in FAILING.items()} | {
        "health_gate": ["broker_share", "critical_rules", "sources_arrived", "warning_rules"],  # test_health_gate*.py
        "rule_measures_gate": ["key_unique"],
    }
    assert {suite: sorted(checks) for suite, checks in named.items()} == examples
