"""How long tables keep their rows: the configuration's `retention`, and which tables maintenance then cuts."""

import datetime as dt
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.config.sections import SUMMED_UP, retention_of
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, StorageError
from pipeline.jobs import maintain
from pipeline.model.window import DAY_MS, TimeWindow
from pipeline.storage.frames import arrow_schema, rows_of
from pipeline.storage.rows import insert_rows, load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.storage.window_status import lost_windows, trusted_windows
from pipeline.tables import TABLES
from pipeline.tables.bronze import BROKERS, CONSUMER_GROUPS, WINDOW_STATUS
from pipeline.tables.gold import LATENCY, VERDICTS, ZONE_TRAFFIC
from pipeline.tables.keys import KEY_HASHES
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.config_files import write_configuration
from tests.table_rows import needed_row

NOW = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
NOW_MS = round(NOW.timestamp() * 1000)
AGES = (100, 50, 1)


@pytest.fixture
def load(tmp_path):
    def load(retention):
        cluster = {"sources": [{"kind": "log_directories", "paths": ["logs"]}]}
        return load_config(write_configuration(tmp_path, {"demo": cluster}, retention=retention))

    return load


@pytest.mark.parametrize(
    ("retention", "reason"),
    [
        ({"silver": "P30D"}, r"yaml:12:3: retention\.silver: runs read up to 31 days of history"),
        ({"copper": "P90D"}, r"retention\.copper: not a layer or a table that may lose rows; expected bronze, "),
        (
            {"gold": "P90D", "gold.incidents": "P90D"},
            r"retention\.gold\.incidents: not a layer or a table that may lose rows",
        ),
        ({"silver.key_trafic": "P90D"}, r"retention\.silver\.key_trafic: .*nearest: silver\.key_traffic"),
    ],
)
def test_a_retention_that_would_take_what_runs_need_is_refused(load, retention, reason):
    with pytest.raises(ConfigError, match=reason):
        load(retention)


@pytest.mark.parametrize(
    ("retention", "days"), [({}, [None, None, None]), ({"silver": "P40D", "silver.arrivals": "P50D"}, [40, 50, 40])]
)
def test_rows_go_only_where_the_configuration_says_so_a_tables_own_entry_first(load, retention, days):
    kept = load(retention).retention
    assert [found and found.days for found in (retention_of(kept, table) for table in SUMMED_UP)] == days
    assert retention_of(kept, LATENCY) is None


def write_days(config, table):
    """A window of so many days ago each."""
    windows = [TimeWindow(start_ms, start_ms + 3_600_000) for start_ms in (NOW_MS - days * DAY_MS for days in AGES)]
    rows = [needed_row(table, window.start_ms, cluster="demo") for window in windows]
    rows = [row | ({"verdict": "ok"} if table is VERDICTS else {}) for row in rows]
    replace_rows(rows_of(table, rows, run_id="r"), config.warehouse, table, cluster="demo", windows=windows)


def ages_of(warehouse, table):
    return [(NOW - start).days for start in sorted(load_rows(warehouse, table)["window_start"].to_pylist())]


def test_a_table_has_its_own_retention_or_its_layers_and_incidents_keep_what_they_stand_on(load):
    config = load({"bronze": "P40D", "gold": "P60D", "gold.latency": "P40D"})
    ensure_tables(config.warehouse)
    for table in (PARTITION_TRAFFIC, CONSUMER_GROUPS, LATENCY, VERDICTS):
        write_days(config, table)
    report = maintain.run(config, now_ms=NOW_MS)
    assert [note for note in report.notes if "dropped" in note] == [
        "bronze.consumer_groups: rows of 2 dates before 2026-10-13 dropped",
        "gold.latency: rows of 2 dates before 2026-10-13 dropped",
    ]
    assert (ages_of(config.warehouse, CONSUMER_GROUPS), ages_of(config.warehouse, LATENCY)) == ([1], [1])
    assert ages_of(config.warehouse, VERDICTS) == [100, 50, 1]


def test_a_clock_that_is_years_ahead_drops_nothing_but_what_is_reversed_into_keys(load):
    config = load({"bronze": "P40D"})
    tables = (PARTITION_TRAFFIC, CONSUMER_GROUPS, KEY_HASHES)
    ensure_tables(config.warehouse, tables)
    for table in tables[:2]:
        write_days(config, table)
    hashed = {"cluster": "demo", "window_date": NOW.date(), "key_id": "f" * 32, "is_empty": False, "run_id": "r"}
    insert_rows(pa.Table.from_pylist([hashed], arrow_schema(KEY_HASHES)), config.warehouse, KEY_HASHES)
    maintain.run(config, now_ms=NOW_MS + 3_650 * DAY_MS)
    assert ages_of(config.warehouse, CONSUMER_GROUPS) == [1]
    assert load_rows(config.warehouse, KEY_HASHES).num_rows == 0


def test_a_damaged_table_is_named_and_all_others_are_maintained(load):
    config = load({"bronze": "P40D"})
    ensure_tables(config.warehouse)
    write_days(config, PARTITION_TRAFFIC)
    write_days(config, CONSUMER_GROUPS)
    for table in (BROKERS, LATENCY):
        max((table_path(config.warehouse, table) / "_delta_log").glob("*.json")).write_bytes(b"")
    shutil.rmtree(table_path(config.warehouse, VERDICTS) / "_delta_log")
    (table_path(config.warehouse, VERDICTS) / "x.parquet").write_bytes(b"")
    (table_path(config.warehouse, ZONE_TRAFFIC) / "_delta_log" / "_last_checkpoint").mkdir()
    with pytest.raises(StorageError, match="4 tables not maintained, all others were") as raised:
        maintain.run(config, now_ms=NOW_MS)
    damaged = (BROKERS, LATENCY, ZONE_TRAFFIC, VERDICTS)
    assert [str(table_path(config.warehouse, table)) in str(raised.value) for table in damaged] == [True] * 4
    assert ages_of(config.warehouse, CONSUMER_GROUPS) == [1]
    kept = {table.name for table in TABLES if table not in damaged}
    folders = {name: config.warehouse.joinpath(*name.split("."), "_delta_log") for name in kept}
    assert {name for name, log in folders.items() if any(log.glob("*.checkpoint.parquet"))} == kept


def copy_table(warehouse, table, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(table_path(warehouse, table), to)


def restore_copy(warehouse, table, copy):
    shutil.rmtree(table_path(warehouse, table))
    shutil.copytree(copy, table_path(warehouse, table))


RESTORES = {
    "from a copy": restore_copy,
    "by RESTORE": lambda warehouse, table, _: DeltaTable(table_path(warehouse, table)).restore(1),
    "by RESTORE to a time": lambda warehouse, table, _: DeltaTable(table_path(warehouse, table)).restore(
        dt.datetime.fromtimestamp(DeltaTable(table_path(warehouse, table)).history()[1]["timestamp"] / 1000, dt.UTC)
    ),
}


@pytest.mark.parametrize("way", RESTORES)
def test_a_window_whose_rows_a_restore_took_is_never_trusted_again(load, tmp_path, way):
    """Later commits of the table took the numbers for which the window vouches, and it was judged without its rows."""
    config = load({})
    ensure_tables(config.warehouse, (BROKERS, WINDOW_STATUS))
    windows = [TimeWindow(start_ms, start_ms + 3_600_000) for start_ms in (NOW_MS - 2 * 3_600_000, NOW_MS - 3_600_000)]
    versions = []
    for window in windows:
        rows = rows_of(BROKERS, [needed_row(BROKERS, window.start_ms, cluster="demo")], run_id="r")
        versions.append(replace_rows(rows, config.warehouse, BROKERS, cluster="demo", windows=[window]))
        if window is windows[0]:
            copy_table(config.warehouse, BROKERS, tmp_path / "copy")
    fields = {"source": "log_directories", "is_trusted": True, "as_of": NOW, "problem_count": 0}
    status = [
        needed_row(WINDOW_STATUS, window.start_ms, cluster="demo")
        | {"window_end": dt.datetime.fromtimestamp(window.end_ms / 1000, dt.UTC), **fields}
        | {"table_versions": {BROKERS.name: version}}
        for window, version in zip(windows, versions, strict=True)
    ]
    rows = rows_of(WINDOW_STATUS, status, run_id="r")
    replace_rows(rows, config.warehouse, WINDOW_STATUS, cluster="demo", windows=windows)
    assert trusted_windows(config.warehouse, "demo") == {*windows}
    RESTORES[way](config.warehouse, BROKERS, tmp_path / "copy")
    maintain.run(config, now_ms=NOW_MS)
    for _ in range(3):
        rows = rows_of(BROKERS, [], run_id="r")
        replace_rows(rows, config.warehouse, BROKERS, cluster="other", windows=windows)
    assert trusted_windows(config.warehouse, "demo") <= {windows[0]}
    assert lost_windows(config.warehouse, "demo", TimeWindow(NOW_MS, NOW_MS + 3_600_000), 2)[-1][-1] == windows[1]
