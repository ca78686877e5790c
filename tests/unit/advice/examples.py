"""A hot broker of three, and what may be done about it."""

from dataclasses import replace

from pipeline.advice.following import HotBroker
from pipeline.advice.recommendations import CandidateEffect
from pipeline.model.placement import PlacementBroker
from tests.placements import place

BROKERS = [PlacementBroker(broker_id=number) for number in range(3)]

HOT = HotBroker(broker_id=1, window_start_ms=0, share_ratio=1.5, target_ratio=1.1, load_follows=False)

FOLLOWS = replace(HOT, load_follows=True)


def partition(number, replicas, leader_id, load=100, size=1_000):
    return place(number, replicas, topic="orders", leader=leader_id, load=load, size=size)


def effect(name, cost, ratios):
    said = {"title": name, "basis": "The replay puts", "caveat": ""}
    return CandidateEffect(action=f"replay:{name}", topic="orders", cost=cost, ratios=ratios, **said)


OTHERS = [partition(1, (1, 2), 1), partition(2, (2, 0), 2)]
MOVABLE = [partition(0, (1, 0), 1), *OTHERS]  # others may lead what the hot broker leads
MISPLACED = [partition(0, (0, 1), 1), *OTHERS]  # the first one's preferred leader is another broker
ALONE = [partition(0, (1,), 1, size=5_000), partition(1, (1,), 1), partition(2, (2,), 2)]  # without followers
