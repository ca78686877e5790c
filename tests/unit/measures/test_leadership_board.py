"""Gains of single changes against the potential of the whole board before and after each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipeline.measures.leadership_board import Board
from pipeline.model.placement import PlacedPartition, PlacementBroker

LOADS = (50, 30, 11, 7, 2)


def board_of(target):
    brokers = [PlacementBroker(broker_id=number, capacity=1.0 + number) for number in range(3)]
    partitions = [
        PlacedPartition(
            topic="t",
            partition=number,
            leader_id=number % 3,
            replicas=(0, 1, 2),
            in_sync=(0, 1, 2),
            load_bytes=load,
            size_bytes=load,
        )
        for number, load in enumerate(LOADS)
    ]
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
