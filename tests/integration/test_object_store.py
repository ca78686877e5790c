"""Landing folder and warehouse in buckets of a real S3 server. Oracle: the same on this machine's disks."""

import datetime as dt
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from pipeline.model.window import TimeWindow
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.stages import map_tasks
from pipeline.storage.data_files import load_stored, replace_windows
from pipeline.storage.files import FILE, Scope
from pipeline.storage.frames import arrow_schema, fit_rows
from pipeline.storage.maintenance import maintain_tables
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from tests.engines import on_classic, on_sail
from tests.integration.object_store import ObjectStore
from tests.loads_table import loads_table
from tests.spark.capture_runs import compare, list_rows

ROOT = Path(__file__).parents[2]
TOPICS = ("audit", "codec-zstd", "regions")
HOSTS = ("0", "1", "2")
DAY_MS = 86_400_000
MINUTE_MS = 60_000
DONE = {0, 4}  # healthy or not
LOADS = loads_table()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    server = ObjectStore(tmp_path_factory.mktemp("store"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def warehouse(store, request):
    folder = store.table_folder(request.node.name)
    ensure_tables(folder, [LOADS])
    return folder


def rows_of(*rows):
    """Rows of (minute, broker)."""
    starts = [dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minute) for minute, _ in rows]
    columns = [pa.array(starts, pa.timestamp("us", "UTC")), pa.array([broker for _, broker in rows], pa.int64())]
    return fit_rows(pa.table(columns, names=["window_start", "broker_id"]), LOADS, cluster="it's", run_id="r")


def windows(*minutes):
    return [TimeWindow(minute * MINUTE_MS, (minute + 1) * MINUTE_MS) for minute in minutes]


def brokers(rows):
    return sorted((row["window_start"].minute, row["broker_id"]) for row in rows.to_pylist())


def start_run(config, span):
    command = [sys.executable, "-m", "pipeline", "run", "--config", str(config), "--window", str(span)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def collect_hosts(config, brokers, landing, as_of_ms):
    rate_limit = RateLimit(bytes_per_s=10**12, clock=lambda: 0.0, pause=lambda _: None)
    for host in HOSTS:
        request = CollectRequest(
            paths=[brokers / host],
            config=config,
            cluster="demo",
            host=host,
            keep_ms=DAY_MS,
            as_of_ms=as_of_ms,
            run_id=host,
        )
        assert collect(request, landing, rate_limit).read_bytes


def test_landing_and_warehouse_in_buckets_give_the_tables_of_folders(store, capture, tmp_path):
    """The server dies by SIGKILL while the run writes its first tables."""
    part = capture.part(tmp_path / "capture", topics=TOPICS)
    span = part.span(2, 4)
    remote_storage = {"storage": store.storage.model_dump(mode="json"), "warehouse": "s3a://tables/prod"}
    configs = {}
    for name, landing, document in (
        ("local", str(tmp_path / "landing"), {}),
        ("remote", "s3a://landing/prod", remote_storage),
    ):
        folder = tmp_path / name
        config = part.write_config(folder, topics=TOPICS, sources=("collected",), landing=landing, **document)
        collect_hosts(config, part.folder / "brokers", StoredFolder(landing, config.storage), part.recorded_until_ms)
        configs[name] = config
    local, remote = configs.values()
    on_disk = start_run(tmp_path / "local/partition-health.yaml", span)
    running = start_run(tmp_path / "remote/partition-health.yaml", span)
    while running.poll() is None and not (store.folder / "tables/prod/silver").exists():
        time.sleep(0.01)
    store.kill()
    store.start()
    said, _ = running.communicate()
    if running.returncode not in DONE:  # as a person would
        running = start_run(tmp_path / "remote/partition-health.yaml", span)
        said, _ = running.communicate()
    assert running.returncode in DONE, said
    said, _ = on_disk.communicate()
    assert on_disk.returncode in DONE, said
    found = list_rows(remote.warehouse, ())
    assert compare(list_rows(local.warehouse, ()), found) == {}
    assert sum(found["silver.record_batches"][1].values()) > 1_000
    assert list((remote.local_folder / "reports").glob("*.html"))
    assert maintain_tables(remote.warehouse, as_of_ms=part.recorded_until_ms + 2 * DAY_MS)


def test_writers_at_the_same_time_lose_nothing(warehouse):
    def write(minute):
        replace_rows(rows_of((minute, minute)), warehouse, LOADS, cluster="it's", windows=windows(minute))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8)))
    assert brokers(load_rows(warehouse, LOADS)) == [(minute, minute) for minute in range(8)]


def test_of_two_writers_of_one_window_the_second_is_told(warehouse):
    path = table_path(warehouse, LOADS)
    replace_rows(rows_of((0, 1)), warehouse, LOADS, cluster="it's", windows=windows(0))
    first, second = (DeltaTable(str(path), storage_options=path.delta_options()) for _ in range(2))
    for broker, table in ((2, first), (3, second)):
        try:
            write_deltalake(table, rows_of((0, broker)), mode="overwrite", predicate="broker_id > 0")
        except CommitFailedError:
            assert broker == 3
        else:
            assert broker == 2
    assert brokers(load_rows(warehouse, LOADS)) == [(0, 2)]


@pytest.fixture(params=["sail", "classic"])
def engine(request):
    if request.param == "sail":
        with on_sail() as found:
            yield found
    else:
        with on_classic():
            yield request.getfixturevalue("classic_session")


def test_tasks_write_and_read_what_one_process_may_not_hold(engine, warehouse):
    def replace(parts, *minutes):
        frame = map_tasks(engine, parts, lambda rows: [rows_of(*rows)], arrow_schema(LOADS))
        replace_windows(engine, frame, warehouse, LOADS, Scope.of("it's", windows(*minutes)))

    replace([((0, 1), (1, 2)), ((2, 3),)], 0, 1, 2)
    replace([((1, 5),)], 1)
    assert brokers(load_rows(warehouse, LOADS)) == [(0, 1), (1, 5), (2, 3)]
    scope = Scope.of("it's", windows(1, 2))
    frame = load_stored(engine, warehouse, LOADS, scope).drop(FILE).where("unix_millis(window_start) >= 60000")
    assert frame.columns == list(LOADS.column_names)
    assert brokers(frame.toArrow()) == [(1, 5), (2, 3)]
    assert frame.where("cluster = 'it\\'s' AND window_date = DATE '1970-01-01'").count() == 2
