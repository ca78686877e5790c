"""Leadership while a plan is made: brokers' loads, what changes gain, which moves are allowed, when to stop."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.arrays import Floats
from pipeline.measures.window_loads import Places, expected_shares
from pipeline.model.placement import Brokers, Partitions, PlacedPartition

EVENNESS = 1e-6
"""Weight of evenness relative to being below the target: it decides between changes that are equal otherwise."""
MOST_EXAMINED = 50_000_000
"""Candidates that one search for a plan examines: a second or two. A count, so that equal clusters get equal plans."""


@dataclass(slots=True)
class Effort:
    left: int
    is_cut: bool = False  # it has left candidates out: there may be a better plan

    def is_spent(self) -> bool:
        self.is_cut |= self.left <= 0
        return self.left <= 0


class Board:
    """Loads of the brokers while a plan is made; a fenced one is none of them, and what it leads is left out."""

    def __init__(
        self, partitions: Partitions, brokers: Brokers, target: float, max_moved_bytes: float | None = None
    ) -> None:
        self.brokers = sorted((one for one in brokers if not one.is_fenced), key=lambda broker: broker.broker_id)
        self.place = {broker.broker_id: number for number, broker in enumerate(self.brokers)}
        led = [one for one in partitions if one.leader_id in self.place]
        self.partitions = sorted(led, key=lambda one: (one.topic, one.partition))
        self.fair = expected_shares([broker.capacity for broker in self.brokers])
        self.target = target
        self.total = float(sum(p.load_bytes for p in self.partitions)) or 1.0
        self.weight = np.array([p.load_bytes for p in self.partitions], np.float64) / self.total
        self.first = np.array([self.place[p.leader_id] for p in self.partitions], np.int64)
        self.leader = self.first.copy()
        self.shares: Floats = np.bincount(self.leader, self.weight, len(self.brokers)).astype(np.float64)
        self.size = np.array([p.size_bytes for p in self.partitions], np.float64)
        self.holds = np.zeros((len(self.partitions), len(self.brokers)), np.bool_)
        for number, partition in enumerate(self.partitions):
            held = {partition.leader_id, *partition.replicas} & self.place.keys()
            self.holds[number, [self.place[one] for one in held]] = True
        self.room = np.array([np.inf if one.free_bytes is None else one.free_bytes for one in self.brokers], np.float64)
        self.budget = np.inf if max_moved_bytes is None else max_moved_bytes  # bytes that may still be copied
        self.may_move = np.array([p.load_bytes > 0 and not p.is_pinned for p in self.partitions], np.bool_)
        self.may_copy = self.may_move & np.array([p.is_sized for p in self.partitions], np.bool_)
        self.effort = Effort(MOST_EXAMINED)

    def fork(self) -> "Board":
        other = copy(self)
        other.leader, other.shares, other.room = self.leader.copy(), self.shares.copy(), self.room.copy()
        other.effort = Effort(MOST_EXAMINED, is_cut=self.effort.is_cut)
        return other

    def changed(self) -> Places:
        return np.flatnonzero(self.leader != self.first)

    @cached_property
    def leader_moves(self) -> tuple[Places, Places]:
        """Every partition that may be reassigned as it is with every in-sync replica that may lead it, by place."""
        return list_pairs(
            (number, [self.place[one] for one in sorted(partition.in_sync) if one in partition.replicas])
            for number in np.flatnonzero(self.may_move).tolist()
            for partition in [self.partitions[number]]
            if self.place.keys() >= {*partition.replicas}
        )

    def potential(self, shares: Floats, place: Places | slice = slice(None)) -> Floats:
        """How far brokers are above the target, squared, and a little for being uneven at all."""
        fair = self.fair[place]
        ratio = shares / fair
        return fair * (np.maximum(0.0, ratio - self.target) ** 2 + EVENNESS * (ratio - 1) ** 2)

    def gains(self, partition: Places, receiver: Places) -> Floats:
        """By how much the potential falls when the receiver leads each partition; -inf where it does, or lacks room."""
        giver, weight = self.leader[partition], self.weight[partition]
        before = self.potential(self.shares)
        after = self.potential(self.shares[giver] - weight, giver)
        after += self.potential(self.shares[receiver] + weight, receiver)
        gain: Floats = before[giver] + before[receiver] - after
        copied = self.copied(partition, receiver)
        gain[(giver == receiver) | (copied > self.room[receiver])] = -np.inf
        return gain

    def copied(self, partition: Places, receiver: Places) -> Floats:
        return np.where(self.holds[partition, receiver], 0.0, self.size[partition])

    def lead(self, partition: int, receiver: int) -> None:
        """Gives a partition's leadership to a broker, and a replica where it has none; both by place."""
        for broker, sign in ((self.leader[partition], 1), (receiver, -1)):
            if not self.holds[partition, broker]:
                self.budget += sign * self.size[partition]
                self.room[broker] += sign * self.size[partition]
        self.shares[self.leader[partition]] -= self.weight[partition]
        self.shares[receiver] += self.weight[partition]
        self.leader[partition] = receiver

    def peak(self) -> float:
        return float((self.shares / self.fair).max(initial=0.0))

    def excess(self) -> float:
        return measure_excess(self.shares / self.fair, self.fair, self.target)

    def is_done(self) -> bool:
        return self.peak() <= self.target * (1 + 1e-12)

    def ratios(self) -> dict[int, float]:
        exact = np.bincount(self.leader, self.weight, len(self.brokers)) / self.fair
        return {broker.broker_id: float(exact[number]) for number, broker in enumerate(self.brokers)}


def measure_excess(ratios: Floats, fair: Floats, target: float) -> float:
    """How far share ratios are from 1 beyond the target, root mean square over brokers; 0 where none is above it."""
    if ratios.max(initial=0.0) <= target * (1 + 1e-12):
        return 0.0
    return float(np.sqrt(fair @ np.maximum(0.0, np.abs(ratios - 1) - (target - 1)) ** 2))


def list_pairs(rows: Iterable[tuple[int, list[int]]]) -> tuple[Places, Places]:
    numbers, counts, receivers = list[int](), list[int](), list[int]()
    for number, some in rows:
        numbers.append(number)
        counts.append(len(some))
        receivers += some
    return np.repeat(np.array(numbers, np.int64), np.array(counts, np.int64)), np.array(receivers, np.int64)


_DEAD = object()  # in place of a dead broker's rack


def list_dead(partition: PlacedPartition, live: Mapping[int, object]) -> list[int]:
    return [replica for replica in partition.replicas if replica not in live]


def list_replica_moves(board: Board, chosen: Places, *, most: int | None = None) -> tuple[Places, Places]:
    """Partitions at `chosen` places, ascending, with the brokers that may take the leader's replica; `most` of them."""
    racks = {broker.broker_id: broker.rack for broker in board.brokers}
    able: dict[tuple[object, ...], Places] = {}  # by the racks of a partition's replicas
    rows: list[tuple[int, list[int]]] = []
    for number in chosen.tolist():
        if len(rows) == most:
            break
        partition = board.partitions[number]
        pattern = tuple(racks.get(replica, _DEAD) for replica in partition.replicas)
        if pattern not in able:
            gone = {rack: choose_gone(partition, partition.leader_id, rack, racks) for rack in {*racks.values()}}
            takers = [one for one in board.brokers if one.takes_replicas and gone[one.rack] is not None]
            able[pattern] = np.array([board.place[one.broker_id] for one in takers], np.int64)
        if receivers := able[pattern][~board.holds[number, able[pattern]]].tolist():
            rows.append((number, receivers))
    return list_pairs(rows)


def choose_gone(
    partition: PlacedPartition, leader_id: int, rack: str | None, racks: Mapping[int, str | None]
) -> int | None:
    """The replica, a dead one if there is, that makes room in a rack and leaves as many racks; best the leader's."""
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
