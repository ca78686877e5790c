"""Replicas as a plan takes them from tables. Oracle: rows written here."""

import pytest

from pipeline.jobs.recommend import place_partitions


def replica(replica_id, position, *, leader=7, partition=0, size=100, in_sync=True):
    return {
        "topic": "orders",
        "topic_id": "id",
        "partition": partition,
        "replica_id": replica_id,
        "replica_position": position,
        "leader_id": leader,
        "is_in_sync": in_sync,
        "size_bytes": size,
        "reassignment": None,
    }


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
