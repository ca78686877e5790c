"""Plans that bring brokers below a share ratio: who leads changes first, replicas move only where that is not enough.

A partition's load is taken to follow the partition. A plan is made of single changes, each the one that brings the
brokers above the target down most per byte copied; unneeded ones are taken back, dearest first. The same input gives
the same plan: ties go to the lower broker id, then topic and partition, and a count of candidates ends a search
(`is_cut`).

Rules: a partition keeps its number of replicas, each on another broker, and of racks; leadership goes to in-sync
replicas; no broker gets replicas that it does not take or has no room for, all moves together copy no more than they
may, and a partition of unknown size is not copied. Kafka refuses a plan that names a dead broker, one that is fenced or
not among the brokers. So a partition with one dead replica changes only where a live broker takes its place, one with
more does not. A pinned partition stays where it is. Kafka keeps a dead broker in replica lists until somebody reassigns
them: `replace_dead` puts its replicas on brokers that live.

References: Cruise Control's order of goals is the model for leadership before replicas; Kafka
`ReassignPartitionsCommand.verifyBrokerIds`, `ReplicationControlManager.validateManualPartitionAssignment`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pipeline.arrays import Floats
from pipeline.measures.leadership_board import (
    EVENNESS,
    MOST_EXAMINED,
    Board,
    Effort,
    choose_gone,
    list_dead,
    list_replica_moves,
    measure_excess,
)
from pipeline.measures.plan_steps import MOST_PLACEMENTS, Changes, count_placements, take_back, try_all
from pipeline.measures.window_loads import Places
from pipeline.model.placement import Brokers, PartitionMove, Partitions, PlacedPartition, PlacementBroker

PlanKind = Literal["elect_preferred", "move_leaders", "move_replicas"]
MOST_CHANGES = 1_000
MANY_PARTITIONS = 1_000
MOST_CANDIDATES = 500_000  # moves of replicas to choose from, some 50 MB
MOST_ROUNDS = 4  # of leaders, then replicas: either makes room for the other
THRIFTS = (1.0, 0.5, 2.0, 0.0)
BEST_FOUND = "The cluster is too large to look at every move: it is the best plan found, a better one may exist."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan:
    kind: PlanKind
    moves: tuple[PartitionMove, ...]
    ratios: Mapping[int, float]
    is_cut: bool = False  # the search ended at its bound: it is the best that was found, there may be a better one

    @property
    def moved_bytes(self) -> int:
        return sum(move.moved_bytes for move in self.moves)

    @property
    def peak_ratio(self) -> float:
        return max(self.ratios.values(), default=0.0)


def plan_election(partitions: Partitions, brokers: Brokers, *, target_ratio: float) -> ReassignmentPlan:
    """Plans a preferred leader election: every first replica that is in sync leads; no byte is copied."""
    board = Board(partitions, brokers, target_ratio)
    moves = []
    for number, partition in enumerate(board.partitions):
        first = partition.replicas[0] if partition.replicas else partition.leader_id
        if partition.is_pinned:
            continue
        if first != partition.leader_id and first in partition.in_sync and first in board.place:
            board.lead(number, board.place[first])
            moves.append(move_partition(partition, partition.replicas))
    return ReassignmentPlan(kind="elect_preferred", moves=tuple(moves), ratios=board.ratios())


def plan_leaders(partitions: Partitions, brokers: Brokers, *, target_ratio: float) -> ReassignmentPlan:
    """Leadership handed to other in-sync replicas until no broker is above the target; no byte is copied."""
    board = Board(partitions, brokers, target_ratio)
    nothing = _plan_of("move_leaders", board)
    _hand_over_leadership(board)
    take_back(board, [(place, int(board.first[place])) for place in board.changed().tolist()])
    return _choose((nothing, _plan_of("move_leaders", board)), board)


def plan_replicas(
    partitions: Partitions, brokers: Brokers, *, target_ratio: float, max_moved_bytes: float | None = None
) -> ReassignmentPlan:
    """Leadership first, then replicas: the leader's replica goes to a broker that has room, few bytes before many."""
    board = Board(partitions, brokers, target_ratio, max_moved_bytes)
    nothing = _plan_of("move_replicas", board)
    least = _plan_cheapest(board)
    if least is not None:
        return least
    led = board.fork()
    _hand_over_leadership(led)
    plans = [_plan_replicas(led.fork(), THRIFTS[0])]
    # where leaders suffice nothing is copied, and no copy is free
    if not led.is_done() or not board.size[board.may_copy].all():
        starts = [(thrift, start) for thrift in THRIFTS for start in (led, board)][1:]
        plans += [_plan_replicas(start.fork(), thrift) for thrift, start in starts]
    return _choose((nothing, *plans), board)


def _choose(plans: Sequence[ReassignmentPlan], board: Board) -> ReassignmentPlan:
    """The plan with the lowest peak, of those with the least above the target (to 0.001), then the cheapest."""

    def rank(plan: ReassignmentPlan) -> tuple[float, float, int, int]:
        ratios = np.array([plan.ratios[one.broker_id] for one in board.brokers])
        excess = round(measure_excess(ratios, board.fair, board.target), 3)
        return max(plan.peak_ratio, board.target), excess, plan.moved_bytes, len(plan.moves)

    return replace(min(plans, key=rank), is_cut=any(plan.is_cut for plan in plans))


def _plan_replicas(board: Board, thrift: float) -> ReassignmentPlan:
    for round_number in range(MOST_ROUNDS):
        before = board.leader.copy()
        if round_number:
            _hand_over_leadership(board)
        # replicas of leaders, each once; `thrift` weighs moved bytes against the gain, 0 ignores them
        price = np.maximum(1.0, board.size)
        chosen = _choose_hot(board, board.weight / price**thrift)
        number, receiver = list_replica_moves(board, chosen)
        if len(number) and not try_all(board, number, receiver, price[number]):
            # not worth copying a replica for evenness alone; of many partitions each brings little
            least_gain = EVENNESS * min(1.0, MANY_PARTITIONS / len(board.partitions))
            _make_changes(board, Changes(board, number, receiver, price[number] ** thrift, least_gain, once=True))
        if board.is_done() or (np.array_equal(board.leader, before) and round_number):
            break
    places = board.changed()
    dearest_first = places[np.argsort(-board.copied(places, board.leader[places]), kind="stable")]
    take_back(board, [(place, int(board.first[place])) for place in dearest_first.tolist()])
    return _plan_of("move_replicas", board)


def _plan_cheapest(board: Board) -> ReassignmentPlan | None:
    if board.is_done():
        return None
    moves = [board.leader_moves]
    number, receiver = moves[0]
    if count_placements(number[receiver != board.leader[number]]) > MOST_PLACEMENTS:
        return None
    # each partition with a choice doubles the plans: with so many there are too many
    moves.append(list_replica_moves(board, np.flatnonzero(board.may_copy), most=MOST_PLACEMENTS.bit_length()))
    number, receiver = (np.concatenate(each) for each in zip(*moves, strict=True))
    if not try_all(board, number, receiver, board.copied(number, receiver)):
        return None
    return _plan_of("move_replicas", board)


def _plan_of(kind: PlanKind, board: Board) -> ReassignmentPlan:
    racks = {broker.broker_id: broker.rack for broker in board.brokers}
    moves = []
    for number in board.changed().tolist():
        partition, new_leader = board.partitions[number], board.brokers[int(board.leader[number])].broker_id
        is_copied = new_leader not in partition.replicas
        gone = choose_gone(partition, partition.leader_id, racks[new_leader], racks) if is_copied else None
        kept = (replica for replica in partition.replicas if replica not in {gone, new_leader})
        moves.append(move_partition(partition, (new_leader, *kept)))
    return ReassignmentPlan(kind=kind, moves=tuple(moves), ratios=board.ratios(), is_cut=board.effort.is_cut)


def _hand_over_leadership(board: Board) -> None:
    number, receiver = board.leader_moves
    _make_changes(board, Changes(board, number, receiver, np.ones(len(number)), 1e-15))


def _choose_hot(board: Board, worth: Floats) -> Places:
    """Partitions of brokers above the target, of each broker equally many of those that are worth most, not too many in all."""
    is_hot = board.shares > board.target * board.fair
    hot = np.flatnonzero(board.may_copy & is_hot[board.leader])
    most = MOST_CANDIDATES // max(1, len(board.brokers))
    if len(hot) <= most:
        return hot
    board.effort.is_cut = True
    order = hot[np.lexsort((-worth[hot], board.leader[hot]))]
    starts = np.searchsorted(board.leader[order], board.leader[order])
    rank = np.arange(len(order)) - starts
    return np.sort(order[np.argsort(rank, kind="stable")[:most]])


def _make_changes(board: Board, changes: Changes) -> None:
    for _ in range(MOST_CHANGES):
        if board.is_done() or not changes.make_best():
            return
    board.effort.is_cut = True


def move_partition(partition: PlacedPartition, new_replicas: tuple[int, ...]) -> PartitionMove:
    added = len(set(new_replicas) - set(partition.replicas))
    return PartitionMove(
        topic=partition.topic,
        partition=partition.partition,
        replicas=partition.replicas,
        new_replicas=new_replicas,
        moved_bytes=added * partition.size_bytes,
    )


def replace_dead(
    partitions: Partitions, brokers: Brokers, *, max_moved_bytes: float | None = None
) -> tuple[Partitions, bool]:
    """Partitions as they are once no dead broker holds a replica, as far as live ones can take them.

    Second, whether the search ended at its bound: then the rest stays as it is.

    A fenced or unknown broker is dead. A partition without a leader stays, as does one of which not every dead replica
    finds a place; those with the fewest live replicas come first. A replica goes to a rack without one, there to the
    broker with the fewest bytes for its capacity. The leader stays and becomes the first replica: nothing changes in
    who carries what.
    """
    live = {broker.broker_id: broker for broker in brokers if not broker.is_fenced}
    held: dict[int, float] = defaultdict(float)
    for partition in partitions:
        for replica in partition.replicas:
            held[replica] += partition.size_bytes
    room = {one: broker.free_bytes for one, broker in live.items()}
    budget = float("inf") if max_moved_bytes is None else max_moved_bytes
    restored, effort = {}, Effort(MOST_EXAMINED)
    # one whose leader is being reassigned away is on its way already
    led = (p for p in partitions if p.leader_id in live and p.leader_id in p.replicas)
    hurt = (p for p in led if p.is_sized and not live.keys() >= {*p.replicas})
    for partition in sorted(hurt, key=lambda p: (len(live.keys() & {*p.replicas}), p.topic, p.partition)):
        dead = list_dead(partition, live)
        if effort.is_spent():
            break
        effort.left -= len(dead) * len(live)
        copied = len(dead) * partition.size_bytes
        chosen = _choose_receivers(partition, live, held, room) if copied <= budget else None
        if chosen is None:
            continue
        budget -= copied
        for receiver in chosen.values():
            held[receiver] += partition.size_bytes
            free = room[receiver]
            room[receiver] = None if free is None else free - partition.size_bytes
        others = (chosen.get(replica, replica) for replica in partition.replicas if replica != partition.leader_id)
        replicas = (partition.leader_id, *others)
        in_sync = tuple(replica for replica in partition.in_sync if replica in live)
        restored[partition.topic, partition.partition] = replace(partition, replicas=replicas, in_sync=in_sync)
    return tuple(restored.get((p.topic, p.partition), p) for p in partitions), effort.is_cut


def _choose_receivers(
    partition: PlacedPartition, live: dict[int, PlacementBroker], held: dict[int, float], room: dict[int, int | None]
) -> dict[int, int] | None:
    chosen: dict[int, int] = {}
    for dead in list_dead(partition, live):
        there = ({*partition.replicas} & live.keys()) | {*chosen.values()}
        racks = {live[replica].rack for replica in there}
        able = []
        for one, broker in live.items():
            free = room[one]
            if one not in there and broker.takes_replicas and (free is None or free >= partition.size_bytes):
                able.append((broker.rack in racks, held[one] / broker.capacity, one))
        if not able:
            return None
        chosen[dead] = min(able)[2]
    return chosen
