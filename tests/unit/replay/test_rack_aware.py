"""A candidate whose producers are rack-aware: racks from the cluster's state, or a sentence where they say nothing."""

import dataclasses

import pytest

from pipeline.config.replay import Candidate, CandidateBroker
from pipeline.replay.simulated.arrivals import prepare_arrivals
from pipeline.replay.simulated.producers import check_producer, name_strategy, resolve_candidate
from pipeline.replay.simulated.runs import CELL_RECORDS, run_group
from tests.unit.replay.session_groups import lay_out, make_baseline, make_group, make_traffic

RACK_AWARE = "java-builtin-rack-aware"
AWARE = {"partitioner.rack.aware": "true"}
DRAWN = "in which racks producers are is not known: in each run each is put into one of the brokers' racks, at random"
IN_USE = make_baseline(version="3.2.3", linger_ms=5)


def place(candidate, racks, seed, baseline=IN_USE):
    """Brokers, each the leader of the partition of its number, that get a record."""
    traffic = make_traffic(2_000)
    group = dataclasses.replace(make_group(traffic, baseline=baseline), racks=racks)
    arrivals = prepare_arrivals(group, [traffic])
    [run] = run_group(lay_out(group, arrivals, candidate), arrivals, seed)
    assert run.sent_count == 2_000
    return {broker for broker, count in enumerate(run.cells[:, CELL_RECORDS]) if count}


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(name="by strategy", partitioner=RACK_AWARE, config={"client.rack": "b"}),
        Candidate(name="by setting", config=AWARE | {"client.rack": "b"}),
        Candidate(name="by version and setting", client="4.4.0", config=AWARE | {"client.rack": "b"}),
    ],
)
def test_records_stay_with_the_brokers_of_the_rack(candidate):
    check_producer(candidate)
    assert name_strategy(candidate) == RACK_AWARE
    resolved = resolve_candidate(candidate, IN_USE, None, {0: "a", 1: "b", 2: "c"})
    assert (resolved.version, resolved.resolved.strategy, resolved.assumptions) == ("4.4.0", RACK_AWARE, ())
    assert place(candidate, {0: "a", 1: "b", 2: "c"}, 1) == {1}
    assert place(candidate, {0: "a", 1: "b", 2: "b"}, 1) == {1, 2}


def test_a_rack_that_is_not_known_is_drawn_for_each_run():
    candidate, racks = Candidate(name="rack aware", config=AWARE), {0: "a", 1: "b", 2: "c"}
    found = [place(candidate, racks, seed) for seed in range(12)]
    assert {frozenset(brokers) for brokers in found} == {frozenset({broker}) for broker in racks}
    assert found == [place(candidate, racks, seed) for seed in range(12)]
    assert [one.text for one in resolve_candidate(candidate, IN_USE, None, racks).assumptions] == [DRAWN]


@pytest.mark.parametrize(
    ("config", "racks", "told"),
    [
        ({}, {}, "no broker has a rack"),
        ({}, {0: "", 1: "", 2: ""}, "no broker has a rack"),
        ({}, {0: "a", 1: "a", 2: "a"}, "all brokers are in rack a"),
        ({"client.rack": "z"}, {0: "a", 1: "b", 2: "c"}, "no broker is in rack z (there are a, b, c)"),
    ],
)
def test_where_racks_say_nothing_records_go_everywhere_and_people_are_told(config, racks, told):
    candidate = Candidate(name="rack aware", config=AWARE | config)
    [said] = resolve_candidate(candidate, IN_USE, None, racks).assumptions
    assert said.text.startswith(told)
    assert place(candidate, racks, 1) == {0, 1, 2}


def test_brokers_without_a_rack_are_named_and_may_be_given_one():
    config, racks = AWARE | {"client.rack": "b"}, {0: "a", 1: "", 2: "b"}
    [said] = resolve_candidate(Candidate(name="one", config=config), IN_USE, None, racks).assumptions
    assert said.text.startswith("broker 1 has no rack: rack-aware producers pass it over")
    assert place(Candidate(name="one", config=config), racks, 1) == {2}
    given = Candidate(name="two", config=config, brokers={1: CandidateBroker(rack="b")})
    assert resolve_candidate(given, IN_USE, None, racks).assumptions == ()
    assert place(given, racks, 1) == {1, 2}


def test_a_rack_aware_producer_keeps_its_rack_under_candidates_that_keep_its_partitioner():
    own = make_baseline(RACK_AWARE, version="4.4.0", partitioner_rack_aware="true", client_rack="c")
    racks = {0: "a", 1: "b", 2: "c"}
    assert place(None, racks, 1, own) == {2}
    assert place(Candidate(name="linger", config={"linger.ms": "20"}), racks, 1, own) == {2}
    assert place(Candidate(name="plain", partitioner="java-builtin"), racks, 1, own) == {0, 1, 2}
    assert not resolve_candidate(Candidate(name="plain", partitioner="java-builtin"), own, None, racks).assumptions
