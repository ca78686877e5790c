"""What disks held when they were read, and in no other window. Oracle: written by hand."""

from pathlib import Path
from types import SimpleNamespace

from pipeline.jobs.ingest.cluster import write_cluster
from pipeline.jobs.measure_rules import run as measure_rules
from pipeline.jobs.recommend import load_placement
from pipeline.model.cluster import Broker, ClusterHistory, ReplicaState, Timeline
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind
from pipeline.sources.source import ClusterReading
from pipeline.stages import Parts
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import RULE_MEASURES
from tests.table_rows import zero_row
from tests.unit.jobs.test_ingest_windows import MINUTE_MS, START_MS, plan, window

DISK_BYTES = 1_000


def read(spark, tmp_path, first, last, used, *, newest=None):
    """Ingests windows of disks that hold so many bytes now; one of them may be the newest."""
    run = plan(tmp_path, first, last, window(last).end_ms, disk_bytes={1: DISK_BYTES})
    ensure_tables(run.warehouse)
    brokers = {1: Timeline.always(Broker(broker_id=1))}
    history = ClusterHistory(state_source="cluster_metadata", known_since_ms=0, brokers=brokers)
    replica = ReplicaState(topic="t", topic_id="id", partition=0, broker_id=1, log_directory="/d", size_bytes=used)
    reading = ClusterReading(
        record_source="log_directories", history=history, replicas=(replica,), directory_counts={1: 1}, newest=newest
    )
    parts = {Kind.SUMMARIES: Parts(spark, Path(), SUMMARY_SCHEMA, (), 0)}
    write_cluster(run, SimpleNamespace(reading=reading, parts=parts, staging=SimpleNamespace(spark=spark)), {})
    return run


def used_by_minute(run, windows):
    rows = run.rows(BROKERS, windows)
    found = {(int(row["window_start"].timestamp() * 1000) - START_MS) // MINUTE_MS: row for row in rows}
    return {minute: sum(dict(row["log_dir_bytes"]).values()) for minute, row in found.items() if row["log_dir_bytes"]}


def test_windows_that_are_taken_up_after_a_pause_do_not_say_that_a_disk_grows_no_more(tmp_path, spark):
    """All had the bytes of now, so a disk that was full within hours had no end in sight, and its incident was resolved."""
    run = read(spark, tmp_path, 0, 180, 800, newest=window(180))
    measure_rules(run, run.windows)
    found = run.rows(RULE_MEASURES)
    assert {row["value"] for row in found if row["rule"] == "disk_hours_to_full" and row["is_enough"]} == set()
    assert used_by_minute(run, run.windows) == {180: 800}


def test_what_disks_held_stays_where_its_window_is_ingested_again(tmp_path, spark):
    for minute in (0, 1):
        read(spark, tmp_path, minute, minute, 100 * (minute + 1), newest=window(minute))
    run = read(spark, tmp_path, 0, 1, 900)
    assert used_by_minute(run, run.windows) == {0: 100, 1: 200}


def test_plans_of_a_window_that_was_read_late_mind_the_room_that_a_later_run_found(tmp_path, spark):
    run = read(spark, tmp_path, 0, 3, 700, newest=window(3))
    run.replace(BROKER_SHARE, [zero_row(BROKER_SHARE, START_MS, broker_id=1)], (window(0),))
    _, (broker,) = load_placement(run, window(0))
    assert broker.free_bytes == 0.9 * DISK_BYTES - 700
