"""What-ifs about zones, and a sentence for racks that say nothing."""

import pytest

from pipeline.advice.what_ifs import ZoneChange, describe_zones, work_out
from pipeline.errors import NothingUsableError
from pipeline.measures.zone_plans import ZoneLoads
from pipeline.model.placement import PlacementBroker
from tests.placements import place


def led_by_each(racks):
    """A partition led by each broker, replicas on the first two and the leader."""
    replicas = [(one, *(other for other in list(racks)[:2] if other != one)) for one in racks]
    return [place(number, of, in_sync=tuple(racks), load=0, size=1) for number, of in enumerate(replicas)]


def brokers_of(racks):
    return [PlacementBroker(broker_id=one, rack=rack) for one, rack in racks.items()]


def loads_of(racks, sent):
    by_place = {("t", number): dict(sent) for number in range(len(racks))}
    return ZoneLoads(by_place, by_place)


def test_rack_aware_producers_save_their_way_and_load_their_zone():
    racks = {1: "a", 2: "b", 3: "c"}
    loads = loads_of(racks, {"a": 70.0, "b": 20.0})
    worked = work_out(ZoneChange.RACK_AWARE, led_by_each(racks), brokers_of(racks), loads, target_ratio=1.2)
    assert (worked.now.between.produce, worked.then.between.produce) == (180.0, 0.0)
    assert worked.then.peak == (1, pytest.approx(210 / 90))
    assert worked.planned.peak[1] < worked.then.peak[1]
    assert worked.planned.between.produce > 0  # a leads less, so its producers go elsewhere too
    assert worked.moves


def test_without_racks_there_is_an_error_that_says_what_to_do():
    racks = {1: None, 2: None}
    with pytest.raises(NothingUsableError, match=r"no broker has a rack: set broker\.rack, or name .*zones\.brokers"):
        work_out(ZoneChange.LEADERS, led_by_each(racks), brokers_of(racks), loads_of(racks, {}), target_ratio=1.2)


@pytest.mark.parametrize(
    ("racks", "sent", "said"),
    [
        ({1: "a", 2: "b"}, {"a": 1.0}, []),
        ({1: "a", 2: "a"}, {"a": 1.0}, ["All brokers with a rack are in a: nothing goes between zones of brokers."]),
        ({1: "a", 2: "b", 3: None}, {}, ["Of broker 3 no rack is known: what goes to it counts as within a zone."]),
        (
            {1: "a", 2: "b"},
            {"d": 1.0},
            ["No broker is in zone d, where producers are: rack-aware or not, they send to every leader."],
        ),
        (
            {number: f"rack-{number}" for number in range(200)},
            {"": 1.0},
            ["Where producers are is not known, and brokers have too many racks to assume it (zones.clients)."],
        ),
    ],
)
def test_racks_that_say_nothing_are_told(racks, sent, said):
    assert describe_zones(brokers_of(racks), loads_of(racks, sent)) == said


def test_names_of_racks_and_zones_do_not_act_in_a_terminal():
    """A producer says its own `client.rack`."""
    racks = {0: "\x1b[31m\n"}
    said = "".join(describe_zones(brokers_of(racks), loads_of(racks, {"\u202e\x1b[2J": 1.0})))
    assert said.isprintable()
    assert r"\x1b[31m\n" in said
    assert r"\u202e\x1b[2J" in said


def test_brokers_by_the_dozen_without_a_rack_are_counted():
    [said] = describe_zones(brokers_of({0: "a", 1: "b"} | dict.fromkeys(range(2, 20))), ZoneLoads())
    assert said.startswith("Of brokers 2, 3, 4, 5, 6 and 13 more no rack is known")
