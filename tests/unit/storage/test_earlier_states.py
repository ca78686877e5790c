"""What earlier runs saw of a cluster: the newest row of each term of office."""

from dataclasses import replace

import pytest

from pipeline.model.window import TimeWindow, instant_of
from pipeline.storage.files import list_data_files
from pipeline.storage.frames import rows_of
from pipeline.storage.observations import _read_terms, load_earlier_states
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import CLUSTER_STATE

HOUR_MS = 3_600_000


def row(window, leader, epoch, *, replica=None, end=0, source="live_cluster", observed=None):
    replica = leader if replica is None else replica
    at = {"cluster": "c", "window_start": instant_of(window * HOUR_MS), "state_source": source}
    at |= {"observed_at": None if observed is None else instant_of(observed * HOUR_MS)}
    of = {"topic": "t", "topic_id": "id", "partition": 0, "replica_id": replica, "replica_position": replica}
    led = {
        "leader_id": leader,
        "leader_epoch": epoch,
        "is_leader": replica == leader,
        "is_preferred_leader": replica == 0,
    }
    return at | of | led | {"log_start_offset": 0, "log_end_offset": end, "size_bytes": end * 10}


def span(hour):
    return TimeWindow(hour * HOUR_MS, (hour + 1) * HOUR_MS)


@pytest.fixture
def store(tmp_path):
    """Replaces the first so many windows by rows of states."""

    def replace_windows(rows, hours):
        ensure_tables(tmp_path)
        windows = [span(hour) for hour in range(hours)]
        replace_rows(rows_of(CLUSTER_STATE, rows, run_id="r"), tmp_path, CLUSTER_STATE, cluster="c", windows=windows)

    return replace_windows


def test_the_newest_row_of_each_leader_epoch(spark, tmp_path, store):
    assert load_earlier_states(spark, tmp_path, "c", span(10)) == []
    rows = [row(0, 0, 5, end=10), row(1, 0, 5, end=20), row(1, 0, 5, replica=1, end=19), row(2, 1, 6, end=30)]
    rows += [row(3, 1, 6, end=40, source="cluster_metadata"), row(4, 1, 6, end=50)]
    store(rows, 5)
    found = load_earlier_states(spark, tmp_path, "c", span(4))
    assert [(e.window_start_ms // HOUR_MS, e.leader_id, e.leader_epoch, e.log_end_offset) for e in found] == [
        (1, 0, 5, 20),
        (2, 1, 6, 30),
        (4, 1, 6, 50),  # of the run's own window, by a run before
    ]
    assert load_earlier_states(spark, tmp_path, "other", span(4)) == []


def test_when_a_leader_epoch_was_first_observed(spark, tmp_path, store):
    rows = [row(0, 0, 5, observed=3), row(1, 0, 5, observed=2), row(2, 1, 6), row(6, 1, 7, observed=7)]
    store(rows, 7)
    found = load_earlier_states(spark, tmp_path, "c", span(3))
    assert [(e.leader_epoch, e.observed_at_ms) for e in found] == [(5, 2 * HOUR_MS), (6, None), (7, 7 * HOUR_MS)]


def test_since_when_nobody_leads(spark, tmp_path, store):
    rows = [
        row(0, 0, 5, observed=1),
        row(1, -1, 5, replica=0, observed=2),  # brokers named different leaders
        row(1, -1, None, replica=0, observed=2),
        *(row(1, -1, 6, replica=replica, observed=2) for replica in (0, 1)),
        *(row(2, -1, 6, replica=replica, observed=3) for replica in (0, 1)),
    ]
    store(rows, 3)
    found = load_earlier_states(spark, tmp_path, "c", span(3))
    assert [(e.leader_id, e.leader_epoch, e.observed_at_ms) for e in found] == [
        (0, 5, HOUR_MS),
        (-1, 5, 2 * HOUR_MS),
        (-1, 6, 2 * HOUR_MS),
    ]


def test_the_leader_that_was_observed_is_known_beside_the_one_at_the_window_s_end(spark, tmp_path, store):
    """Broker 0 led at the end of the window, broker 1 when the cluster was asked: both terms are kept."""
    observed = {"observed_leader_id": 1, "observed_leader_epoch": 6}
    rows = [row(0, 0, 5, end=90, observed=2, replica=replica) | observed for replica in (0, 1)]
    rows[1] |= {"log_end_offset": 100, "size_bytes": 1_000}
    store(rows, 1)
    found = load_earlier_states(spark, tmp_path, "c", span(1))
    assert [(e.leader_id, e.leader_epoch, e.log_end_offset, e.size_bytes, e.observed_at_ms) for e in found] == [
        (0, 5, 90, 900, 2 * HOUR_MS),
        (1, 6, 100, 1_000, 2 * HOUR_MS),
    ]


def test_a_warehouse_of_before_the_instant_was_noted(spark, tmp_path):
    """Its leaders of epochs are true, when they were observed is not known; the table then gets the column."""
    columns = tuple(column for column in CLUSTER_STATE.columns if not column.name.startswith("observed_"))
    before = replace(CLUSTER_STATE, columns=columns, schema_version=2)
    ensure_tables(tmp_path, [before])
    old = {name: value for name, value in row(0, 0, 5, end=10).items() if name != "observed_at"}
    replace_rows(rows_of(before, [old], run_id="r"), tmp_path, before, cluster="c", windows=[span(0)])
    (found,) = load_earlier_states(spark, tmp_path, "c", span(1))
    assert (found.leader_id, found.leader_epoch, found.observed_at_ms) == (0, 5, None)
    ensure_tables(tmp_path, [CLUSTER_STATE])
    assert load_rows(tmp_path, CLUSTER_STATE)["observed_at"].to_pylist() == [None]
    assert load_earlier_states(spark, tmp_path, "c", span(1)) == [found]


def test_where_a_log_ended_an_hour_before_the_span(spark, tmp_path, store):
    """Of all that the same leader said by then: another may have lied. What was observed later may hold records of the span."""
    ends = ((0, 5, 10), (0, 5, 20), (1, 6, 30), (1, 6, 40))
    rows = [row(hour, *leader, end=end, observed=hour + 1) for hour, (*leader, end) in enumerate(ends)]
    store(rows, 4)
    settled = {
        hour: {e.leader_id: e.settled_offset for e in load_earlier_states(spark, tmp_path, "c", span(hour))}
        for hour in (1, 3, 4)
    }
    assert settled == {1: {0: None, 1: None}, 3: {0: 20, 1: None}, 4: {0: 20, 1: 30}}


def test_how_far_ahead_a_topic_took_records_is_the_largest_that_any_run_saw(spark, tmp_path, store):
    """Of all leader epochs of a partition; any time where one run did not note it."""
    ahead = "message.timestamp.after.max.ms"
    told = [{"cleanup.policy": "delete", ahead: value} for value in (str(HOUR_MS), str(2**63 - 1))]
    hour, any_time = ({"configs": configs} for configs in told)
    first, then = row(0, 0, 5, observed=1), row(1, 0, 5, observed=2)
    of_topics = {
        "t": [first | hour, then | hour, row(2, 1, 6) | {"configs": told[0] | {ahead: "5"}}],
        "loose": [first | any_time, then | hour],
        "refused": [first | hour, then | {"configs": {}, "observed_leader_id": 0}],
        "old": [first | hour, then | {"configs": {"cleanup.policy": "delete"}}],  # as Kafka 3.5 tells
        "caught up": [first | hour, row(1, 0, 5) | {"configs": {}}],  # nobody was asked about that window
        "late": [row(1, 0, 5, observed=3) | hour],  # what it took an hour before the span is not known
    }
    store([one | {"topic": topic} for topic, rows in of_topics.items() for one in rows], 3)
    found = {e.topic: e.time_ahead_ms for e in load_earlier_states(spark, tmp_path, "c", span(3))}
    assert found == {
        "t": HOUR_MS,
        "loose": 2**63 - 1,
        "refused": 2**63 - 1,
        "old": 2**63 - 1,
        "caught up": HOUR_MS,
        "late": None,
    }
    later = TimeWindow(40 * HOUR_MS, 41 * HOUR_MS)  # after a pause of more than a day
    assert {e.time_ahead_ms for e in load_earlier_states(spark, tmp_path, "c", later)} == {None}


def test_a_task_keeps_one_row_of_a_leader_epoch_however_many_windows_there_are(spark, tmp_path, store):
    """The driver sorted all rows of fourteen days: 8 GB of a cluster of 20,000 partitions."""
    rows = [
        {**row(hour, 0, 5, end=hour, observed=hour + 1, replica=replica), "partition": number}
        for hour in range(30)
        for number in range(4)
        for replica in (0, 1)
    ]
    store(rows, 30)
    reach = TimeWindow(0, 30 * HOUR_MS)
    files = list_data_files(tmp_path, CLUSTER_STATE, "c", (reach,))
    (read,) = _read_terms(tmp_path, reach, 20 * HOUR_MS, frozenset(), files)
    assert sorted(zip(read["partition"].to_pylist(), read["log_end_offset"].to_pylist(), strict=True)) == [
        (number, end) for number in range(4) for end in (19, 29)
    ]
    found = load_earlier_states(spark, tmp_path, "c", span(20))
    assert [(e.partition, e.log_end_offset, e.observed_at_ms) for e in found] == [
        (number, end, HOUR_MS) for end in (19, 29) for number in range(4)
    ]
