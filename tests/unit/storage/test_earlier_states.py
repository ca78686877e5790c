"""What earlier runs saw of a cluster: the newest row of each term of office."""

from __future__ import annotations

from pipeline.model.window import TimeWindow, instant_of
from pipeline.storage.earlier_states import load_earlier_states
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import CLUSTER_STATE

HOUR_MS = 3_600_000


def row(window, leader, epoch, *, replica=None, end=0, source="live_cluster"):
    replica = leader if replica is None else replica
    return {
        "cluster": "c",
        "window_start": instant_of(window * HOUR_MS),
        "topic": "t",
        "topic_id": "id",
        "partition": 0,
        "replica_id": replica,
        "replica_position": replica,
        "leader_id": leader,
        "leader_epoch": epoch,
        "is_leader": replica == leader,
        "is_preferred_leader": replica == 0,
        "log_start_offset": 0,
        "log_end_offset": end,
        "size_bytes": end * 10,
        "state_source": source,
    }


def test_the_newest_row_of_each_leader_epoch(tmp_path):
    assert load_earlier_states(tmp_path, "c", 10 * HOUR_MS) == ()
    ensure_tables(tmp_path)
    rows = [
        row(0, 0, 5, end=10),
        row(1, 0, 5, end=20),
        row(1, 0, 5, replica=1, end=19),
        row(2, 1, 6, end=30),
        row(3, 1, 6, end=40, source="cluster_metadata"),
        row(4, 1, 6, end=50),
    ]
    windows = [TimeWindow(hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in range(5)]
    replace_rows(rows_of(CLUSTER_STATE, rows, run_id="r"), tmp_path, CLUSTER_STATE, cluster="c", windows=windows)
    found = load_earlier_states(tmp_path, "c", 4 * HOUR_MS)
    assert [(e.window_start_ms // HOUR_MS, e.leader_id, e.leader_epoch, e.log_end_offset) for e in found] == [
        (1, 0, 5, 20),
        (2, 1, 6, 30),
    ]
    assert load_earlier_states(tmp_path, "other", 4 * HOUR_MS) == ()
