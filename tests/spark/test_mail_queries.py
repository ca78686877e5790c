"""The SQL a mail holds, run by Spark on the tables by name. Oracle: `excess_by_topic`, and the rows that were stored."""

import pytest

from pipeline.alerting.evidence import excess_by_topic
from pipeline.alerting.queries import broker_share_query, topic_excess_query
from pipeline.model.window import TimeWindow, instant_of
from pipeline.storage.catalog import register_tables
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.unit.alerting.examples import LOADS, MINUTE_MS, T0_MS, new_evidence

CLUSTER = 'it\'s \\a "demo"\n'
ZERO = {"bigint": 0, "double": 0.0, "boolean": False, "string": "x"}
"""What stands in a column the queries do not read."""


@pytest.fixture(scope="module")
def spark(classic):
    """People paste these queries into classic Spark."""
    return classic


def window(minute):
    return TimeWindow(T0_MS + minute * MINUTE_MS, T0_MS + (minute + 1) * MINUTE_MS)


def rows(table, known):
    blank = {
        column.name: ZERO[column.type]
        for column in table.columns
        if not column.nullable and column.type in ZERO and column.name != "run_id"
    }
    return rows_of(table, [blank | {"cluster": CLUSTER} | row for row in known], run_id="r1")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory, spark):
    folder = tmp_path_factory.mktemp("mail") / "warehouse"
    ensure_tables(folder, (BROKER_SHARE, PARTITION_TRAFFIC))
    shares = [
        {"window_start": instant_of(window(minute).start_ms), "broker_id": broker_id, "share": 0.5}
        for minute in range(12)
        for broker_id in (1, 2)
    ]
    traffic = [
        {
            "window_start": instant_of(window(minute).start_ms),
            "topic": topic,
            "leader_id": leader_id,
            "size_bytes": size_bytes * (1 if minute == 6 else 100),
        }
        for minute in (5, 6)
        for (topic, leader_id), size_bytes in (LOADS | {("orders", -1): 10**6}).items()
    ]
    for table, known in ((BROKER_SHARE, shares), (PARTITION_TRAFFIC, traffic)):
        windows = [window(minute) for minute in range(12)]
        replace_rows(rows(table, known), folder, table, cluster=CLUSTER, windows=windows)
    register_tables(spark, folder, (BROKER_SHARE, PARTITION_TRAFFIC))
    return folder


def ask(spark, query, columns="*"):
    return spark.sql(f"SELECT {columns} FROM ({query.rstrip().removesuffix(';')})").collect()


def test_shares_reach_from_before_the_incident_to_the_mails_window(warehouse, spark):
    query = broker_share_query(new_evidence(cluster=CLUSTER))

    found = ask(spark, query, "unix_millis(window_start) AS start_ms, broker_id, share_percent")

    assert [((row.start_ms - T0_MS) // MINUTE_MS, row.broker_id) for row in found] == [
        (minute, broker_id) for minute in (1, 2, 3, 4, 5, 6) for broker_id in (1, 2)
    ]
    assert {row.share_percent for row in found} == {50.0}


def test_topics_are_those_of_the_excess(warehouse, spark):
    found = ask(spark, topic_excess_query(new_evidence(cluster=CLUSTER)))

    expected = excess_by_topic(LOADS, broker_id=1, expected_share=1 / 3)
    assert [(row.topic, row.own_bytes, row.excess_bytes) for row in found] == [
        (row.topic, row.size_bytes, round(row.excess_bytes)) for row in expected
    ]


def test_another_cluster_finds_nothing(warehouse, spark):
    assert ask(spark, topic_excess_query(new_evidence(cluster="demo"))) == []
