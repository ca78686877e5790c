"""Which windows are committed, trusted and lost: each case by hand."""

import datetime as dt
import shutil

import pytest
from deltalake import DeltaTable

from pipeline.model.window import DAY_MS, TimeWindow
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.storage.window_status import (
    committed_windows,
    load_stored_windows,
    lost_windows,
    trust_windows,
    trusted_windows,
    windows_in_doubt,
    withdraw_trust,
)
from pipeline.tables.bronze import NOT_AS_HOSTS_SAY, WINDOW_STATUS
from pipeline.tables.silver import PARTITION_TRAFFIC

W = [TimeWindow(minute * 60_000, (minute + 1) * 60_000) for minute in range(4)]


def test_only_windows_in_the_status_table_are_committed(tmp_path):
    ensure_tables(tmp_path)
    start = [dt.datetime.fromtimestamp(window.start_ms / 1000, dt.UTC) for window in W]
    status = {
        "cluster": "c", "window_start": start[0], "window_end": start[1], "source": "log_directories", "arrived_count": 3,
        "row_count": 5, "problem_count": 0, "as_of": start[3], "source_expired": False, "table_versions": {"silver.t": 1},
    }  # fmt: skip  # fields of a value, several a line
    replace_rows(rows_of(WINDOW_STATUS, [status], run_id="r"), tmp_path, WINDOW_STATUS, cluster="c", windows=W)
    assert committed_windows(tmp_path, "c") == {W[0]}
    assert committed_windows(tmp_path, "c", W[1:]) == committed_windows(tmp_path, "other") == frozenset()
    assert trusted_windows(tmp_path, "c") == frozenset()  # no data gate has passed over it
    trust_windows(tmp_path, "c", W)
    assert trusted_windows(tmp_path, "c") == {W[0]}
    assert load_rows(tmp_path, WINDOW_STATUS)["row_count"].to_pylist() == [5]
    stored = load_stored_windows(tmp_path, "c", W)
    assert stored.windows == {W[0]}
    assert stored.row_counts == {("log_directories", W[0]): 5}


def test_a_gate_trusts_no_window_that_another_run_replaced_meanwhile(tmp_path):
    """It had looked at what was there before: what the other run's gate refused then was trusted."""
    ensure_tables(tmp_path)
    commit(tmp_path, W[0], run_id="first", is_trusted=None)
    commit(tmp_path, W[1], run_id="second", is_trusted=None)
    trust_windows(tmp_path, "c", W[:2], run_id="first")
    assert trusted_windows(tmp_path, "c") == {W[0]}
    trust_windows(tmp_path, "c", W[1:2], run_id="first")  # of none
    assert trusted_windows(tmp_path, "c") == {W[0]}
    trust_windows(tmp_path, "c", W[:2], run_id="second")
    assert trusted_windows(tmp_path, "c") == {W[0], W[1]}


@pytest.mark.parametrize(("source", "doubted"), [("collected", {W[0]}), ("prometheus", frozenset())])
def test_no_instance_of_a_metrics_server_puts_windows_in_doubt(tmp_path, source, doubted):
    """By its name, when it is missing: such windows would neither be checked nor replayed."""
    ensure_tables(tmp_path)
    commit(tmp_path, W[0], source=source, missing=f"no sample of {NOT_AS_HOSTS_SAY}")
    assert windows_in_doubt(tmp_path, "c", W) == doubted


def commit(warehouse, *windows, run_id="r", **fields):
    status = [
        {
            "cluster": "c", "window_start": dt.datetime.fromtimestamp(window.start_ms / 1000, dt.UTC),
            "window_end": dt.datetime.fromtimestamp(window.end_ms / 1000, dt.UTC), "source": "log_directories",
            "arrived_count": 3, "row_count": 5, "problem_count": 0, "as_of": dt.datetime.fromtimestamp(0, dt.UTC), "source_expired": False,
            "table_versions": {}, "is_trusted": True, **fields,
        }
        for window in windows
    ]  # fmt: skip  # fields of a value, several a line
    replace_rows(rows_of(WINDOW_STATUS, status, run_id=run_id), warehouse, WINDOW_STATUS, cluster="c", windows=windows)


@pytest.mark.parametrize(
    ("committed", "most", "lost"),
    [
        ((), 9, ()),
        ((1, 3, 4), 9, ((2,), (5, 6))),
        ((1, 3, 4), 3, ((5, 6),)),
        ((1, 3, 4), 1, ((6,),)),
        ((1, 2, 3, 4, 5, 6), 9, ()),
        ((8,), 9, ()),
    ],
    ids=["a new warehouse", "two gaps", "older ones stay lost", "one at most", "none", "backwards"],
)
def test_windows_that_no_run_committed_are_found_in_stretches(tmp_path, committed, most, lost):
    windows = [TimeWindow(i * 60_000, (i + 1) * 60_000) for i in range(9)]
    if committed:
        ensure_tables(tmp_path)
        commit(tmp_path, *(windows[i] for i in committed))
    found = lost_windows(tmp_path, "c", windows[7], most)
    assert found == tuple(tuple(windows[i] for i in stretch) for stretch in lost)


def test_windows_over_which_no_gate_passed_are_lost_until_they_were_tried_often(tmp_path):
    windows = [TimeWindow(i * 60_000, (i + 1) * 60_000) for i in range(6)]
    ensure_tables(tmp_path)
    told = [(None, 1), (True, 1), (False, 5), (None, 6), (None, None)]
    for window, (is_trusted, tries) in zip(windows, told, strict=False):
        commit(tmp_path, window, is_trusted=is_trusted, tries=tries)
    assert lost_windows(tmp_path, "c", windows[5], 9) == ((windows[0],), (windows[2],), (windows[4],))
    stored = load_stored_windows(tmp_path, "c", windows)
    assert [stored.tries[window] for window in windows[:5]] == [1, 0, 5, 6, 0]


def test_no_window_is_lost_whose_time_windows_of_another_length_hold(tmp_path):
    """After `window` became longer, a day of windows was ingested over the rows of each."""
    ensure_tables(tmp_path)
    commit(tmp_path, *(TimeWindow(minute * 60_000, (minute + 1) * 60_000) for minute in range(7)))
    fives = [TimeWindow(i * 300_000, (i + 1) * 300_000) for i in range(4)]
    assert lost_windows(tmp_path, "c", fives[3], 9) == ((fives[2],),)


def test_windows_of_today_are_lost_where_a_window_of_an_earlier_date_is_committed(tmp_path):
    ensure_tables(tmp_path)
    days = [TimeWindow(day * DAY_MS, day * DAY_MS + 60_000) for day in range(4)]
    commit(tmp_path, days[0])
    before = [TimeWindow(days[3].start_ms - i * 60_000, days[3].start_ms - (i - 1) * 60_000) for i in (2, 1)]
    assert lost_windows(tmp_path, "c", days[3], 2) == (tuple(before),)
    assert lost_windows(tmp_path, "other", days[3], 2) == ()


def status(minute, **versions):
    start, end = (dt.datetime.fromtimestamp(60 * at, dt.UTC) for at in (minute, minute + 1))
    return {
        "cluster": "c", "window_start": start, "window_end": end, "source": "log_directories", "arrived_count": 3,
        "row_count": 5, "problem_count": 0, "as_of": end, "source_expired": False, "is_trusted": True,
        "table_versions": versions,
    }  # fmt: skip  # fields of a value, several a line


@pytest.fixture
def vouched(tmp_path):
    """Two trusted windows over one commit of a table after its making, a third that vouches for more commits."""
    ensure_tables(tmp_path)
    replace_rows(rows_of(PARTITION_TRAFFIC, [], run_id="r"), tmp_path, PARTITION_TRAFFIC, cluster="c", windows=W[:2])
    rows = [
        status(0, **{PARTITION_TRAFFIC.name: 1}),
        status(1, **{PARTITION_TRAFFIC.name: 1, "gone.table": 9}),
        status(2, **{PARTITION_TRAFFIC.name: 2}),
    ]
    replace_rows(rows_of(WINDOW_STATUS, rows, run_id="r"), tmp_path, WINDOW_STATUS, cluster="c", windows=W)
    return tmp_path


def test_a_window_whose_table_lost_a_commit_is_not_trusted(vouched):
    assert trusted_windows(vouched, "c") == committed_windows(vouched, "c") == {W[0], W[1]}
    shutil.rmtree(table_path(vouched, PARTITION_TRAFFIC))
    assert trusted_windows(vouched, "c") == frozenset()


def test_a_table_restored_from_a_copy_takes_the_trust_away(vouched, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy") / "traffic"
    shutil.copytree(table_path(vouched, PARTITION_TRAFFIC), copy)
    replace_rows(rows_of(PARTITION_TRAFFIC, [], run_id="r"), vouched, PARTITION_TRAFFIC, cluster="c", windows=W[2:])
    assert trusted_windows(vouched, "c") == {*W[:3]}
    shutil.rmtree(table_path(vouched, PARTITION_TRAFFIC))
    shutil.copytree(copy, table_path(vouched, PARTITION_TRAFFIC))
    assert trusted_windows(vouched, "c") == {W[0], W[1]}


def test_trust_is_withdrawn_in_one_commit_and_only_where_there_is_some(vouched):
    def version():
        return DeltaTable(table_path(vouched, WINDOW_STATUS)).version()

    before = version()
    withdraw_trust(vouched, "c", W[1:])
    assert trusted_windows(vouched, "c") == {W[0]}
    assert committed_windows(vouched, "c") == {W[0], W[1]}
    withdraw_trust(vouched, "c", W[1:])
    assert version() == before + 1
