"""Replicas as a plan takes them from tables. Oracle: rows written here."""

import pytest

from pipeline.jobs.recommend import place_partitions
from pipeline.measures.reassignment import plan_leaders, plan_replicas, replace_dead
from pipeline.measures.zone_plans import spread_replicas
from pipeline.model.placement import PlacementBroker


def replica(replica_id, position, *, leader=7, partition=0, size=100, in_sync=True):
    row = {"topic": "orders", "topic_id": "id", "partition": partition, "leader_id": leader, "reassignment": None}
    return row | {"replica_id": replica_id, "replica_position": position, "is_in_sync": in_sync, "size_bytes": size}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_replicas_stand_in_their_order_the_preferred_leader_first(order):
    """Whatever the order of the rows; a lost replica is no in-sync one, and the longest log counts."""
    rows = [replica(7, 0), replica(3, 1, size=90), replica(5, 2, size=130, in_sync=False)]
    (placed,) = place_partitions([("orders", "id", 0, 40)], [rows[place] for place in order])
    assert (placed.replicas, placed.in_sync, placed.leader_id) == ((7, 3, 5), (7, 3), 7)
    assert (placed.load_bytes, placed.size_bytes) == (40, 130)


def test_a_plan_for_a_partition_that_is_being_reassigned_keeps_its_number_of_replicas():
    """Two of three replicas were left, and the plan's file told Kafka so."""
    moved = [replica(7, 0, in_sync=None), replica(3, 1), replica(4, 2, in_sync=None), replica(5, 3)]
    for row, of in zip(moved, (None, "moving", "adding", "removing"), strict=True):  # 3: between its disks
        row["reassignment"] = of
    (placed,) = place_partitions([], moved)
    assert (placed.replicas, placed.in_sync) == ((7, 3, 4), (7, 3))


@pytest.mark.parametrize(("size", "is_moved"), [(0, True), (None, False)])
def test_no_plan_copies_a_replica_whose_size_nobody_tells(size, is_moved):
    """It would claim to copy nothing, and pass by what a move may copy and by the room on disks."""
    brokers = [PlacementBroker(broker_id=number, rack=rack) for number, rack in ((3, "a"), (7, "a"), (9, "b"))]
    rows = [replica(7, 0, partition=number, size=size) for number in range(4)]
    rows += [replica(broker_id, 1, partition=0, size=size) for broker_id in (5,)]  # a dead one
    rows += [replica(3, 1, partition=1, size=size)]
    placed = place_partitions([("orders", "id", number, 100) for number in range(4)], rows)
    copied = plan_replicas(placed, brokers, target_ratio=1.0, max_moved_bytes=1)
    found = [any({*move.new_replicas} - {*move.replicas} for move in copied.moves)]
    plans = replace_dead(placed, brokers), spread_replicas(placed, brokers)
    found += [list(after) != placed for after, _ in plans]
    assert found == [is_moved] * 3
    assert [move.new_replicas for move in plan_leaders(placed, brokers, target_ratio=1.0).moves] == [(3, 7)]
