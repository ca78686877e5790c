"""The metadata log of Kafka 4.4: racks, fencing, cordoned log directories. Oracle: what its brokers were configured to be."""

import json

import pytest

from pipeline.model.window import TimeWindow
from pipeline.sources.files.cluster_state import read_cluster_history
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.kinds.log_directories import LogDirectories
from tests.lab.artifacts import NEWER_BROKER_VERSION
from tests.lab.cluster import start_cluster
from tests.lab.process import LabError, wait_until
from tests.unit.sources.files.window_rows import list_broker_rows, list_window_states

AT_LAST_MS = 2**62
RACKS = ("a", "b", "c")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    root = tmp_path_factory.mktemp("newer")
    with start_cluster(root, 3, version=NEWER_BROKER_VERSION, racks=RACKS, is_brief=True) as started:
        started.create_topic("t", "0:1,1:2,2:0")
        yield started


def history_of(cluster):
    history, problems = read_cluster_history(discover_logs([cluster.controller_directory]))
    assert (problems, history.unread) == ((), ())
    return history


def test_racks_and_cordoned_disks_are_those_of_the_brokers(cluster):
    """Kafka refuses a reassignment to the broker of which we say that it takes no replica."""
    brokers = history_of(cluster).state_at(AT_LAST_MS).brokers
    assert [brokers[number].rack for number in range(3)] == [*RACKS]
    cordoned = cluster.brokers[1].log_directory
    change = ("--entity-type", "brokers", "--entity-name", "1", "--alter", "--add-config")
    cluster.run_tool("kafka-configs", *change, f"cordoned.log.dirs={cordoned}")

    def is_cordoned():
        return bool(history_of(cluster).state_at(AT_LAST_MS).brokers[1].cordoned_directory_ids)

    wait_until(is_cordoned, "cordoned log directory in the metadata log", cluster.processes[0])
    history = history_of(cluster)
    rows = list_broker_rows("c", history, {}, list_window_states(history, [TimeWindow(0, 2**41)]), {})
    assert [row["takes_replicas"] for row in rows] == [True, False, True]
    plan = cluster.root / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 2, "replicas": [2, 1]}]}))
    with pytest.raises(LabError, match="all its log directories are cordoned"):
        cluster.run_tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")


def test_doctor_reads_all_of_it(cluster):
    source = LogDirectories(kind="log_directories", paths=(cluster.controller_directory,))
    assert [finding.is_ok for finding in source.probe()] == [True]


def test_a_broker_that_is_killed_is_fenced(cluster):
    cluster.kill_broker(2)
    wait_until(lambda: history_of(cluster).state_at(AT_LAST_MS).brokers[2].is_fenced, "fencing", cluster.processes[0])
    assert history_of(cluster).state_at(AT_LAST_MS).brokers[2].rack == "c"
