"""One window's loads as columns, from rows and from Arrow, and which keys are heavy. Oracle: each other; a count by hand."""

import random
from dataclasses import asdict

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.measures.window_loads import expected_shares, sum_by
from pipeline.transforms.shares import loads_of, weigh_keys
from tests.loads import PartitionKeys, PartitionLoad, TopicKeys, columns_of


def random_loads(rng):
    places = [
        {"topic": topic, "topic_id": topic_id, "partition": partition, "leader_id": leader_id}
        for topic in ("a", "a-b", "ä", "b")
        for topic_id in ("", "x")[: rng.randint(1, 2)]
        for partition in range(rng.randint(1, 12))
        for leader_id in rng.sample(range(-1, 4), rng.randint(1, 2))
    ]
    return [
        PartitionLoad(
            **place,
            size_bytes=rng.randint(0, 10**12),
            record_count=rng.randint(0, 10**9),
            batch_count=rng.randint(0, 10**6),
            batch_bytes_squared=rng.random() * 1e18,
            is_leader=rng.random() < 0.5,
        )
        for place in places
    ]


def test_rows_from_spark_in_any_order_are_the_same_columns():
    rng = random.Random(5)
    loads = random_loads(rng)
    partitions = {n: PartitionKeys(heavy_ratio=n / 20, light_ratio=0.3) for n in range(9)}
    keys = {("a", ""): TopicKeys(light_unit_count=50.0, partitions=partitions)}
    rows = []
    for load in rng.sample(loads, len(loads)):
        known = keys.get((load.topic, load.topic_id))
        of_partition = known.partitions.get(load.partition) if known else None
        rows.append(
            {
                **asdict(load),
                "heavy_ratio": of_partition.heavy_ratio if of_partition else None,
                "light_ratio": of_partition.light_ratio if of_partition else None,
                "light_unit_count": known.light_unit_count if known else None,
            }
        )
    schema = pa.schema([(name, pa.float64()) for name in ("heavy_ratio", "light_ratio", "light_unit_count")])
    table = pa.Table.from_pylist(rows)
    for field in schema:
        table = table.set_column(table.column_names.index(field.name), field.name, table[field.name].cast(field.type))
    found, expected = loads_of(table), columns_of(loads, keys)
    assert found.topics == expected.topics
    for name in ("topic", "partition", "leader_id", "size_bytes", "record_count", "batch_count", "is_leader"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in ("batch_bytes_squared", "heavy_ratio", "light_ratio", "light_unit_count"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_a_window_without_traffic_or_partitions_has_no_loads():
    kinds = dict.fromkeys(("topic", "topic_id"), pa.string())
    kinds |= dict.fromkeys(("partition", "leader_id", "size_bytes", "record_count", "batch_count"), pa.int64())
    kinds |= dict.fromkeys(("batch_bytes_squared", "heavy_ratio", "light_ratio", "light_unit_count"), pa.float64())
    found = loads_of(pa.schema(kinds | {"is_leader": pa.bool_()}).empty_table())
    assert (found.topics, len(found.topic)) == ((), 0)


def test_sums_and_shares():
    assert sum_by(np.array([0, 2, 0]), np.array([1, 5, 2]), 3).tolist() == [3, 0, 5]
    assert expected_shares([1, 1, 2]).tolist() == [0.25, 0.25, 0.5]


def test_a_key_with_more_bytes_than_a_partition_has_on_average_is_heavy():
    sizes = {"a": 41, "b": 40, "c": 39}
    of = {"window_start": 0, "topic": "t", "topic_id": "", "kind": "key", "record_count": 1}
    keys = pl.DataFrame(
        [of | {"partition": at, "key_id": key, "size_bytes": size} for at, (key, size) in enumerate(sizes.items())]
    )
    weighed = weigh_keys(keys, keys.select("window_start", "topic", "topic_id", "partition"))
    assert dict(weighed.select("key_id", "is_heavy").iter_rows()) == {"a": True, "b": False, "c": False}
