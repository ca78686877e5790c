"""Single steps of a plan: the change that gains most, two together, all combinations, and taking back."""

import itertools
from collections.abc import Sequence

import numpy as np

from pipeline.arrays import Flags, Floats
from pipeline.measures.leadership_board import Board
from pipeline.measures.window_loads import Places

PAIRS_TRIED = 64
MOST_PLACEMENTS = 20_000
HARDLY = 0.005
_KNOWN = 32  # known gains that are looked through cost about as much as one that is worked out


class Changes:
    """Changes to choose from, and what each gains: it touches two brokers, and all other gains stay as they are."""

    def __init__(
        self, board: Board, number: Places, receiver: Places, price: Floats, least_gain: float, *, once: bool = False
    ) -> None:
        self._board, self._number, self._receiver, self._price = board, number, receiver, price
        self._least_gain, self._once = least_gain, once
        self._copied = board.copied(number, receiver)
        self._places, self._start, self._count = np.unique(number, return_index=True, return_counts=True)
        self._by_receiver = np.argsort(receiver, kind="stable")
        self._of_receiver = np.searchsorted(receiver[self._by_receiver], np.arange(len(board.brokers) + 1))
        self._is_open = np.ones(len(number), np.bool_)
        self._gains = np.full(len(number), -np.inf)
        self._rates = self._gains.copy()
        self._refresh(np.arange(len(number)))

    def make_best(self) -> bool:
        if self._board.effort.is_spent() or not len(self._number):
            return False
        rates = self._within_budget(self._rates)
        best = int(np.argmax(rates))
        self._board.effort.left -= len(self._number) // _KNOWN
        if rates[best] > -np.inf:
            self._make(best)
            return True
        pair = self._find_pair()
        for change in pair:
            self._make(change)
        return bool(pair)

    def _find_pair(self) -> tuple[int, ...]:
        board, number, receiver, price = self._board, self._number, self._receiver, self._price
        gains = self._within_budget(self._gains)
        pairs: list[tuple[float, int, int]] = []
        least = -np.partition(-gains, PAIRS_TRIED - 1)[PAIRS_TRIED - 1] if len(gains) > PAIRS_TRIED else -np.inf
        largest = np.flatnonzero(gains >= least)
        for one in largest[np.argsort(-gains[largest], kind="stable")[:PAIRS_TRIED]].tolist():
            if gains[one] == -np.inf:
                break
            giver, taker = int(board.leader[number[one]]), int(receiver[one])
            before = board.shares[[giver, taker]]
            board.lead(int(number[one]), taker)
            # where neither broker is touched the gain is known, and too small for most
            is_near = gains > self._least_gain - gains[one]
            self._mark(is_near, giver, taker)
            is_near[self._alternatives(int(number[one]))] = False
            near = np.flatnonzero(is_near)
            near = near[self._is_open[near] & (self._copied[near] <= board.budget)]
            both = gains[one] + board.gains(number[near], receiver[near])
            board.effort.left -= len(near) + len(number) // _KNOWN
            near, both = near[both > self._least_gain], both[both > self._least_gain]
            if len(near):
                rates = both / (price[one] + price[near])
                other = int(np.argmax(rates))
                pairs.append((-float(rates[other]), one, int(near[other])))
            board.lead(int(number[one]), giver)
            board.shares[[giver, taker]] = before  # without what rounding adds
        return min(pairs)[1:] if pairs else ()

    def _make(self, change: int) -> None:
        place, receiver = int(self._number[change]), int(self._receiver[change])
        giver = int(self._board.leader[place])
        self._board.lead(place, receiver)
        if self._once:
            closed = self._alternatives(place)
            self._is_open[closed] = False
            self._gains[closed] = self._rates[closed] = -np.inf
        is_touched = np.zeros(len(self._number), np.bool_)
        self._mark(is_touched, giver, receiver)
        self._refresh(np.flatnonzero(is_touched & self._is_open))

    def _alternatives(self, place: int) -> slice:
        number = int(np.searchsorted(self._places, place))
        return slice(self._start[number], self._start[number] + self._count[number])

    def _mark(self, is_touched: Flags, giver: int, receiver: int) -> None:
        leader = self._board.leader[self._places]
        led = np.flatnonzero((leader == giver) | (leader == receiver))
        count = self._count[led]
        ends = np.cumsum(count)
        is_touched[np.repeat(self._start[led] - ends + count, count) + np.arange(count.sum())] = True
        for broker in (giver, receiver):
            is_touched[self._by_receiver[self._of_receiver[broker] : self._of_receiver[broker + 1]]] = True

    def _refresh(self, changes: Places) -> None:
        gains = self._board.gains(self._number[changes], self._receiver[changes])
        self._board.effort.left -= len(changes)
        self._gains[changes] = gains
        self._rates[changes] = np.where(gains > self._least_gain, gains / self._price[changes], -np.inf)

    def _within_budget(self, values: Floats) -> Floats:
        budget = self._board.budget
        return values if budget == np.inf else np.where(self._copied > budget, -np.inf, values)


def try_all(board: Board, number: Places, receiver: Places, price: Floats) -> bool:
    """Makes the cheapest combination of changes that leaves no broker above the target, unless there are too many."""
    is_change = receiver != board.leader[number]
    number, receiver, price = number[is_change], receiver[is_change], price[is_change]
    if not 1 < count_placements(number) <= MOST_PLACEMENTS:
        return False
    choices: dict[int, list[tuple[int, float]]] = {
        place: [(int(board.leader[place]), 0.0)] for place in np.unique(number).tolist()
    }
    for place, to, cost in zip(number.tolist(), receiver.tolist(), price.tolist(), strict=True):
        choices[place].append((to, cost))
    places = np.array(list(choices), np.int64)
    combined = np.array(list(itertools.product(*(range(len(options)) for options in choices.values()))), np.int64)
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


def count_placements(number: Places) -> float:
    """In how many ways partitions may stay or change, given the partition of each change; infinity beyond what a float holds."""
    _, choices = np.unique(number, return_counts=True)
    with np.errstate(over="ignore"):
        return float(np.prod(choices + 1.0))


def take_back(board: Board, changes: Sequence[tuple[int, int]]) -> None:
    """Undoes changes, places of partitions and former leaders, without which hardly more is above the target."""
    allowed = max(board.target, board.peak() * (1 + HARDLY)) * (1 + 1e-12)
    excess = board.excess() * (1 + HARDLY)
    for number, giver in changes:
        receiver = int(board.leader[number])
        board.lead(number, giver)
        if board.peak() > allowed or board.excess() > excess + 1e-12:
            board.lead(number, receiver)
