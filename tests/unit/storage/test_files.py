"""Which files tasks read. Oracle: the windows that were written into each."""

import pyarrow as pa

from pipeline.model.window import TimeWindow, instant_of
from pipeline.storage.files import list_data_files
from pipeline.storage.frames import arrow_schema, rows_of
from pipeline.storage.rows import insert_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import BROKERS
from pipeline.tables.keys import KEY_HASHES

HOUR_MS = 3_600_000


def write_hour(warehouse, hour):
    window = TimeWindow(hour * HOUR_MS, (hour + 1) * HOUR_MS)
    row = {"cluster": "c", "window_start": instant_of(window.start_ms), "broker_id": 1, "state_source": "live_cluster"}
    row |= {column.name: 0 for column in BROKERS.columns if column.type == "bigint" and column.name not in row}
    replace_rows(rows_of(BROKERS, [row], run_id="r"), warehouse, BROKERS, cluster="c", windows=[window])
    return window


def test_files_of_other_windows_of_a_date_are_left_out(tmp_path):
    ensure_tables(tmp_path, (BROKERS,))
    windows = [write_hour(tmp_path, hour) for hour in (*range(5), 30)]
    assert len(list_data_files(tmp_path, BROKERS, "c", windows)) == 6
    one = [list_data_files(tmp_path, BROKERS, "c", [window]) for window in windows]
    assert [len(files) for files in one] == [1] * 6
    assert len(set(one)) == 6
    assert set(list_data_files(tmp_path, BROKERS, "c", (windows[1], windows[4]))) == {*one[1], *one[4]}
    assert list_data_files(tmp_path, BROKERS, "d", windows) == ()


def test_a_table_of_dates_is_cut_by_date(tmp_path):
    ensure_tables(tmp_path, (KEY_HASHES,))
    windows = [TimeWindow(hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in (3, 30)]
    for window in windows:
        held = {"cluster": "c", "window_date": instant_of(window.start_ms).date(), "key_id": b"k", "is_empty": False}
        kinds = arrow_schema(KEY_HASHES)
        columns = [
            pa.array([held.get(field.name, "r" if field.name == "run_id" else None)], field.type) for field in kinds
        ]
        insert_rows(pa.table(columns, kinds), tmp_path, KEY_HASHES)
    assert [len(list_data_files(tmp_path, KEY_HASHES, "c", [window])) for window in windows] == [1, 1]
    assert len(list_data_files(tmp_path, KEY_HASHES, "c", windows)) == 2
