"""Which moves of replicas the rules of `reassignment` allow."""

from collections.abc import Mapping

import numpy as np

from pipeline.measures.leadership_board import Board, list_pairs
from pipeline.measures.window_loads import Places
from pipeline.model.placement import PlacedPartition

_DEAD = object()  # in place of a dead broker's rack


def list_dead(partition: PlacedPartition, live: Mapping[int, object]) -> list[int]:
    return [replica for replica in partition.replicas if replica not in live]


def list_replica_moves(board: Board, chosen: Places, *, most: int | None = None) -> tuple[Places, Places]:
    """Chosen partitions, with every broker that may take the leader's replica under the rules.

    `chosen`: places, ascending.
    `most`: only so many partitions that have a choice.
    """
    racks = {broker.broker_id: broker.rack for broker in board.brokers}
    able: dict[tuple[object, ...], Places] = {}  # by the racks of a partition's replicas
    rows: list[tuple[int, list[int]]] = []
    for number in chosen.tolist():
        if len(rows) == most:
            break
        partition = board.partitions[number]
        pattern = tuple(racks.get(replica, _DEAD) for replica in partition.replicas)
        if pattern not in able:
            able[pattern] = _list_able(board, partition, racks)
        receivers = able[pattern][~board.holds[number, able[pattern]]].tolist()
        if receivers:
            rows.append((number, receivers))
    return list_pairs(rows)


def _list_able(board: Board, partition: PlacedPartition, racks: Mapping[int, str | None]) -> Places:
    """Brokers that may take a replica of any partition whose replicas are on these racks."""
    fits = {rack: choose_gone(partition, partition.leader_id, rack, racks) is not None for rack in {*racks.values()}}
    places = [board.place[one.broker_id] for one in board.brokers if one.takes_replicas and fits[one.rack]]
    return np.array(places, np.int64)


def choose_gone(
    partition: PlacedPartition, leader_id: int, rack: str | None, racks: Mapping[int, str | None]
) -> int | None:
    """Chooses the replica that makes room for one in a rack and leaves as many racks, the leader's if it can be.

    A dead one it must be, where there is one: then the receiver brings its rack where the live ones leave one free.
    """
    dead = list_dead(partition, racks)
    if len(dead) > 1:
        return None
    rack_count = len({racks.get(replica) for replica in partition.replicas if replica in racks})
    if dead:
        rack_count = min(rack_count + 1, len({*racks.values()}))
    for gone in dead or sorted(partition.replicas, key=lambda replica: replica != leader_id):
        kept = {racks.get(replica) for replica in partition.replicas if replica != gone} | {rack}
        if len(kept) >= rack_count:
            return gone
    return None
