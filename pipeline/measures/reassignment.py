"""Plans that bring brokers below a share ratio: who leads changes first, replicas move only where that is not enough.

A partition's load is taken to follow the partition: what a new leader gets is what the old one had in the window. Every
plan is made of single changes, each the one that brings the brokers above the target down most per byte copied; changes
that turn out to be unneeded are taken back, dearest first. The same input gives the same plan: ties go to the lower
broker id, then topic and partition.

Rules: a partition keeps its number of replicas, each on another broker; its replicas stay on as many racks as they were
on; leadership goes to in-sync replicas; no replica goes to a broker that takes none; no broker gets more bytes than its
disks have room for, and all moves together copy no more than they may. No reassignment names a dead broker, one that is
fenced or not among the brokers: Kafka refuses it. So a partition with one dead replica changes only where a live broker
takes its place, one with more does not. A pinned partition stays where it is. Kafka keeps a dead broker in its partitions'
replica lists until somebody reassigns them: `replace_dead` puts its replicas on brokers that live.

References:
    `kafka-reassign-partitions` carries plans out, `kafka-leader-election --election-type preferred` makes the first
    replica lead. Cruise Control's order of goals is the model for leadership before replicas.
    Kafka `ReassignPartitionsCommand.verifyBrokerIds` refuses a plan that names a broker that is away,
    `ReplicationControlManager.validateManualPartitionAssignment` one of a broker that is not registered.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pipeline.measures.leadership_board import (
    EVENNESS,
    MOST_PLACEMENTS,
    Board,
    change,
    measure_excess,
    take_back,
    try_all,
)
from pipeline.measures.window_loads import Places
from pipeline.model.placement import Brokers, PartitionMove, Partitions, PlacedPartition, PlacementBroker

PlanKind = Literal["elect_preferred", "move_leaders", "move_replicas"]
MOST_CHANGES = 1_000
MOST_ROUNDS = 4  # of leaders, then replicas: either makes room for the other
THRIFTS = (1.0, 0.5, 2.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan:
    """Changes to make (none where none helps), and the share ratio by broker afterwards."""

    kind: PlanKind
    moves: tuple[PartitionMove, ...]
    ratios: Mapping[int, float]

    @property
    def moved_bytes(self) -> int:
        return sum(move.moved_bytes for move in self.moves)

    @property
    def peak_ratio(self) -> float:
        """Largest share ratio of any broker after it."""
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
    first = board.leader.copy()
    _hand_over_leadership(board)
    take_back(board, [(place, int(first[place])) for place in np.flatnonzero(board.leader != first).tolist()])
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
    plans = [
        _plan_replicas(Board(partitions, brokers, target_ratio, max_moved_bytes), thrift, leaders_first=leaders_first)
        for thrift in THRIFTS
        for leaders_first in (True, False)
    ]
    return _choose((nothing, *plans), board)


def _choose(plans: Iterable[ReassignmentPlan], board: Board) -> ReassignmentPlan:
    """The plan with the lowest peak, of those the one that leaves least above the target (to 0.001), then the cheapest.

    Two steps that help together may, one taken back, do harm.
    """

    def rank(plan: ReassignmentPlan) -> tuple[float, float, int, int]:
        ratios = np.array([plan.ratios[one.broker_id] for one in board.brokers])
        excess = round(measure_excess(ratios, board.fair, board.target), 3)
        return max(plan.peak_ratio, board.target), excess, plan.moved_bytes, len(plan.moves)

    return min(plans, key=rank)


def _plan_replicas(board: Board, thrift: float, *, leaders_first: bool) -> ReassignmentPlan:
    first = board.leader.copy()
    for round_number in range(MOST_ROUNDS):
        before = board.leader.copy()
        if leaders_first or round_number:
            _hand_over_leadership(board)
        _move_replicas(board, thrift)
        if board.is_done() or np.array_equal(board.leader, before):
            break
    places = np.flatnonzero(board.leader != first)
    dearest_first = places[np.argsort(-board.copied(places, board.leader[places]), kind="stable")]
    take_back(board, [(place, int(first[place])) for place in dearest_first.tolist()])
    return _plan_of("move_replicas", board)


def _plan_cheapest(board: Board) -> ReassignmentPlan | None:
    """The cheapest plan of all; None where there are too many to try, or none reaches the target."""
    # each partition with a choice doubles the plans: with so many there are too many
    moves = _leader_moves(board), _replica_moves(board, hot_only=False, most=MOST_PLACEMENTS.bit_length())
    number, receiver = (np.concatenate(each) for each in zip(*moves, strict=True))
    if board.is_done() or not len(number):
        return None
    if not try_all(board, number, receiver, board.copied(number, receiver)):
        return None
    return _plan_of("move_replicas", board)


def _plan_of(kind: PlanKind, board: Board) -> ReassignmentPlan:
    """The plan that leads to the board's leaders."""
    racks = {broker.broker_id: broker.rack for broker in board.brokers}
    moves = []
    for number, partition in enumerate(board.partitions):
        new_leader = board.brokers[int(board.leader[number])].broker_id
        if new_leader != partition.leader_id:
            is_copied = new_leader not in partition.replicas
            gone = _choose_gone(partition, partition.leader_id, new_leader, racks) if is_copied else None
            kept = (replica for replica in partition.replicas if replica not in {gone, new_leader})
            moves.append(move_partition(partition, (new_leader, *kept)))
    return ReassignmentPlan(kind=kind, moves=tuple(moves), ratios=board.ratios())


def _dead_of(partition: PlacedPartition, live: Mapping[int, object]) -> list[int]:
    return [replica for replica in partition.replicas if replica not in live]


def _may_move(partition: PlacedPartition) -> bool:
    return partition.load_bytes > 0 and not partition.is_pinned


def _leader_moves(board: Board) -> tuple[Places, Places]:
    """Every partition that may be reassigned as it is with every in-sync replica that may lead it."""
    return _columns(
        (number, board.place[replica])
        for number, partition in enumerate(board.partitions)
        if not _dead_of(partition, board.place)
        for replica in sorted(partition.in_sync)
        if replica in partition.replicas and replica in board.place and _may_move(partition)
    )


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[Places, Places]:
    rows = np.array(list(pairs), np.int64).reshape(-1, 2)
    return rows[:, 0].copy(), rows[:, 1].copy()


def _hand_over_leadership(board: Board) -> None:
    number, receiver = _leader_moves(board)
    if not len(number):
        return
    for _ in range(MOST_CHANGES):
        if board.is_done() or not change(board, number, receiver, np.ones(len(number)), 1e-15):
            break


def _move_replicas(board: Board, thrift: float) -> None:
    """Moves replicas of leaders, each once.

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


def _replica_moves(board: Board, *, hot_only: bool = True, most: int | None = None) -> tuple[Places, Places]:
    """Partitions (of brokers above the target), with every broker that may take the leader's replica under the rules.

    `most`: only so many partitions that have a choice.
    """
    racks = {broker.broker_id: broker.rack for broker in board.brokers}
    able = [broker.broker_id for broker in board.brokers if broker.takes_replicas]
    is_hot = (board.shares > board.target * board.fair) | (not hot_only)
    candidates: dict[int, list[int]] = {}
    for number, partition in enumerate(board.partitions):
        if len(candidates) == most:
            break
        if not _may_move(partition) or not is_hot[board.leader[number]]:
            continue
        leader_id = board.brokers[int(board.leader[number])].broker_id
        receivers = [
            board.place[one]
            for one in able
            if one not in partition.replicas and _choose_gone(partition, leader_id, one, racks) is not None
        ]
        if receivers:
            candidates[number] = receivers
    return _columns((number, receiver) for number, receivers in candidates.items() for receiver in receivers)


def _choose_gone(
    partition: PlacedPartition, leader_id: int, receiver_id: int, racks: Mapping[int, str | None]
) -> int | None:
    """Chooses the replica that makes room for the receiver's and leaves as many racks, the leader's if it can be.

    A dead one it must be, where there is one: then the receiver brings its rack where the live ones leave one free.
    """
    dead = _dead_of(partition, racks)
    if len(dead) > 1:
        return None
    rack_count = len({racks.get(replica) for replica in partition.replicas if replica in racks})
    if dead:
        rack_count = min(rack_count + 1, len({*racks.values()}))
    for gone in dead or sorted(partition.replicas, key=lambda replica: replica != leader_id):
        kept = {racks.get(replica) for replica in (*partition.replicas, receiver_id) if replica != gone}
        if len(kept) >= rack_count:
            return gone
    return None


def move_partition(partition: PlacedPartition, new_replicas: tuple[int, ...]) -> PartitionMove:
    """The move of a partition to other replicas: every one that is new is copied."""
    added = len(set(new_replicas) - set(partition.replicas))
    return PartitionMove(
        topic=partition.topic,
        partition=partition.partition,
        replicas=partition.replicas,
        new_replicas=new_replicas,
        moved_bytes=added * partition.size_bytes,
    )


def replace_dead(partitions: Partitions, brokers: Brokers, *, max_moved_bytes: float | None = None) -> Partitions:
    """Partitions as they are once no dead broker holds a replica, as far as live ones can take them.

    1. A broker that is fenced, or not among `brokers`, is dead. Nobody can copy a partition without a leader: it stays.
    2. Partitions with the fewest live replicas come first.
    3. A replica goes to a rack that has none of the partition, there to the broker with the fewest bytes for its capacity.
    4. A partition of which not every dead replica finds a place stays as it is.

    The leader stays and becomes the first replica, the preferred leader: nothing changes in who carries what.
    """
    live = {broker.broker_id: broker for broker in brokers if not broker.is_fenced}
    held: dict[int, float] = defaultdict(float)
    for partition in partitions:
        for replica in partition.replicas:
            held[replica] += partition.size_bytes
    room = {one: broker.free_bytes for one, broker in live.items()}
    budget = float("inf") if max_moved_bytes is None else max_moved_bytes
    restored = {}
    # one whose leader is being reassigned away is on its way already
    led = (p for p in partitions if p.leader_id in live and p.leader_id in p.replicas)
    hurt = (p for p in led if not live.keys() >= {*p.replicas})
    for partition in sorted(hurt, key=lambda p: (len(live.keys() & {*p.replicas}), p.topic, p.partition)):
        dead = _dead_of(partition, live)
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
    return tuple(restored.get((p.topic, p.partition), p) for p in partitions)


def _choose_receivers(
    partition: PlacedPartition, live: dict[int, PlacementBroker], held: dict[int, float], room: dict[int, int | None]
) -> dict[int, int] | None:
    """A live broker for each dead replica; None where one finds none."""
    chosen: dict[int, int] = {}
    for dead in _dead_of(partition, live):
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
