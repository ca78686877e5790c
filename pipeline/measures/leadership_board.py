"""Leadership while a plan is made, and the single steps of a plan."""

import itertools
from collections.abc import Sequence

import numpy as np

from pipeline.measures.window_loads import Floats, Places, expected_shares
from pipeline.model.placement import Brokers, Partitions

PAIRS_TRIED = 64
MOST_PLACEMENTS = 20_000
HARDLY = 0.005
EVENNESS = 1e-6
"""Weight of evenness relative to being below the target: it decides between changes that are equal otherwise."""


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
        self.leader = np.array([self.place[p.leader_id] for p in self.partitions], np.int64)
        self.shares: Floats = np.bincount(self.leader, self.weight, len(self.brokers)).astype(np.float64)
        self.size = np.array([p.size_bytes for p in self.partitions], np.float64)
        self.holds = np.zeros((len(self.partitions), len(self.brokers)), np.bool_)
        for number, partition in enumerate(self.partitions):
            held = {partition.leader_id, *partition.replicas} & self.place.keys()
            self.holds[number, [self.place[one] for one in held]] = True
        self.room = np.array([np.inf if one.free_bytes is None else one.free_bytes for one in self.brokers], np.float64)
        self.budget = np.inf if max_moved_bytes is None else max_moved_bytes  # bytes that may still be copied

    def potential(self, shares: Floats, place: Places | slice = slice(None)) -> Floats:
        """How far brokers are above the target, squared, and a little for being uneven at all."""
        fair = self.fair[place]
        ratio = shares / fair
        cost: Floats = fair * (np.maximum(0.0, ratio - self.target) ** 2 + EVENNESS * (ratio - 1) ** 2)
        return cost

    def gains(self, partition: Places, receiver: Places) -> Floats:
        """Returns by how much the potential falls when each partition's leadership goes to the receiver.

        Minus infinity where it has it, and where copying a replica exceeds the budget or the receiver's room.
        """
        giver, weight = self.leader[partition], self.weight[partition]
        before = self.potential(self.shares)
        after = self.potential(self.shares[giver] - weight, giver)
        after += self.potential(self.shares[receiver] + weight, receiver)
        gain: Floats = before[giver] + before[receiver] - after
        copied = self.copied(partition, receiver)
        gain[(giver == receiver) | (copied > self.budget) | (copied > self.room[receiver])] = -np.inf
        return gain

    def copied(self, partition: Places, receiver: Places) -> Floats:
        """Returns the bytes to copy before the receiver can lead: none where it has a replica."""
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
        """Largest share ratio of any broker."""
        return float((self.shares / self.fair).max(initial=0.0))

    def excess(self) -> float:
        """How uneven brokers are beyond what the target allows, as `measure_excess` has it."""
        return measure_excess(self.shares / self.fair, self.fair, self.target)

    def is_done(self) -> bool:
        """No broker is above the target."""
        return self.peak() <= self.target * (1 + 1e-12)

    def ratios(self) -> dict[int, float]:
        """Share ratio by broker id, without what rounding adds up over many changes."""
        exact = np.bincount(self.leader, self.weight, len(self.brokers)) / self.fair
        return {broker.broker_id: float(exact[number]) for number, broker in enumerate(self.brokers)}


def measure_excess(ratios: Floats, fair: Floats, target: float) -> float:
    """How far share ratios are from 1 beyond the target: the root mean square over brokers; 0 where none is above it.

    >>> round(measure_excess(np.array([1.5, 0.5]), np.array([0.5, 0.5]), 1.2), 4)
    0.3
    >>> measure_excess(np.array([1.1, 0.9]), np.array([0.5, 0.5]), 1.2)
    0.0
    """
    if ratios.max(initial=0.0) <= target * (1 + 1e-12):
        return 0.0
    return float(np.sqrt(fair @ np.maximum(0.0, np.abs(ratios - 1) - (target - 1)) ** 2))


def change(board: Board, number: Places, receiver: Places, price: Floats, least_gain: float) -> bool:
    """Makes the change that gains most for its price, or else the best two together; returns whether there was one."""
    gains = board.gains(number, receiver)
    best = int(np.argmax(gains / price))
    if gains[best] > least_gain:
        board.lead(int(number[best]), int(receiver[best]))
        return True
    pairs: list[tuple[float, int, int]] = []
    for one in np.argsort(-gains, kind="stable")[:PAIRS_TRIED].tolist():
        giver = int(board.leader[number[one]])
        if gains[one] == -np.inf:
            break
        board.lead(int(number[one]), int(receiver[one]))
        both = gains[one] + board.gains(number, receiver)
        both[number == number[one]] = -np.inf
        other = int(np.argmax(both / (price[one] + price)))
        if both[other] > least_gain:
            pairs.append((-float(both[other]) / float(price[one] + price[other]), one, other))
        board.lead(int(number[one]), giver)
    if not pairs:
        return False
    for place in min(pairs)[1:]:
        board.lead(int(number[place]), int(receiver[place]))
    return True


def try_all(board: Board, number: Places, receiver: Places, price: Floats) -> bool:
    """Makes the cheapest of all combinations of changes that leave no broker above the target.

    Each partition stays or goes to one of its receivers. Where there are too many, or none does it, nothing is changed.
    """
    choices: dict[int, list[tuple[int, float]]] = {
        place: [(int(board.leader[place]), 0.0)] for place in np.unique(number).tolist()
    }
    for place, to, cost in zip(number.tolist(), receiver.tolist(), price.tolist(), strict=True):
        if to != board.leader[place]:
            choices[place].append((to, cost))
    sizes = [len(options) for options in choices.values()]
    if not sizes or np.prod(sizes, dtype=np.float64) > MOST_PLACEMENTS:
        return False
    places = np.array(list(choices), np.int64)
    combined = np.array(list(itertools.product(*(range(size) for size in sizes))), np.int64)
    shares = np.tile(board.shares, (len(combined), 1))
    rows, cost, taken = np.arange(len(combined)), np.zeros(len(combined)), np.zeros_like(shares)
    for column, place in enumerate(places.tolist()):
        options = np.array([to for to, _ in choices[place]], np.int64)[combined[:, column]]
        cost += np.array([paid for _, paid in choices[place]])[combined[:, column]]
        shares[:, board.leader[place]] -= board.weight[place]
        np.add.at(shares, (rows, options), board.weight[place])
        taken[rows, options] += board.copied(np.full(len(rows), place), options)
    is_allowed = np.all(taken <= board.room, axis=1) & (taken.sum(axis=1) <= board.budget)
    good = np.flatnonzero(is_allowed & np.all(shares <= board.target * board.fair * (1 + 1e-12), axis=1))
    if not len(good):
        return False
    moves = (combined[good] > 0).sum(axis=1)
    best = good[np.lexsort((moves, cost[good]))[0]]
    for column, place in enumerate(places.tolist()):
        board.lead(place, choices[place][int(combined[best, column])][0])
    return True


def take_back(board: Board, changes: Sequence[tuple[int, int]]) -> None:
    """Undoes changes that are not needed: without them no broker is above the target, or hardly more is above it.

    Changes are places of partitions and of who led them before, those to be undone first.
    """
    allowed = max(board.target, board.peak() * (1 + HARDLY)) * (1 + 1e-12)
    excess = board.excess() * (1 + HARDLY)
    for number, giver in changes:
        receiver = int(board.leader[number])
        board.lead(number, giver)
        if board.peak() > allowed or board.excess() > excess + 1e-12:
            board.lead(number, receiver)
