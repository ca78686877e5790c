"""A plan carried out on a real cluster with Kafka's own tools. Oracle: the brokers afterwards, and the bytes they lead.

The cluster is made skewed: broker 1 leads most of what is written.
"""

from __future__ import annotations

import json
import re
import time

import pytest
from confluent_kafka import Producer

from pipeline.codec.reassignment_json import format_election, format_reassignment
from pipeline.measures.reassignment import plan_leaders, plan_replicas
from pipeline.model.placement import PlacedPartition, PlacementBroker
from tests.lab.cluster import start_cluster

pytestmark = pytest.mark.timeout(600)
TARGET = 1.1
BROKERS = [PlacementBroker(broker_id=number, rack=f"rack-{number}") for number in range(3)]
ASSIGNMENT = {
    "orders": [(1, 0), (1, 2), (1, 0), (1, 2), (0, 1), (2, 0)],
    "single": [(1,)] * 6 + [(0,), (2,)],  # whoever leads orders, broker 1 has 600 of 1,400
}
RECORDS = {"orders": 200, "single": 200}
VALUE = bytes(512)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three brokers, each a rack of its own; nothing elects leaders unasked."""
    unasked = {"auto.leader.rebalance.enable": "false"}
    with start_cluster(
        tmp_path_factory.mktemp("plans"),
        3,
        settings={"num.replica.fetchers": "1"},
        controller_settings=unasked,
        heap_mb=256,
    ) as running:
        for topic, replicas in ASSIGNMENT.items():
            running.create_topic(topic, ",".join(":".join(map(str, held)) for held in replicas))
        yield running


def produce(cluster):
    """The same number of records to every partition of a topic, one batch each time."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "compression.type": "none"})
    for topic, count in RECORDS.items():
        for partition in range(len(ASSIGNMENT[topic])):
            for _ in range(count):
                producer.produce(topic, VALUE, partition=partition)
    assert producer.flush(30) == 0


def described(cluster):
    """Leader and replicas by topic and partition, from the tool's text."""
    text = cluster.run_tool("kafka-topics", "--describe")
    rows = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)", text)
    ids = lambda listed: tuple(int(broker_id) for broker_id in listed.split(","))  # noqa: E731
    return {
        (t, int(p)): (int(leader), ids(replicas), ids(isr)) for t, p, leader, replicas, isr in rows if t in ASSIGNMENT
    }


def placed(cluster):
    """Partitions as the planner takes them; every record is as large as another."""
    return [
        PlacedPartition(
            topic=topic,
            partition=number,
            replicas=replicas,
            leader_id=leader_id,
            in_sync=isr,
            load_bytes=RECORDS[topic] * 1_000,
            size_bytes=RECORDS[topic] * 1_000,
        )
        for (topic, number), (leader_id, replicas, isr) in sorted(described(cluster).items())
    ]


def carried(cluster, before):
    """Share ratio of every broker by how far end offsets grew since: all records are alike."""
    loads, now = dict.fromkeys(range(3), 0), end_offsets(cluster)
    for key, (leader_id, _, _) in described(cluster).items():
        loads[leader_id] += now[key] - before[key]
    total = sum(loads.values())
    return {broker_id: 3 * load / total for broker_id, load in loads.items()}


def end_offsets(cluster):
    found = {}
    for topic in ASSIGNMENT:
        for line in cluster.run_tool("kafka-get-offsets", "--topic", topic).splitlines():
            name, number, offset = line.rsplit(":", 2)
            found[name, int(number)] = int(offset)
    return found


def carry_out(cluster, folder, moves):
    """`--execute`, `--verify` until all is complete, then the election: as the mail tells it."""
    reassignment, election = folder / "reassignment.json", folder / "election.json"
    reassignment.write_text(format_reassignment((m.topic, m.partition, m.new_replicas) for m in moves))
    election.write_text(format_election((m.topic, m.partition) for m in moves))
    said = cluster.run_tool("kafka-reassign-partitions", "--reassignment-json-file", str(reassignment), "--execute")
    assert "Successfully started partition reassignment" in said
    # what the tool prints for a rollback is what we hand over for one
    printed = json.loads(next(line for line in said.splitlines() if line.startswith('{"version"')))
    ours = json.loads(format_reassignment((m.topic, m.partition, m.replicas) for m in moves))
    by_key = lambda document: {(p["topic"], p["partition"]): p["replicas"] for p in document["partitions"]}  # noqa: E731
    assert by_key(printed) == by_key(ours)
    deadline = time.monotonic() + 120
    while True:
        said = cluster.run_tool("kafka-reassign-partitions", "--reassignment-json-file", str(reassignment), "--verify")
        if said.count("is completed.") == len(moves):
            break
        assert time.monotonic() < deadline, said
    said = cluster.run_tool(
        "kafka-leader-election", "--election-type", "preferred", "--path-to-json-file", str(election)
    )
    assert "Successfully completed" in said or "Valid replica already elected" in said


@pytest.mark.parametrize("make", [plan_leaders, plan_replicas], ids=["leaders", "replicas"])
def test_a_plan_verifies_and_brings_the_shares_where_it_said(cluster, make, tmp_path):
    before = described(cluster)
    plan = make(placed(cluster), BROKERS, target_ratio=TARGET)
    assert plan.moves
    assert (plan.moved_bytes == 0) == (make is plan_leaders)
    carry_out(cluster, tmp_path, plan.moves)
    after = described(cluster)
    for move in plan.moves:
        leader_id, replicas, isr = after[move.topic, move.partition]
        assert (leader_id, replicas, set(isr)) == (move.new_replicas[0], move.new_replicas, set(replicas))
    moved = {(move.topic, move.partition) for move in plan.moves}
    assert {key: row for key, row in after.items() if key not in moved} == {
        key: row for key, row in before.items() if key not in moved
    }
    offsets = end_offsets(cluster)
    produce(cluster)
    assert carried(cluster, offsets) == pytest.approx(plan.ratios, abs=0.01)
