"""Dead brokers are emptied. Oracle: four brokers on two racks, worked out by hand."""

import numpy as np
import pytest

from pipeline.measures import leadership_board, reassignment
from pipeline.measures.leadership_board import Board
from pipeline.measures.reassignment import plan_leaders, plan_replicas, replace_dead
from pipeline.model.placement import PlacementBroker
from tests.placements import place


def broker(number, **fields):
    return PlacementBroker(broker_id=number, rack="ab"[number % 2], **fields)


def partition(number, *replicas, size=10, **more):
    return place(number, replicas, size=size, **more)


ALL = tuple(broker(number) for number in range(4))
CASES = {
    "nobody is dead": (ALL, [partition(0, 0, 1)], {}, {0: (0, 1)}),
    "fenced: to the rack of the dead one": (
        (*ALL[:3], broker(3, is_fenced=True)), [partition(0, 0, 3)], {}, {0: (0, 1)},
    ),
    "not registered: likewise": (ALL[:3], [partition(0, 0, 3)], {}, {0: (0, 1)}),
    "the leader becomes the first replica": (ALL[:3], [partition(0, 3, 0, leader=0)], {}, {0: (0, 1)}),
    "another rack where there is no other": (ALL[::2], [partition(0, 0, 3)], {}, {0: (0, 2)}),
    "nobody is left to take it": (ALL[:1], [partition(0, 0, 3)], {}, {0: (0, 3)}),
    "without a leader there is nothing to copy": (ALL[:3], [partition(0, 3, 1, leader=-1)], {}, {0: (3, 1)}),
    "its leader is being reassigned away": (ALL[:3], [partition(0, 1, 3, leader=0)], {}, {0: (1, 3)}),
    "the emptier broker of a rack": (
        (*ALL, broker(5)), [partition(0, 0, 7), partition(1, 1, 0), partition(2, 3, 5, 1)], {}, {0: (0, 3)},
    ),
    "room on its disks": ((*ALL[:2], broker(3, free_bytes=9), broker(5)), [partition(0, 0, 7), partition(1, 1, 5)], {}, {0: (0, 1)}),
    "takes no replicas": ((ALL[0], broker(1, takes_replicas=False), ALL[2]), [partition(0, 0, 7)], {}, {0: (0, 2)}),
    "no more than may be copied, those with one live replica first": (
        ALL[:3], [partition(0, 0, 2, 7), partition(1, 0, 7)], {"max_moved_bytes": 10}, {0: (0, 2, 7), 1: (0, 1)},
    ),
}  # fmt: skip  # a case a line


@pytest.mark.parametrize(("brokers", "partitions", "options", "wanted"), CASES.values(), ids=CASES)
def test_replicas_of_dead_brokers(brokers, partitions, options, wanted):
    found = {one.partition: one.replicas for one in replace_dead(partitions, brokers, **options)[0]}
    assert {number: found[number] for number in wanted} == wanted


@pytest.mark.parametrize("gone", ["fenced", "not registered"])
def test_no_plan_names_a_dead_broker(gone):
    """All load is on broker 0, and two of its partitions have a replica on broker 3, which is dead."""
    brokers = (*ALL[:3], *((broker(3, is_fenced=True),) if gone == "fenced" else ()))
    partitions = [partition(0, 0, 3), partition(1, 0, 3), partition(2, 0, 1), partition(3, 0, 1)]
    for make in (plan_leaders, plan_replicas):
        plan = make(partitions, brokers, target_ratio=1.1)
        assert plan.moves
        assert all(3 not in move.new_replicas for move in plan.moves), make


def test_a_large_cluster_is_not_looked_through_for_the_cheapest_plan_of_all(monkeypatch):
    """Each pair of a partition and a broker was listed, to find that there are too many plans."""
    asked, choose = [], leadership_board.choose_gone
    monkeypatch.setattr(leadership_board, "choose_gone", lambda *given: asked.append(given) or choose(*given))
    board = Board([partition(number, number % 4) for number in range(300)], ALL, 1.1, None)
    board.shares[0] += 1  # as if it were hot
    assert reassignment._plan_cheapest(board) is None
    assert len(asked) == 2 * 2  # racks of replicas x racks of brokers
    number, _ = leadership_board.list_replica_moves(board, np.arange(300), most=15)
    assert number.tolist() == [place for place in range(15) for _ in range(3)]


def test_a_plan_is_about_the_brokers_that_stand():
    """Four of five carry a quarter each: nothing is to be moved."""
    brokers = [*ALL, broker(4, is_fenced=True)]
    partitions = [partition(number, number, (number + 1) % 4) for number in range(4)]
    plan = plan_replicas(partitions, brokers, target_ratio=1.1)
    assert (plan.moves, plan.ratios) == ((), {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})
