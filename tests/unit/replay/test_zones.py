"""Where a producer is: what its client says, else the configuration, else its records; and what a candidate makes of it."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from pipeline.calibration.within_ms import Pattern
from pipeline.config.replay import Candidate
from pipeline.config.sections import Zones
from pipeline.replay.clients import name_zones
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import ClientNode, ProducerSession, Recording
from pipeline.replay.simulated.arrivals import prepare_arrivals
from pipeline.replay.simulated.producers import resolve_candidate
from tests.unit.replay.session_groups import START_MS, lay_out, make_baseline, make_group, make_traffic

RACK_AWARE = make_baseline("java-builtin-rack-aware", version="4.4.0", partitioner_rack_aware="true", client_rack="c")
PLAIN = make_baseline(version="3.2.3")
ZONES = Zones(clients={"app-a*": "a", "10.1.*": "b"}, weights={"a": 3, "z": 1})
AWARE = Candidate(name="rack aware", config={"partitioner.rack.aware": "true"})


def make_session(baseline=PLAIN, topic="orders"):
    of = {"start_ms": START_MS, "topic": topic, "topic_id": "", "producer_id": 7, "producer_epoch": 0}
    counts = {"record_count": 10, "keyless_count": 10, "batch_count": 10, "counts": {}, "sampling_rate": 1.0}
    sizes = {"bytes_by_broker": {}, "bytes_by_slot": np.zeros(1, np.int64), "compression": None}
    kind = {"pattern": Pattern.STEADY, "timestamp_type": "CreateTime", "baseline": baseline}
    return ProducerSession(**of, **counts, **sizes, **kind)


@pytest.mark.parametrize(
    ("clients", "said", "baseline", "found"),
    [
        ([("10.9.0.1:80", "app-a1")], "d", RACK_AWARE, ("app-a1", "d", "client")),
        ([("10.9.0.1:80", "app-a1")], None, RACK_AWARE, ("app-a1", "a", "configured")),
        ([("10.1.0.1:80", "x")], None, PLAIN, ("x", "b", "configured")),
        ([("10.9.0.1:80", "x")], None, RACK_AWARE, ("x", "c", "rack_aware")),
        ([], None, PLAIN, (None, "", "unknown")),
        ([("1:80", "app-a1"), ("2:80", "app-a2")], None, PLAIN, (None, "a", "configured")),
        ([("1:80", "app-a1"), ("10.1.0.1:80", "x")], None, PLAIN, (None, "", "unknown")),
    ],
)
def test_the_surest_source_names_the_zone(clients, said, baseline, found):
    node = ClientNode(window_start_ms=START_MS, client_id="a", broker_id=0, client_rack=said)
    nodes = {START_MS: {client: [node] for client in clients}}
    recording = Recording(windows=(), window_ms=60_000, nodes=nodes, zones=ZONES)
    session = make_session(baseline)
    metrics = {session.key: SessionMetrics({}, clients=tuple(clients))}
    [named] = name_zones(recording, [session], metrics)
    assert (named.client_id, named.zone, named.zone_source) == found


def test_a_producer_is_in_one_zone_whichever_topic_it_sends_to():
    recording = Recording(windows=(), window_ms=60_000)
    sessions = [make_session(RACK_AWARE), make_session(PLAIN, topic="audit")]
    found = name_zones(recording, sessions, {sessions[0].key: SessionMetrics({})})
    assert [one.zone for one in found] == ["c", "c"]


def test_a_candidate_that_is_rack_aware_puts_a_producer_into_its_zone():
    resolved = resolve_candidate(AWARE, PLAIN, None, {0: "a", 1: "b"}, zone="b")
    assert (resolved.resolved.settings.client_rack, resolved.assumptions) == ("b", ())
    named = Candidate(name="all in a", config={"partitioner.rack.aware": "true", "client.rack": "a"})
    assert resolve_candidate(named, PLAIN, None, {0: "a", 1: "b"}, zone="b").resolved.settings.client_rack == "a"


def test_zones_that_nothing_says_are_drawn_by_the_weights_given():
    traffic = make_traffic(100)
    group = dataclasses.replace(
        make_group(traffic, baseline=PLAIN), racks={0: "a", 1: "b", 2: "c"}, zone_weights=ZONES.weights
    )
    scenario = lay_out(group, prepare_arrivals(group, [traffic]), AWARE)
    drawn = Counter(scenario.build(seed).producers[0].settings.client_rack for seed in range(400))
    assert drawn.keys() == {"a", "z"}
    assert 270 <= drawn["a"] <= 330
