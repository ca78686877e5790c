"""What is said of a topic's number of partitions, by what is stored about its keys."""

from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest

from pipeline.tables import Table
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC
from pipeline.transforms import shares
from pipeline.transforms.topic_health import count_replicas, measure_topic_health

START = datetime(2026, 11, 29, tzinfo=UTC)
LOG = {"window_start": START, "topic": "orders", "topic_id": ""}
MOVE = "4 partitions do not divide evenly over 3 brokers: 6 would; 67% of the keys would move"
PLAIN = MOVE.partition(";")[0]


def nothing_of(table: Table):
    return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in table.columns]).empty_table()


def rows_of(table: Table, rows):
    return pl.concat([pl.DataFrame(nothing_of(table)), pl.DataFrame(rows)], how="diagonal_relaxed")


@pytest.mark.parametrize(
    ("kind", "key_id", "record_count", "advice"),
    [
        ("key", "00ff", 10, MOVE),
        ("other_keys", "", 10, MOVE),  # `keys: {mode: counts_only}`
        (None, "", 10, MOVE),  # `keys: {mode: off}`: whether there are keys is not known
        (None, "", 0, MOVE),  # a window without records says nothing of keys
        ("no_key", "", 10, PLAIN),
    ],
)
def test_advice_for_more_partitions_says_that_keys_would_move_unless_there_are_none(kind, key_id, record_count, advice):
    numbers = range(4)
    load = {"size_bytes": 1_000, "record_count": record_count, "batch_count": 2, "batch_bytes_squared": 5e5}
    load = load if record_count else dict.fromkeys(load, 0)
    traffic = [LOG | load | {"partition": n, "leader_id": n % 3} for n in numbers]
    state = rows_of(CLUSTER_STATE, [LOG | {"partition": n, "leader_id": n % 3, "is_leader": True} for n in numbers])
    counted = {"record_count": 10, "size_bytes": 900, "kind": kind, "key_id": key_id}
    key_traffic = rows_of(KEY_TRAFFIC, [LOG | counted | {"partition": n} for n in numbers if kind])
    plain = shares.sum_loads(rows_of(PARTITION_TRAFFIC, traffic), state)
    weighed = shares.weigh_keys(key_traffic, plain)
    topic_keys = shares.sum_topic_keys(weighed)
    loads = shares.with_keys(plain, key_traffic, weighed, topic_keys)
    found = measure_topic_health(
        partition_health=pl.DataFrame(shares.measure_partition_health(loads, START)),
        loads=loads,
        topic_keys=topic_keys,
        replicas=count_replicas(nothing_of(CLUSTER_STATE)),
        brokers=rows_of(BROKERS, [{"window_start": START, "broker_id": n} for n in range(3)]),
        consumer_groups=rows_of(CONSUMER_GROUPS, []),
        fixed_topics=(),
        cluster="demo",
    )
    assert found["advice"].to_pylist() == [advice]
