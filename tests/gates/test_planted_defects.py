"""Every expectation of every suite, with the defect it exists for planted where jobs leave it: each fails.

Four minutes of three topics of the capture, one broker slow, are ingested, replayed and judged once. Each case changes a copy of
the tables, and a suite runs as in its gate.
"""

import shutil

import pytest

from expectations.gates import add_history, check_health
from pipeline.config.rules import Gate
from pipeline.errors import StorageError
from pipeline.jobs import ingest
from pipeline.storage.tables_on_disk import table_path
from pipeline.storage.window_status import trusted_windows
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.verdicts.broker_share import judge_broker_share
from pipeline.verdicts.sources import judge_sources
from tests.engines import sail
from tests.gates.broken_rows import swap_sizes
from tests.gates.five_defects import FOUND_BY, plant
from tests.gates.planted_defects import BATCHES, DOCUMENTS, PLANTED, plant_defect
from tests.gates.rows import MINUTE_0_MS, declared
from tests.gates.test_health_gate import HOT, LIMITS, MINUTE_MS, shares
from tests.gates.warehouse import rewrite
from tests.incident_rows import new_verdict
from tests.unit.verdicts.test_sources import arrival


def hot_broker():
    loads = shares([HOT] * 3)
    return judge_broker_share(loads, Gate(**LIMITS), window_ms=MINUTE_MS, judged_from_ms=MINUTE_0_MS)


def blind_source():
    return judge_sources([arrival(arrived=2, expected=3, source="live_cluster")], max_age_ms=60_000)


def broken_rule(severity):
    of = {"rule": "leaderless", "subject": "topic orders", "value": 2.0, "limit_value": 1.0, "reason": "2 partitions"}
    return lambda: (new_verdict(MINUTE_0_MS, above=2, k=2, severity=severity, **of),)


JUDGED = {"broker_share": hot_broker, "sources_arrived": blind_source}
JUDGED |= {f"{severity}_rules": broken_rule(severity) for severity in ("critical", "warning")}


@pytest.mark.parametrize(("suite", "check"), [(suite, check) for suite, of in PLANTED.items() for check in of])
def test_a_defect_is_found(run, find_new, suite, check):
    plant_defect(run, suite, check)
    assert (suite, check) in find_new(run, [suite])


FOUND = [(table, defect, found) for table, of in FOUND_BY.items() for defect, found in of.items()]


@pytest.mark.parametrize(("table", "defect", "check"), FOUND)
def test_a_defect_of_a_table_is_found_by_its_check(run, find_new, table, defect, check):
    """A wrong owner, a wrong scale, a missing part, a swapped pair and a stale window in each table, planted without the pipeline's code."""
    rewrite(run, table, lambda rows: plant(defect, declared(table), rows))
    assert check in find_new(run, check[:1])


@pytest.mark.parametrize("check", JUDGED)
def test_a_sick_cluster_fails_the_health_gate(run, check):
    report = check_health(run, JUDGED[check]())
    assert [one.name for one in report.checks if not one.success] == [check]


@pytest.mark.parametrize(
    ("digest", "found"), [("key_digest", {("arrival_counts_gate", "keys_hold_what_arrived")}), (None, set())]
)
def test_keys_are_compared_with_arrivals_that_have_a_digest(run, find_new, digest, found):
    """Rows of older versions have none; what a run then says is what it said before."""
    swap_sizes(run)
    rewrite(run, "silver.arrivals", lambda rows: [row | {"key_digest": digest and row[digest]} for row in rows])
    assert find_new(run, ["arrival_counts_gate", "key_traffic_gate", "hot_keys_gate"]) == found


def test_every_expectation_has_a_planted_defect():
    expected = {(suite, entry["meta"]["check"]) for suite, of in DOCUMENTS.items() for entry in of["expectations"]}
    planted = {(suite, check) for suite, of in (*PLANTED.items(), ("health_gate", JUDGED)) for check in of}
    assert planted | {found for of in FOUND_BY.values() for found in of.values()} == expected


def test_a_rerun_that_dies_half_way_leaves_no_trusted_window(run):
    """The batches' folder cannot be written to; other tables are replaced by then, and their versions only grow."""
    assert trusted_windows(run.warehouse, run.cluster_name) == {*run.windows}
    assert {row["tries"] for row in run.rows(WINDOW_STATUS)} == {1}
    batches = table_path(run.warehouse, declared(BATCHES))
    (folder,) = batches.glob("window_date=*")
    shutil.rmtree(folder)
    folder.write_text("no folder")
    with pytest.raises(StorageError):
        ingest.run(sail(), run)
    assert trusted_windows(run.warehouse, run.cluster_name) == frozenset()


def test_a_cluster_without_back_tests_has_no_history(run):
    """`replay.arrivals: false` from the first run on."""
    rewrite(run, "gold.back_tests", lambda _: [])
    assert add_history(run, run.windows).num_rows == 0
