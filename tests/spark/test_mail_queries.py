"""The SQL a mail holds, run by Spark on the tables by name. Oracle: the rows that were stored."""

import pytest

from pipeline.alerting.incident_mail import verdicts_query
from pipeline.model.window import TimeWindow
from pipeline.storage.catalog import register_tables
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from tests.table_rows import needed_row
from tests.unit.alerting.examples import MINUTE_MS, T0_MS, new_evidence

CLUSTER = 'it\'s \\a "demo"\n'


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory, classic):
    folder = tmp_path_factory.mktemp("mail") / "warehouse"
    ensure_tables(folder, (VERDICTS,))
    windows = [TimeWindow(T0_MS + minute * MINUTE_MS, T0_MS + (minute + 1) * MINUTE_MS) for minute in range(12)]
    of = {"cluster": CLUSTER, "rule": "broker_share", "value": 1.0, "verdict": "fail"}
    rows = [
        needed_row(VERDICTS, window.start_ms, subject=f"broker {broker}", **of)
        for window in windows
        for broker in (1, 2)
    ]
    replace_rows(rows_of(VERDICTS, rows, run_id="r1"), folder, VERDICTS, cluster=CLUSTER, windows=windows)
    register_tables(classic, folder, (VERDICTS,))
    return folder


@pytest.mark.parametrize(("cluster", "minutes"), [(CLUSTER, list(range(4, 12))), ("demo", [])])
def test_verdicts_on_a_subject_since_its_incident_began(cluster, minutes, warehouse, classic):
    query = verdicts_query(new_evidence(cluster=cluster)).rstrip().removesuffix(";")
    found = classic.sql(f"SELECT unix_millis(window_start) AS start_ms FROM ({query})").collect()
    assert sorted((row.start_ms - T0_MS) // MINUTE_MS for row in found) == minutes
