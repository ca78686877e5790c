"""Plans for a cluster with a dead broker, carried out by Kafka's own tool. Oracle: the tool, and the cluster afterwards."""

import pytest

from pipeline.advice.what_ifs import PlacedCluster, plan_even
from pipeline.codec.tools.reassignment_text import format_reassignment
from pipeline.codec.tools.tool_text import parse_topics_describe
from pipeline.jobs.recommend import place_partitions
from pipeline.model.placement import PlacementBroker
from pipeline.model.window import TimeWindow
from pipeline.sources.files.cluster_state import read_cluster_history
from pipeline.sources.files.log_directories import discover_logs
from tests.lab.cluster import start_cluster
from tests.lab.process import LabError, wait_until
from tests.unit.sources.files.window_rows import list_broker_rows, list_cluster_state_rows, list_window_states

RACKS = ("a", "b", "a", "b")
NOW = TimeWindow(0, 2**41)
LOADS = {0: 600, 1: 100, 2: 100, 3: 100, 4: 100}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Brokers 0 to 3 on two racks, 3 dead; all but partition 3 are led by broker 0."""
    with start_cluster(tmp_path_factory.mktemp("loss"), 4, racks=RACKS, is_brief=True) as started:
        started.create_topic("t", "0:1,0:3,0:3,3:2,0:1")
        started.kill_broker(3)
        wait_until(lambda: read_state(started)[1][3].is_fenced, "fencing", started.processes[0])
        yield started


def read_state(cluster):
    """Partitions and brokers as the tables have them, from the controller's metadata log."""
    history, _ = read_cluster_history(discover_logs([cluster.controller_directory]))
    states = list_window_states(history, [NOW])
    rows = [{"size_bytes": 0, **row} for row in list_cluster_state_rows("c", (), states, str)]
    loads = [("t", "", number, load) for number, load in LOADS.items()]
    brokers = [
        PlacementBroker(
            broker_id=row["broker_id"],
            rack=row["rack"],
            is_fenced=row["is_fenced"],
            takes_replicas=row["takes_replicas"],
        )
        for row in list_broker_rows("c", history, {}, states, {})
    ]
    return place_partitions(loads, rows), brokers


def test_the_plan_is_accepted_and_empties_the_dead_broker(cluster):
    partitions, brokers = read_state(cluster)
    assert [one.load_bytes for one in partitions] == [*LOADS.values()]  # by name: the loads have no topic id
    plan = plan_even(PlacedCluster(partitions=tuple(partitions), brokers=tuple(brokers)), target_ratio=1.6)
    assert {1, 2, 3} <= {move.partition for move in plan.moves}
    file = cluster.root / "plan.json"
    file.write_text(format_reassignment((move.topic, move.partition, move.new_replicas) for move in plan.moves))
    cluster.run_tool("kafka-reassign-partitions", "--reassignment-json-file", str(file), "--execute")
    wanted = {move.partition: move.new_replicas for move in plan.moves}

    def is_done():
        described = parse_topics_describe(cluster.run_tool("kafka-topics", "--describe", "--topic", "t"))
        placed = {one.partition: one for one in described.partitions}
        return all(
            placed[number].replicas == replicas and {*placed[number].isr} == {*replicas}
            for number, replicas in wanted.items()
        )

    wait_until(is_done, "reassignment", cluster.processes[0])
    after = {one.partition: one for one in read_state(cluster)[0]}
    assert all(3 not in one.replicas for one in after.values())
    racks = {number: {RACKS[replica] for replica in one.replicas} for number, one in after.items()}
    assert all(len(racks[one.partition]) >= len({RACKS[r] for r in one.replicas}) for one in partitions)


def test_kafka_refuses_a_plan_that_keeps_the_dead_broker(cluster):
    """What plans did before: the replica that is gone stayed in the list."""
    file = cluster.root / "before.json"
    file.write_text(format_reassignment([("t", 1, (3, 1))]))
    with pytest.raises(LabError, match="Unknown broker id 3"):
        cluster.run_tool("kafka-reassign-partitions", "--reassignment-json-file", str(file), "--execute")
