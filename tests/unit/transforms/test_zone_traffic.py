"""Bytes between zones. Oracle: sums by hand of made-up traffic; whatever is drawn, sums reconcile to the byte."""

import datetime as dt
from itertools import cycle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.sections import Zones
from pipeline.model.window import HOUR_MS
from pipeline.tables.gold import ZONE_TRAFFIC
from pipeline.transforms.zone_traffic import MOST_ASSUMED_ZONES, WindowZones, list_zone_loads, measure_zone_traffic

START = dt.datetime(2026, 11, 24, 6, tzinfo=dt.UTC)
TEXT, NUMBER = pl.String, pl.Int64
LED = {"topic": TEXT, "topic_id": TEXT, "partition": NUMBER, "leader_id": NUMBER}
SENT = {**LED, "producer_id": NUMBER, "producer_epoch": NUMBER, "size_bytes": NUMBER}
SESSIONS = {"topic": TEXT, "topic_id": TEXT, "producer_id": NUMBER, "producer_epoch": NUMBER}
SESSIONS |= {"zone": TEXT, "zone_source": TEXT, "record_count": NUMBER, "keyless_record_count": NUMBER}
STATE = {"topic": TEXT, "topic_id": TEXT, "partition": NUMBER, "replica_id": NUMBER, "is_in_sync": pl.Boolean}
RACKS = {1: "a", 2: "b", 3: "c"}


def of_topic(rows, schema):
    return pl.DataFrame([("t", "", *row) for row in rows], schema, orient="row")


def make_window(led, *, sent=(), sessions=(), keyless=10, replicas=(), racks=RACKS, members=(), selector="", **zones):
    """`led`: (partition, leader, bytes) of one topic; `keyless`: of ten records of each session."""
    given = Zones(**zones)
    of_ten = cycle(np.atleast_1d(keyless).tolist())
    return WindowZones(
        traffic=of_topic(led, {**LED, "size_bytes": NUMBER}),
        sent=of_topic(sent, SENT),
        sessions=of_topic([(*row, 10, next(of_ten)) for row in sessions], SESSIONS),
        state=of_topic([(*row, None)[:3] for row in replicas], STATE),
        brokers=[
            {"broker_id": broker_id, "rack": rack, "configs": [("replica.selector.class", selector)]}
            for broker_id, rack in racks.items()
        ],
        members=members,
        find_zone=given.find,
        broker_zones=given.brokers,
        weights=given.weights,
        price_per_gb=given.price_per_gb,
    )


def measure(led, **given):
    """Rows as (kind, from, to, source, bytes)."""
    rows = measure_zone_traffic(make_window(led, **given), START, HOUR_MS).to_pylist()
    assert all(row["size_bytes"] > 0 and row["window_start"] == START for row in rows)
    return rows


def brief(rows):
    return {(row["kind"], row["from_zone"], row["to_zone"], row["zone_source"]): row["size_bytes"] for row in rows}


def test_columns_are_the_tables():
    assert measure([(0, 1, 10)], racks={1: None, 2: ""}) == []
    [row, *_] = measure([(0, 1, 10)])
    assert row.keys() == {column.name for column in ZONE_TRAFFIC.columns} - {"cluster", "run_id"}


def test_producers_of_known_zones():
    rows = measure(
        [(0, 1, 100), (1, 2, 60)],
        sent=[(0, 1, 7, 0, 70), (0, 1, 8, 3, 30), (1, 2, 7, 0, 60)],
        sessions=[(7, 0, "b", "client"), (8, -1, "a", "configured")],  # 8 is transactional: one session of all epochs
        price_per_gb=2e9,
    )
    assert brief(rows) == {
        ("produce", "b", "a", "client"): 70,
        ("produce", "a", "a", "configured"): 30,
        ("produce", "b", "b", "client"): 60,
    }
    costs = {(row["is_between_zones"], row["cost"], row["cost_per_month"]) for row in rows}
    assert costs == {(True, 140.0, 140.0 * 730), (False, 0.0, 0.0)}


def test_what_nothing_says_is_spread_and_called_assumed():
    sizes = {"a": 33, "b": 33, "c": 34}
    assert brief(measure([(0, 1, 100)])) == {("produce", zone, "a", "assumed"): size for zone, size in sizes.items()}
    weighed = brief(measure([(0, 1, 100)], weights={"a": 3, "z": 1}))
    assert weighed == {("produce", "a", "a", "assumed"): 75, ("produce", "z", "a", "assumed"): 25}


def test_racks_in_great_number_are_no_zones_to_assume():
    racks = {number: f"rack-{number}" for number in range(200)}
    assert len(racks) > MOST_ASSUMED_ZONES
    [row] = measure([(0, 1, 100)], racks=racks, price_per_gb=1.0)
    assert brief([row]) == {("produce", "", "rack-1", "unknown"): 100}
    assert (row["is_between_zones"], row["cost"]) == (None, None)


def test_each_follower_copies_what_the_leader_got():
    rows = measure([(0, 1, 100), (0, 2, 40)], replicas=[(0, 1), (0, 2), (0, 3)])
    copied = {key[1:3]: size for key, size in brief(rows).items() if key[0] == "replication"}
    assert copied == {("a", "b"): 100, ("a", "c"): 100, ("b", "a"): 40, ("b", "c"): 40}


def test_a_broker_without_a_rack_and_one_that_is_renamed():
    rows = measure([(0, 1, 100), (1, 2, 50)], replicas=[(0, 2)], racks={1: "a", 2: None})
    assert {key: size for key, size in brief(rows).items() if key[2] == "" or key[0] == "replication"} == {
        ("produce", "a", "", "assumed"): 50,
        ("replication", "a", "", "brokers"): 100,
    }
    renamed = brief(measure([(0, 1, 100)], racks={1: "a"}, brokers={1: "zone-a"}))
    assert renamed == {("produce", "zone-a", "zone-a", "assumed"): 100}


def load(led, keyed=(), **given):
    """Bytes, and those without a key, by partition and zone; `keyed`: (partition, part of its bytes)."""
    schema = {"topic": TEXT, "topic_id": TEXT, "partition": NUMBER, "keyed_ratio": pl.Float64}
    loads = list_zone_loads(make_window(led, **given), of_topic(keyed, schema))
    return {
        (partition, zone): (size, pytest.approx(loads.keyless["t", partition][zone]))
        for (_, partition), of in loads.sent.items()
        for zone, size in of.items()
    }


def test_keys_lie_where_they_were_read():
    """Producer 7 in b has a heavy key in partition 0 alone, producer 8 in a has no keys."""
    given = {
        "sent": [(0, 1, 7, 0, 60), (0, 1, 8, 0, 40), (1, 2, 7, 0, 60), (1, 2, 8, 0, 40)],
        "sessions": [(7, 0, "b", "client"), (8, 0, "a", "client")],
        "keyless": [5, 10],
    }
    led = [(0, 1, 100), (1, 2, 100)]
    keyless = {(0, "b"): (60, 5), (0, "a"): (40, 40), (1, "b"): (60, 55), (1, "a"): (40, 40)}
    assert load(led, [(0, 0.55), (1, 0.05)], **given) == keyless
    # records were not read: as many of its bytes as of its records, in every partition
    assert load(led, **given)[0, "b"] == (60, 30)
    # more keyed bytes than that producer sent there: no more than all
    assert load(led, [(0, 0.9)], **given)[0, "b"] == (60, 0)


def test_keys_of_producers_that_nothing_tells():
    assert load([(0, 1, 90)], [(0, 0.5)]) == {(0, zone): (30, 15) for zone in "abc"}


MEMBER = {"topic": "t", "partition": 0, "client_id": "app", "client_host": "/10.1.0.3"}


@pytest.mark.parametrize(
    ("selector", "replicas", "come_from"),
    [
        ("", [(0, 1), (0, 2)], "a"),
        ("org.apache.kafka.common.replica.RackAwareReplicaSelector", [(0, 1), (0, 2)], "b"),
        ("org.apache.kafka.common.replica.RackAwareReplicaSelector", [(0, 1)], "a"),
        # Kafka sends nobody to a replica that is not in sync, as one on a dead broker
        ("org.apache.kafka.common.replica.RackAwareReplicaSelector", [(0, 1, True), (0, 2, False)], "a"),
    ],
)
def test_groups_read_from_the_leader_or_the_nearest_replica(selector, replicas, come_from):
    rows = measure([(0, 1, 100)], replicas=replicas, members=[MEMBER], selector=selector, clients={"10.1.*": "b"})
    assert brief(rows)["fetch", come_from, "b", "configured"] == 100


def test_members_of_unknown_zones_are_left_out():
    assert not [key for key in brief(measure([(0, 1, 100)], members=[MEMBER])) if key[0] == "fetch"]


PLACES, BROKERS = st.integers(0, 3), st.integers(-1, 4)


@given(
    led=st.dictionaries(st.tuples(PLACES, BROKERS), st.integers(0, 10**15), max_size=6),
    sent=st.dictionaries(st.tuples(PLACES, BROKERS, st.integers(-1, 3)), st.integers(1, 10**13), max_size=12),
    known=st.dictionaries(st.integers(-1, 3), st.sampled_from(["a", "b", "d", None]), max_size=4),
    weights=st.dictionaries(st.sampled_from(["a", "b", "z"]), st.floats(0.1, 9), max_size=3),
)
def test_sums_reconcile_to_the_byte(led, sent, known, weights):
    """Also where only a part of the batches was read, or leaders are not known."""
    rows = measure(
        [(partition, leader, size) for (partition, leader), size in led.items()],
        sent=[(partition, leader, producer, 0, size) for (partition, leader, producer), size in sent.items()],
        sessions=[(producer, 0, zone, "client") for producer, zone in known.items()],
        weights=weights,
    )
    for rack in {*RACKS.values(), ""}:
        of_rack = sum(size for (_, leader), size in led.items() if RACKS.get(leader, "") == rack)
        assert sum(row["size_bytes"] for row in rows if row["to_zone"] == rack) == of_rack
