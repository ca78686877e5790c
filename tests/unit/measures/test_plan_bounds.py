"""Searches for plans of large clusters: what is examined, counted, and what is said where not all of it was."""

import random
from dataclasses import replace

import numpy as np
import pytest

from pipeline.advice.following import HotBroker
from pipeline.advice.recommendations import recommend
from pipeline.advice.what_ifs import PlacedCluster, plan_even
from pipeline.measures import leadership_board, reassignment, zone_plans
from pipeline.measures.leadership_board import Board
from pipeline.measures.plan_steps import Changes
from pipeline.measures.reassignment import BEST_FOUND, plan_leaders, plan_replicas, replace_dead
from pipeline.measures.zone_plans import ZoneLoads, even_rack_aware, rate_brokers, spread_replicas
from pipeline.model.placement import PlacementBroker
from tests.placements import place

TARGET = 1.1


def draw_cluster(broker_count, partition_count, replica_count, seed=1, hot=2):
    """Brokers on three racks, partitions of drawn size; what broker 0 leads has twice the load."""
    rng = random.Random(seed)
    brokers = [PlacementBroker(broker_id=number, rack="abc"[number % 3]) for number in range(broker_count)]
    partitions = []
    for number in range(partition_count):
        first = rng.randrange(broker_count)
        replicas = tuple((first + step * 4) % broker_count for step in range(replica_count))
        load = int(1e6 * rng.lognormvariate(0, 1)) * (1 if first else hot) + 1
        topic, size = f"t{number // 50:03}", load * rng.randint(2, 50)
        partitions.append(place(number % 50, replicas, topic=topic, load=load, size=size))
    return partitions, brokers


@pytest.fixture
def gains_asked(monkeypatch):
    """Numbers of candidates whose gains are worked out, call by call."""
    asked, gains = [], Board.gains
    monkeypatch.setattr(Board, "gains", lambda self, number, to: asked.append(len(number)) or gains(self, number, to))
    return asked


def test_after_a_change_only_the_gains_of_its_two_brokers_are_worked_out_anew(gains_asked):
    """What is kept equals what is worked out for all. Oracle: `Board.gains` of every candidate."""
    board = Board(*draw_cluster(30, 3_000, 1), TARGET)
    number, receiver = np.divmod(np.arange(3_000 * 30), 30)
    changes = Changes(board, number, receiver, np.ones(len(number)), 1e-9)
    gains_asked.clear()
    for _ in range(20):
        assert changes.make_best()
        assert np.allclose(changes._gains, board.gains(number, receiver), rtol=0, atol=1e-15)
        anew, every = gains_asked.pop(0), gains_asked.pop(0)
        assert (every, anew < every / 5) == (90_000, True)


def test_where_leaders_suffice_no_replica_is_looked_at(gains_asked):
    """Eight searches looked at every pair of a partition and a broker, again after each change."""
    partitions, brokers = draw_cluster(30, 3_000, 3)
    plan = plan_replicas(partitions, brokers, target_ratio=TARGET)
    assert plan.peak_ratio <= TARGET
    assert (plan.moved_bytes, plan.is_cut) == (0, False)
    assert sum(gains_asked) < 30 * 9_000
    gains_asked.clear()
    even = plan_even(PlacedCluster(partitions=tuple(partitions), brokers=tuple(brokers)), target_ratio=TARGET)
    assert even.kind == "move_leaders"
    assert sum(gains_asked) < 30 * 9_000


def test_a_search_ends_at_its_bound_and_its_plan_says_so(gains_asked, monkeypatch):
    partitions, brokers = draw_cluster(12, 1_200, 1, hot=6)
    whole = plan_replicas(partitions, brokers, target_ratio=TARGET)
    assert (whole.is_cut, whole.peak_ratio <= TARGET) == (False, True)
    examined = sum(gains_asked)
    monkeypatch.setattr(leadership_board, "MOST_EXAMINED", 8_000)
    gains_asked.clear()
    plan = plan_replicas(partitions, brokers, target_ratio=TARGET)
    before = plan_leaders(partitions, brokers, target_ratio=TARGET).peak_ratio  # no broker else has a replica
    assert (plan.is_cut, TARGET < plan.peak_ratio < before) == (True, True)
    assert sum(gains_asked) < examined / 2
    shuffled = random.Random(2).sample(partitions, len(partitions))
    assert plan_replicas(shuffled, brokers[::-1], target_ratio=TARGET) == plan
    of = {"share_ratio": before, "target_ratio": TARGET, "fair_share": 1 / 12, "unit_count": 1e6}
    hot = HotBroker(broker_id=0, window_start_ms=0, load_follows=False, **of)
    (row,) = recommend(hot, partitions, brokers, ())
    assert BEST_FOUND in row.text
    monkeypatch.undo()
    (row,) = recommend(hot, partitions, brokers, ())
    assert BEST_FOUND not in row.text


def test_of_too_many_moves_each_hot_broker_keeps_those_worth_most(monkeypatch):
    partitions, brokers = draw_cluster(12, 1_200, 1, hot=6)
    monkeypatch.setattr(reassignment, "MOST_CANDIDATES", 12 * 20)
    board = Board(partitions, brokers, 1.0)
    chosen = reassignment._choose_hot(board, board.weight)
    hot = {one for one in range(12) if board.shares[one] > board.fair[one]}
    assert (len(chosen), board.effort.is_cut) == (20, True)
    assert {int(one) for one in board.leader[chosen]} == hot
    for broker in hot:
        kept = board.weight[chosen[board.leader[chosen] == broker]]
        assert kept.min() >= sorted(board.weight[board.leader == broker])[-len(kept)]


def test_a_step_of_a_rack_aware_plan_looks_at_one_topic(monkeypatch):
    """Each step was rated with all partitions of the cluster."""
    partitions, brokers = draw_cluster(13, 1_300, 3, hot=4)
    sent = {(one.topic, one.partition): dict.fromkeys("abc", one.load_bytes / 3) for one in partitions}
    loads, looked = ZoneLoads(sent), []
    make = ZoneLoads.make_rack_aware
    monkeypatch.setattr(
        ZoneLoads, "make_rack_aware", lambda self, own, racks: looked.append(len(own)) or make(self, own, racks)
    )
    racks = {one.broker_id: one.rack for one in brokers}

    def peak(placed):
        return max(rate_brokers(make(loads, placed, racks).with_loads(placed), brokers).values())

    placed, is_cut = even_rack_aware(partitions, brokers, loads, target_ratio=TARGET)
    assert (max(looked), is_cut) == (50, False)
    monkeypatch.setattr(zone_plans, "_MOST_RATED", 1_000)
    fewer, is_cut = even_rack_aware(partitions, brokers, loads, target_ratio=TARGET)
    assert is_cut
    assert TARGET < peak(placed) < peak(fewer) < peak(partitions)
    assert [replace(one, leader_id=0) for one in fewer] == [replace(one, leader_id=0) for one in partitions]


@pytest.mark.parametrize(("make", "module"), [(replace_dead, reassignment), (spread_replicas, zone_plans)])
def test_plans_that_put_replicas_elsewhere_look_at_so_many_brokers(make, module, monkeypatch):
    """All 1,200 partitions have a follower in the leader's rack, or on a dead broker, too."""
    partitions, brokers = draw_cluster(12, 1_200, 1)
    hurt = [
        replace(one, replicas=(one.leader_id, (one.leader_id + 3) % 12, 99)[: 3 if make is replace_dead else 2])
        for one in partitions
    ]
    before = {(one.topic, one.partition): one.replicas for one in hurt}

    def count_changed():
        after, is_cut = make(hurt, brokers)
        return sum(one.replicas != before[one.topic, one.partition] for one in after), is_cut

    assert count_changed() == (1_200, False)
    monkeypatch.setattr(module, "MOST_EXAMINED", 12 * 500)
    assert count_changed() == (500, True)


def test_a_what_if_says_that_not_all_dead_replicas_were_looked_at(monkeypatch):
    partitions, brokers = draw_cluster(12, 60, 3)
    cluster = PlacedCluster(partitions=tuple(partitions), brokers=tuple(brokers[1:]))
    assert not plan_even(cluster, target_ratio=9).is_cut
    monkeypatch.setattr(reassignment, "MOST_EXAMINED", 30)
    assert plan_even(cluster, target_ratio=9).is_cut
