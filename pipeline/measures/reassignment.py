"""Plans that bring brokers below a share ratio: who leads changes first, replicas move only where that is not enough.

A partition's load is taken to follow the partition: what a new leader gets is what the old one had in the window. Every
plan is made of single changes, each the one that brings the brokers above the target down most per byte copied; changes
that turn out to be unneeded are taken back, dearest first. The same input gives the same plan: ties go to the lower
broker id, then topic and partition.

Rules: a partition keeps its number of replicas, each on another broker; its replicas stay on as many racks as they were
on; leadership goes to in-sync replicas; nothing goes to a fenced broker.

References:
    `kafka-reassign-partitions` carries plans out, `kafka-leader-election --election-type preferred` makes the first
    replica lead. Cruise Control's order of goals is the model for leadership before replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.measures.leadership_board import EVENNESS, Board, change, take_back, try_all
from pipeline.model.placement import PartitionMove, PlacedPartition, PlacementBroker

Places = NDArray[np.int64]

PlanKind = Literal["elect_preferred", "move_leaders", "move_replicas"]
MOST_CHANGES = 1_000
THRIFTS = (1.0, 0.5, 2.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan:
    """Changes to make (none where none helps), and the share ratio by broker afterwards."""

    kind: PlanKind
    moves: tuple[PartitionMove, ...]
    ratios: Mapping[int, float]

    @property
    def moved_bytes(self) -> int:
        """Bytes copied between brokers."""
        return sum(move.moved_bytes for move in self.moves)

    @property
    def peak_ratio(self) -> float:
        """Largest share ratio of any broker after it."""
        return max(self.ratios.values(), default=0.0)


def plan_election(
    partitions: Sequence[PlacedPartition], brokers: Sequence[PlacementBroker], *, target_ratio: float
) -> ReassignmentPlan:
    """Plans a preferred leader election: every first replica that is in sync leads; no byte is copied."""
    board = Board(partitions, brokers, target_ratio)
    moves = []
    for number, partition in enumerate(board.partitions):
        first = partition.replicas[0] if partition.replicas else partition.leader_id
        if first != partition.leader_id and first in partition.in_sync and _may_take(board, first):
            board.lead(number, board.place[first])
            moves.append(_move(partition, partition.replicas))
    return ReassignmentPlan(kind="elect_preferred", moves=tuple(moves), ratios=board.ratios())


def plan_leaders(
    partitions: Sequence[PlacedPartition], brokers: Sequence[PlacementBroker], *, target_ratio: float
) -> ReassignmentPlan:
    """Leadership handed to other in-sync replicas until no broker is above the target; no byte is copied."""
    board = Board(partitions, brokers, target_ratio)
    nothing = _plan_of("move_leaders", board)
    _hand_over_leadership(board)
    return _choose((nothing, _plan_of("move_leaders", board)), target_ratio)


def plan_replicas(
    partitions: Sequence[PlacedPartition], brokers: Sequence[PlacementBroker], *, target_ratio: float
) -> ReassignmentPlan:
    """Leadership first, then replicas: the leader's replica goes to a broker that has room, few bytes before many."""
    board = Board(partitions, brokers, target_ratio)
    nothing = _plan_of("move_replicas", board)
    least = _plan_cheapest(board)
    if least is not None:
        return least
    plans = [
        _plan_replicas(partitions, brokers, target_ratio, thrift, leaders_first=leaders_first)
        for thrift in THRIFTS
        for leaders_first in (True, False)
    ]
    return _choose((nothing, *plans), target_ratio)


def _choose(plans: Iterable[ReassignmentPlan], target_ratio: float) -> ReassignmentPlan:
    """The plan with the lowest peak, then the cheapest. Two steps that help together may, one taken back, do harm."""
    return min(plans, key=lambda plan: (max(plan.peak_ratio, target_ratio), plan.moved_bytes, len(plan.moves)))


def _plan_replicas(
    partitions: Sequence[PlacedPartition],
    brokers: Sequence[PlacementBroker],
    target_ratio: float,
    thrift: float,
    *,
    leaders_first: bool,
) -> ReassignmentPlan:
    board = Board(partitions, brokers, target_ratio)
    if leaders_first:
        _hand_over_leadership(board)
    return _plan_of("move_replicas", board, _move_replicas(board, thrift))


def _plan_cheapest(board: Board) -> ReassignmentPlan | None:
    """The cheapest plan of all; None where there are too many to try, or none reaches the target."""
    first = board.leader.copy()
    number, receiver = _join(_leader_moves(board), _replica_moves(board, hot_only=False))
    if board.is_done() or not len(number):
        return None
    price = np.array(
        [
            0 if board.brokers[to].broker_id in board.partitions[place].replicas else board.partitions[place].size_bytes
            for place, to in zip(number.tolist(), receiver.tolist(), strict=True)
        ],
        np.float64,
    )
    if not try_all(board, number, receiver, price):
        return None
    moved = {
        place: board.partitions[place].leader_id
        for place in np.flatnonzero(board.leader != first).tolist()
        if board.brokers[int(board.leader[place])].broker_id not in board.partitions[place].replicas
    }
    return _plan_of("move_replicas", board, moved)


def _plan_of(kind: PlanKind, board: Board, moved: Mapping[int, int] | None = None) -> ReassignmentPlan:
    """The plan that leads to the board's leaders; `moved`: the broker whose replica goes, by place of the partition."""
    gone = moved or {}
    moves = []
    for number, partition in enumerate(board.partitions):
        new_leader = board.brokers[int(board.leader[number])].broker_id
        if number in gone or new_leader != partition.leader_id:
            moves.append(_move(partition, _led_by(partition.replicas, new_leader, gone.get(number))))
    return ReassignmentPlan(kind=kind, moves=tuple(moves), ratios=board.ratios())


def _may_take(board: Board, broker_id: int) -> bool:
    return broker_id in board.place and not board.brokers[board.place[broker_id]].is_fenced


def _leader_moves(board: Board) -> tuple[Places, Places]:
    """Every partition with every in-sync replica that may lead it."""
    return _columns(
        (number, board.place[replica])
        for number, partition in enumerate(board.partitions)
        for replica in sorted(partition.in_sync)
        if replica in partition.replicas and _may_take(board, replica) and partition.load_bytes
    )


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[Places, Places]:
    rows = np.array(list(pairs), np.int64).reshape(-1, 2)
    return rows[:, 0].copy(), rows[:, 1].copy()


def _join(one: tuple[Places, Places], other: tuple[Places, Places]) -> tuple[Places, Places]:
    return np.concatenate((one[0], other[0])), np.concatenate((one[1], other[1]))


def _hand_over_leadership(board: Board) -> None:
    number, receiver = _leader_moves(board)
    if not len(number):
        return
    first = board.leader.copy()
    for _ in range(MOST_CHANGES):
        if board.is_done() or not change(board, number, receiver, np.ones(len(number)), 1e-15):
            break
    take_back(board, [(place, int(first[place])) for place in np.flatnonzero(board.leader != first).tolist()])


def _move_replicas(board: Board, thrift: float) -> dict[int, int]:
    """Moves replicas of leaders, after leadership was handed over; returns the broker whose replica goes, by partition.

    `thrift` weighs moved bytes against the gain; 0 ignores them.
    """
    first = board.leader.copy()
    number, receiver = _replica_moves(board)
    size = np.array([max(1, board.partitions[place].size_bytes) for place in number.tolist()], np.float64)
    if len(number) and not try_all(board, number, receiver, size):
        for _ in range(MOST_CHANGES):
            free = board.leader[number] == first[number]
            if board.is_done() or not free.any():
                break
            # not worth copying a replica for evenness alone
            if not change(board, number[free], receiver[free], size[free] ** thrift, EVENNESS):
                break
    changed = np.flatnonzero(board.leader != first).tolist()
    take_back(board, sorted(((place, int(first[place])) for place in changed), key=lambda m: _dearest(board, m)))
    return {
        place: board.brokers[int(first[place])].broker_id for place in changed if board.leader[place] != first[place]
    }


def _dearest(board: Board, move: tuple[int, int]) -> tuple[int, int]:
    return (-board.partitions[move[0]].size_bytes, move[0])


def _replica_moves(board: Board, *, hot_only: bool = True) -> tuple[Places, Places]:
    """Partitions (of brokers above the target), with every broker that may take the leader's replica under the rules."""
    racks = {broker.broker_id: broker.rack for broker in board.brokers}
    able = [broker.broker_id for broker in board.brokers if not broker.is_fenced]
    is_hot = (board.shares > board.target * board.fair) | (not hot_only)
    candidates = []
    for number, partition in enumerate(board.partitions):
        if not partition.load_bytes or not is_hot[board.leader[number]]:
            continue
        leader_id = board.brokers[int(board.leader[number])].broker_id
        kept = [replica for replica in partition.replicas if replica != leader_id]
        rack_count = len({racks.get(replica) for replica in partition.replicas})
        for broker_id in able:
            if broker_id in partition.replicas:
                continue
            if len({racks.get(replica) for replica in (*kept, broker_id)}) >= rack_count:
                candidates.append((number, board.place[broker_id]))
    return _columns(candidates)


def _led_by(replicas: tuple[int, ...], leader_id: int, gone: int | None = None) -> tuple[int, ...]:
    return (leader_id, *(replica for replica in replicas if replica not in {gone, leader_id}))


def _move(partition: PlacedPartition, new_replicas: tuple[int, ...]) -> PartitionMove:
    added = len(set(new_replicas) - set(partition.replicas))
    return PartitionMove(
        topic=partition.topic,
        partition=partition.partition,
        replicas=partition.replicas,
        new_replicas=new_replicas,
        moved_bytes=added * partition.size_bytes,
    )
