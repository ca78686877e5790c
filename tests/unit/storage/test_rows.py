"""Rows replaced and merged without a JVM, against the rows one expects by hand."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from pipeline.errors import TableMismatchError
from pipeline.model.window import TimeWindow
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import compare_added, insert_rows, load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import Column, Table
from pipeline.tables.bronze import QUARANTINE
from pipeline.tables.table import RUN_ID
from tests.loads_table import loads_table
from tests.memory import tracing_memory

START = dt.datetime(2026, 11, 20, 23, 58, tzinfo=dt.UTC)  # two minutes before a date ends
MINUTE = dt.timedelta(minutes=1)
LOADS = loads_table(
    Column(name="size_bytes", type="bigint", unit="bytes", doc="Load."),
    Column(name="parts", type="map<string,bigint>", doc="Load by topic."),
)


def windows(*minutes):
    start_ms = round(START.timestamp() * 1000)
    return [TimeWindow(start_ms + minute * 60_000, start_ms + (minute + 1) * 60_000) for minute in minutes]


def rows(*data, cluster="c", run_id="a"):
    """Rows of (minute, broker, bytes)."""
    return rows_of(
        LOADS,
        [
            {"cluster": cluster, "window_start": START + minute * MINUTE, "broker_id": broker, "size_bytes": size, "parts": {"t": size}}
            for minute, broker, size in data
        ],
        run_id=run_id,
    )  # fmt: skip  # fields of a value, several a line


def stored(warehouse, **which):
    found = load_rows(warehouse, LOADS, **which).to_pylist()
    return sorted(((row["window_start"] - START) // MINUTE, row["broker_id"], row["size_bytes"]) for row in found)


@pytest.fixture
def warehouse(tmp_path):
    ensure_tables(tmp_path, [LOADS])
    return tmp_path


@pytest.mark.parametrize(
    ("replaced", "given", "expected"),
    [
        ([0], [(0, 1, 99)], [(0, 1, 99), (1, 1, 11), (2, 1, 12), (3, 1, 13)]),
        ([1, 2], [(1, 1, 98), (2, 1, 99)], [(0, 1, 10), (1, 1, 98), (2, 1, 99), (3, 1, 13)]),  # over midnight
        ([0, 3], [(3, 7, 99)], [(1, 1, 11), (2, 1, 12), (3, 7, 99)]),  # a gap between them
        ([2], [], [(0, 1, 10), (1, 1, 11), (3, 1, 13)]),
        ([0, 1, 2, 3], [], []),
        ([9], [(9, 1, 5)], [(0, 1, 10), (1, 1, 11), (2, 1, 12), (3, 1, 13), (9, 1, 5)]),
    ],
)
def test_exactly_the_windows_given_are_replaced(warehouse, replaced, given, expected):
    before = rows((0, 1, 10), (1, 1, 11), (2, 1, 12), (3, 1, 13))
    assert replace_rows(before, warehouse, LOADS, cluster="c", windows=windows(0, 1, 2, 3)) == 1
    assert replace_rows(rows(*given), warehouse, LOADS, cluster="c", windows=windows(*replaced)) == 2
    assert stored(warehouse) == expected


def test_the_same_rows_twice_are_the_same_table(warehouse):
    for _ in range(2):
        replace_rows(rows((0, 1, 10), (2, 1, 12)), warehouse, LOADS, cluster="c", windows=windows(0, 1, 2))
    assert stored(warehouse) == [(0, 1, 10), (2, 1, 12)]
    assert load_rows(warehouse, LOADS, cluster="c", windows=windows(2)).to_pylist() == rows((2, 1, 12)).to_pylist()


def test_clusters_do_not_touch_each_other_whatever_their_names(warehouse):
    for name in ("c", "o'hara", 'a" b\\'):
        replace_rows(rows((0, 1, 10), cluster=name), warehouse, LOADS, cluster=name, windows=windows(0))
    replace_rows(rows(cluster="o'hara"), warehouse, LOADS, cluster="o'hara", windows=windows(0))
    found = {name: stored(warehouse, cluster=name) for name in ("c", "o'hara", 'a" b\\')}
    assert found == {"c": [(0, 1, 10)], "o'hara": [], 'a" b\\': [(0, 1, 10)]}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (rows((5, 1, 10)), "outside cluster c"),
        (rows((0, 1, 10), cluster="other"), "outside cluster c"),
        (rows((0, None, 10)), "NULL in broker_id"),
    ],
)
def test_rows_that_do_not_belong_are_refused_and_nothing_is_written(warehouse, given, reason):
    with pytest.raises(TableMismatchError, match=reason):
        replace_rows(given, warehouse, LOADS, cluster="c", windows=windows(0))
    assert DeltaTable(table_path(warehouse, LOADS)).version() == 0


def test_rows_are_inserted_and_those_stored_are_left_alone(warehouse):
    plain = LOADS.columns[:5]
    table = Table(name=LOADS.name, grain="", key=LOADS.key, columns=(*plain, RUN_ID), write_mode="merge")

    def inserted(*data, run_id):
        return insert_rows(rows(*data, run_id=run_id).drop_columns(["parts"]), warehouse, table)

    assert inserted((0, 1, 10), (0, 2, 20), run_id="a") == 1
    assert inserted((0, 1, 99), (0, 2, 20), run_id="b") == 1  # no new key: no commit
    assert inserted((0, 1, 99), (0, 4, 40), run_id="d") == 2
    assert inserted(run_id="f") == 2
    assert stored(warehouse) == [(0, 1, 10), (0, 2, 20), (0, 4, 40)]
    with pytest.raises(TableMismatchError, match="two rows of one key"):
        inserted((0, 1, 1), (0, 1, 2), run_id="g")


def test_a_merge_notes_the_rows_that_a_run_added(warehouse):
    """Those that were stored before are not among them; nothing is noted where no row is added."""
    table = Table(name=LOADS.name, grain="", key=LOADS.key, columns=(*LOADS.columns[:5], RUN_ID), write_mode="merge")
    for run_id, data in (("a", [(0, 1, 10), (0, 2, 20)]), ("b", [(0, 2, 21), (0, 3, 30)]), ("d", [(0, 1, 11)])):
        new = rows(*data, run_id=run_id).drop_columns(["parts"])
        since = insert_rows(new, warehouse, table, of=("c", run_id))
        found = compare_added(warehouse, table, ("c", run_id), windows(0), since)
        count = {"a": 2, "b": 1}.get(run_id)
        assert found is None if count is None else found[1] == found[3] == count and found[2] == found[4]
    assert since == 2
    assert stored(warehouse) == [(0, 1, 10), (0, 2, 20), (0, 3, 30)]


def test_what_a_merge_notes_takes_no_memory_of_all_that_is_stored(warehouse):
    """A topic's writer may have a thousand places of each segment refused: a year of them is no matter of the next run's."""
    ensure_tables(warehouse, (QUARANTINE,))

    def refused(path, *positions, run_id):
        columns = {column.name: "" for column in QUARANTINE.columns}
        columns |= {"cluster": "c", "path": path, "first_seen_at": None}
        return rows_of(QUARANTINE, [columns | {"position": one} for one in positions], run_id=run_id)

    insert_rows(refused("orders-0/0.log", *range(200_000), run_id="a"), warehouse, QUARANTINE)
    new = refused("it's-0/0.log", 1, 2, run_id="b")
    with tracing_memory() as peak_bytes:
        for _ in range(2):
            insert_rows(new, warehouse, QUARANTINE, of=("c", "b"))
        assert peak_bytes() < 10_000_000
    found = load_rows(warehouse, QUARANTINE, where="path <> 'orders-0/0.log'")
    assert sorted(found["position"].to_pylist()) == [1, 2]


def test_writers_of_different_windows_at_one_time_all_get_through(warehouse):
    def write(minute):
        replace_rows(rows((minute, 1, minute)), warehouse, LOADS, cluster="c", windows=windows(minute))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8)))
    assert stored(warehouse) == [(minute, 1, minute) for minute in range(8)]
