"""Gains and changes against the potential of the whole board before and after each."""

import itertools
import random

import numpy as np
import pytest

from pipeline.measures.leadership_board import Board, measure_excess
from pipeline.measures.plan_steps import Changes, try_all
from pipeline.model.placement import PlacementBroker
from tests.placements import place

LOADS = (50, 30, 11, 7, 2)


def board_of(target, loads=LOADS):
    brokers = [PlacementBroker(broker_id=number, capacity=1.0 + number) for number in range(3)]
    partitions = [place(at, (0, 1, 2), leader=at % 3, load=load, size=load) for at, load in enumerate(loads)]
    return Board(partitions, brokers, target)


@pytest.mark.parametrize("target", [1.0, 1.2])
def test_a_gain_is_what_the_potential_falls_by(target):
    for number, receiver in itertools.product(range(len(LOADS)), range(3)):
        board = board_of(target)
        (gain,) = board.gains(np.array([number]), np.array([receiver]))
        if board.leader[number] == receiver:
            assert gain == -np.inf
            continue
        before = board.potential(board.shares).sum()
        board.lead(number, receiver)
        assert gain == pytest.approx(before - board.potential(board.shares).sum(), abs=1e-12), (number, receiver)


def test_every_change_lowers_the_potential_by_one_move_or_two():
    """Single moves come first; where none is left that gains, two together may, such as a swap."""
    rng = random.Random(1)
    moves = list(itertools.product(range(len(LOADS)), range(3)))
    number, receiver = np.array(moves).T
    made = []
    for _ in range(40):
        board = board_of(1.0, [rng.randint(1, 60) for _ in LOADS])
        changes, is_made = Changes(board, number, receiver, np.ones(len(moves)), least_gain=1e-9), True
        while is_made:
            before, leader = board.potential(board.shares).sum(), board.leader.copy()
            is_made = changes.make_best()
            made.append(int((board.leader != leader).sum()))
            assert made[-1] in ({1, 2} if is_made else {0})
            assert not is_made or board.potential(board.shares).sum() < before - 1e-9
        assert board.shares == pytest.approx(np.bincount(board.leader, board.weight, 3))
    assert made.count(1) > 40
    assert made.count(2) > 5


@pytest.mark.parametrize(("free_bytes", "is_made"), [(2, True), (1, False)])
def test_a_copy_may_fill_a_broker_to_the_last_byte(free_bytes, is_made):
    brokers = [PlacementBroker(broker_id=0), PlacementBroker(broker_id=1, free_bytes=free_bytes)]
    board = Board([place(number, (0,), load=2, size=2) for number in range(2)], brokers, target=1.0)
    assert try_all(board, np.array([0]), np.array([1]), np.ones(1)) is is_made


def test_how_uneven_brokers_are():
    assert measure_excess(np.array([1.5, 0.5]), np.array([0.5, 0.5]), 1.2) == pytest.approx(0.3)
    assert measure_excess(np.array([1.1, 0.9]), np.array([0.5, 0.5]), 1.2) == 0.0
