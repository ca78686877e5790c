"""Bytes between zones, and plans about them. Oracle: sums by hand; the best of all placements of a small cluster."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.measures.zone_plans import (
    ZoneBytes,
    ZoneLoads,
    diff_placements,
    even_rack_aware,
    lead_near_producers,
    rate_brokers,
    spread_replicas,
    sum_between_zones,
)
from pipeline.model.placement import PlacedPartition, PlacementBroker

RACKS = {1: "a", 2: "b", 3: "c"}
BROKERS = tuple(PlacementBroker(broker_id=number, rack=rack) for number, rack in RACKS.items())
TARGET = 1.2


def part(number, leader, replicas=(1, 2, 3), topic="t", **more):
    values = {"in_sync": tuple(replicas), "load_bytes": 0, "size_bytes": 10} | more
    return PlacedPartition(topic=topic, partition=number, replicas=tuple(replicas), leader_id=leader, **values)


def loads_of(sent, keyless=None):
    by_place = {("t", number): of for number, of in sent.items()}
    return ZoneLoads(by_place, by_place if keyless is None else {("t", n): of for n, of in keyless.items()})


def test_rack_aware_producers_stay_in_their_zone_where_it_leads_and_keys_stay_where_they_are():
    loads = loads_of(
        {0: {"a": 30.0, "b": 30.0}, 1: {"a": 30.0, "c": 40.0}}, {0: {"a": 20.0}, 1: {"a": 30.0, "c": 40.0}}
    )
    aware = loads.make_rack_aware([part(0, 1), part(1, 2)], RACKS)
    # a has 50 without a key, all to the leader in a; c leads nothing, so both leaders get half of its 40; the rest has keys
    assert {place[1]: of for place, of in aware.sent.items()} == {
        0: {"a": 60.0, "b": 30.0, "c": 20.0},
        1: {"a": 0.0, "c": 20.0},
    }


@given(
    leaders=st.lists(st.sampled_from([1, 2, 3, -1]), min_size=1, max_size=5),
    zones=st.lists(st.dictionaries(st.sampled_from(["a", "b", "d", ""]), st.integers(0, 99)), min_size=5, max_size=5),
)
def test_rack_awareness_moves_bytes_and_loses_none(leaders, zones):
    partitions = [part(number, leader) for number, leader in enumerate(leaders)]
    if all(leader < 0 for leader in leaders):
        return
    loads = loads_of({number: dict(zones[number]) for number in range(len(leaders))})
    aware = loads.make_rack_aware(partitions, RACKS)
    for zone in ("a", "b", "d", ""):
        before, after = (sum(of.get(zone, 0) for of in each.sent.values()) for each in (loads, aware))
        assert after == pytest.approx(before)
    near = {zone for zone in RACKS.values() if any(RACKS.get(leader) == zone for leader in leaders)}
    for one in partitions:
        for zone, size in aware.sent["t", one.partition].items():
            assert size == 0 or zone not in near or RACKS.get(one.leader_id) == zone


def test_leaders_go_to_the_zone_that_most_bytes_come_from_while_brokers_can_bear_it():
    loads = loads_of({0: {"b": 90.0, "a": 10.0}, 1: {"b": 60.0, "c": 40.0}, 2: {"c": 100.0}})
    partitions = loads.with_loads([part(0, 1), part(1, 1), part(2, 3)])
    planned = lead_near_producers(partitions, BROKERS, loads, target_ratio=3.0)
    assert [one.leader_id for one in planned] == [2, 2, 3]
    # at most one partition a broker: the larger saving counts
    assert [one.leader_id for one in lead_near_producers(partitions, BROKERS, loads, target_ratio=1.0)] == [2, 2, 3]
    even = loads.with_loads([part(0, 1), part(1, 2), part(2, 3)])
    assert [one.leader_id for one in lead_near_producers(even, BROKERS, loads, target_ratio=1.0)] == [1, 2, 3]
    moves = diff_placements(partitions, planned)
    assert [(one.partition, one.new_replicas, one.moved_bytes) for one in moves] == [
        (0, (2, 1, 3), 0),
        (1, (2, 1, 3), 0),
    ]


def test_leaders_that_must_change_places_do_so_when_there_is_room():
    """The largest saving, of partition 0, waits until partition 1 has left broker 2."""
    loads = loads_of({0: {"b": 50.0}, 1: {"a": 40.0}, 2: {"c": 10.0}, 3: {"c": 35.0}})
    partitions = loads.with_loads([part(0, 1), part(1, 2), part(2, 2), part(3, 3)])
    planned = lead_near_producers(partitions, BROKERS, loads, target_ratio=2.0)
    assert [one.leader_id for one in planned] == [2, 1, 3, 3]
    assert sum_between_zones(planned, loads, RACKS).produce == 0


def test_a_replica_out_of_sync_is_not_made_leader():
    loads = loads_of({0: {"b": 90.0}})
    partitions = loads.with_loads([part(0, 1, in_sync=(1, 3))])
    assert lead_near_producers(partitions, BROKERS, loads, target_ratio=9.0) == tuple(partitions)


@pytest.mark.parametrize("leader_id", [-1, 3])
def test_a_partition_that_no_replica_of_its_own_leads_stays_as_it_is(leader_id):
    """Its plan named broker -1, or one replica too many: the leader that is being reassigned away."""
    left = part(0, leader_id, (1, 2))
    brokers = [PlacementBroker(broker_id=n, rack=r) for n, r in {1: "a", 2: "a", 3: "b"}.items()]
    assert spread_replicas([left], brokers) == ((left,), False)


@pytest.mark.parametrize("dead", [[], [PlacementBroker(broker_id=4, rack="a", is_fenced=True)]])
def test_a_partition_with_a_replica_on_a_dead_broker_stays_as_it_is(dead):
    """Kafka's tool refuses the whole file that names it."""
    loads = loads_of({0: {"b": 90.0}, 1: {"b": 90.0}})
    partitions = loads.with_loads([part(0, 1, (1, 2, 4)), part(1, 1, (1, 2))])
    brokers = (*BROKERS, *dead)
    plans = [lead_near_producers(partitions, brokers, loads, target_ratio=9.0)]
    with_keys = ZoneLoads(loads.sent, {})
    plans += [even_rack_aware(partitions, brokers, with_keys, target_ratio=1.2)[0]]
    spread_over = [*dead, *BROKERS[:1], PlacementBroker(broker_id=2, rack="a"), BROKERS[2]]
    plans += [spread_replicas([part(0, 1, (1, 2, 4))], spread_over)[0]]
    assert [one[0].leader_id for one in plans] == [1, 1, 1]
    assert plans[-1][0].replicas == (1, 2, 4)
    assert [one[1].leader_id for one in plans[:2]] == [2, 2]


def test_followers_go_to_racks_without_a_replica_and_the_leader_stays():
    brokers = [PlacementBroker(broker_id=n, rack=r) for n, r in {1: "a", 2: "a", 3: "b", 4: "b", 5: None}.items()]
    full = [PlacementBroker(broker_id=n, rack=r, free_bytes=5) for n, r in {1: "a", 2: "a", 3: "b", 4: "b"}.items()]
    partitions = [part(0, 1, (1, 2)), part(1, 1, (2, 1)), part(2, 1, (1, 3)), part(3, 1, (1, 2))]
    planned, is_cut = spread_replicas(partitions, brokers)
    assert not is_cut
    assert [one.replicas for one in planned] == [(1, 4), (3, 1), (1, 3), (1, 4)]
    assert [one.leader_id for one in planned] == [1] * 4
    assert [one.moved_bytes for one in diff_placements(partitions, planned)] == [10, 10, 10]
    assert spread_replicas(partitions, full) == (tuple(partitions), False)
    racks = {one.broker_id: one.rack or "" for one in brokers}
    loads = loads_of({number: {"a": 5.0} for number in range(4)})
    assert [sum_between_zones(each, loads, racks).replication for each in (partitions, planned)] == [5.0, 20.0]


@given(
    leaders=st.lists(st.sampled_from([1, 2, 3]), min_size=2, max_size=4),
    zones=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 99), min_size=1), min_size=4, max_size=4
    ),
)
def test_a_plan_for_rack_aware_producers_is_never_worse_than_leaving_leaders_alone(leaders, zones):
    partitions = [part(number, leader) for number, leader in enumerate(leaders)]
    loads = loads_of({number: dict(zones[number]) for number in range(len(leaders))})

    def peak(placed):
        return max(rate_brokers(loads.make_rack_aware(placed, RACKS).with_loads(placed), BROKERS).values())

    planned, is_cut = even_rack_aware(partitions, BROKERS, loads, target_ratio=TARGET)
    assert not is_cut
    assert peak(planned) <= max(TARGET, peak(partitions)) + 1e-9
    every = itertools.product((1, 2, 3), repeat=len(leaders))
    best = min(peak([part(number, leader) for number, leader in enumerate(chosen)]) for chosen in every)
    assert peak(planned) >= best - 1e-9


def test_a_zone_with_too_many_producers_leads_a_topic_less():
    """All producers are in a: rack-aware they load broker 1 alone, as long as it leads."""
    loads = loads_of({number: {"a": 10.0} for number in range(6)})
    partitions = [part(number, 1 + number % 3) for number in range(6)]
    aware = loads.make_rack_aware(partitions, RACKS).with_loads(partitions)
    assert rate_brokers(aware, BROKERS)[1] == pytest.approx(3.0)
    planned, is_cut = even_rack_aware(partitions, BROKERS, loads, target_ratio=TARGET)
    assert not is_cut
    assert max(rate_brokers(loads.make_rack_aware(planned, RACKS).with_loads(planned), BROKERS).values()) <= 1.5


def test_bytes_between_zones():
    sums = sum_between_zones([part(0, 1, (1, 2), load_bytes=9)], loads_of({0: {"a": 4.0, "b": 5.0}}), RACKS)
    assert sums == ZoneBytes(produce=5.0, replication=9.0)
