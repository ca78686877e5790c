"""Racks in a scenario: who gets a rack-aware producer's records, and what people are told."""

import pytest

from pipeline.simulator.clients.client import describe_racks
from pipeline.simulator.engine.result import QueueCounter
from pipeline.simulator.engine.simulate import simulate
from pipeline.simulator.scenario.scenario_file import parse_scenario

TEXT = """
cluster: {{brokers: [{brokers}]}}
topics: [{{name: foo, leaders: [0, 0, 1, 2, 1, 2]}}]
producers:
  - name: app
    version: 4.4.0
    config: {{partitioner.rack.aware: true, client.rack: {client_rack}, batch.size: 2000{more}}}
    traffic: {{topic: foo, arrivals: {{kind: poisson, records_per_s: 2000}}, records: 6000, value_bytes: 500{keys}}}
"""


def run(racks, client_rack, more="", keys=""):
    """The scenario's notes, and records by partition."""
    brokers = ", ".join(f"{{id: {number}, rack: '{rack}'}}" for number, rack in enumerate(racks))
    text = TEXT.format(brokers=brokers, client_rack=client_rack, more=more, keys=keys)
    [variant] = parse_scenario(text, "s.yaml").variants
    return variant.notes, simulate(variant.scenario, 1).queues[:, QueueCounter.DONE_RECORDS].tolist()


@pytest.mark.parametrize(
    ("racks", "client_rack", "chosen", "note"),
    [
        ("abc", "a", {0, 1}, ""),
        ("aab", "a", {0, 1, 2, 4}, ""),
        (("a", "", "b"), "a", {0, 1}, "broker 1 has no rack: rack-aware producers pass it over"),
        ("abc", "d", set(range(6)), "no broker is in rack d (there are a, b, c): its producers choose as if"),
        (("", "", ""), "a", set(range(6)), "no broker has a rack: rack-aware producers choose as if"),
        ("aaa", "a", set(range(6)), "all brokers are in rack a: rack-aware producers choose as if"),
    ],
)
@pytest.mark.parametrize("more", ["", ", partitioner.adaptive.partitioning.enable: false"])
def test_records_without_a_key_stay_in_the_rack_if_it_leads_any(racks, client_rack, chosen, note, more):
    notes, counts = run(racks, client_rack, more)
    assert {partition for partition, count in enumerate(counts) if count} == chosen
    assert [text[: len(note)] for text in notes] == ([note] if note else [])


FRANZ_GO = """
cluster: {{brokers: [{{id: 0, rack: a}}, {{id: 1, rack: b}}, {{id: 2}}]}}
topics: [{{name: foo, leaders: [0, 0, 1, 2, 1, 2]}}]
producers:
  - name: app
    client: franz-go
    version: 1.22.0
    strategy: franz-go-{strategy}
    config: {{RackAwarePartitioning: true, Rack: {rack}, ProducerBatchMaxBytes: 2000}}
    traffic: {{topic: foo, arrivals: {{kind: poisson, records_per_s: 2000}}, records: 6000, value_bytes: 500}}
"""


@pytest.mark.parametrize("strategy", ["default", "sticky", "least-backup", "round-robin"])
@pytest.mark.parametrize(("rack", "chosen"), [("a", {0, 1}), ("b", {2, 4}), ("z", set(range(6)))])
def test_franz_go_stays_in_the_rack_whatever_its_partitioner(strategy, rack, chosen):
    """Cases of its own tests: brokers in racks a and b and one without, and a rack that leads nothing."""
    [variant] = parse_scenario(FRANZ_GO.format(strategy=strategy, rack=rack), "s.yaml").variants
    counts = simulate(variant.scenario, 1).queues[:, QueueCounter.DONE_RECORDS].tolist()
    assert {partition for partition, count in enumerate(counts) if count} == chosen


def test_records_with_a_key_go_where_their_hash_says():
    _, counts = run("abc", "a", keys=", keys: {share: 1, count: 100, bytes: 4}")
    assert min(counts) > 0
    assert counts == run("aaa", "a", keys=", keys: {share: 1, count: 100, bytes: 4}")[1]
    _, ignoring = run("abc", "a", ", partitioner.ignore.keys: true", ", keys: {share: 1, count: 100, bytes: 4}")
    assert [count > 0 for count in ignoring] == [True, True, False, False, False, False]


def test_two_hundred_racks_are_not_all_named():
    racks = {number: f"r{number:03}" for number in range(200)}
    told = describe_racks("x", racks)
    assert told.startswith("no broker is in rack x (there are r000, r001, r002, r003, r004 and 195 more)")
    assert describe_racks("r007", racks) == ""
