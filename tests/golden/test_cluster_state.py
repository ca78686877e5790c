"""Cluster state from each source, on the committed capture. Oracles: the manifest, and Kafka's tools at the end of it."""

import dataclasses
import json

import pytest

from pipeline.codec.log.segment import scan_headers
from pipeline.codec.tools.tool_text import parse_consumer_groups, parse_topics_describe
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import DirectoryKind
from pipeline.sources.files.cluster_state import read_cluster_history, read_log_end_offset, read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.kinds.tool_texts import TopicsDescribe
from pipeline.sources.source import Described


def describe(path):
    described = Described()
    TopicsDescribe(kind="topics_describe", path=path).describe(described)
    return described


@pytest.fixture(scope="module")
def manifest(capture_folder):
    return json.loads((capture_folder / "manifest.json").read_text())


@pytest.fixture(scope="module")
def tree(capture_folder):
    return discover_logs([capture_folder / "brokers", capture_folder / "controllers"])


@pytest.fixture(scope="module")
def brokers_only(capture_folder):
    """Broker directories without any copy of the metadata log."""
    folders = sorted(capture_folder.glob("brokers/*/*-*/"))
    return discover_logs([folder for folder in folders if folder.name != "__cluster_metadata-0"])


def test_the_metadata_log_tells_what_the_manifest_planned(tree, manifest):
    history, problems = read_cluster_history(tree)
    assert problems == ()
    assert history.state_source == "cluster_metadata"
    for at_ms in (manifest["clock"]["start_ms"], manifest["clock"]["end_ms"]):
        state = history.state_at(at_ms)
        placed = {str(key): list(p.replicas) for key, p in state.partitions.items() if not key.topic.startswith("__")}
        assert placed == {
            f"{topic}-{partition}": replicas
            for topic, placement in manifest["topics"].items()
            for partition, replicas in enumerate(placement)
        }
        assert all(p.leader_id == p.preferred_leader_id for p in state.partitions.values())
        assert [b.broker_id for b in state.brokers.values() if not b.is_fenced] == [0, 1, 2]


def test_every_source_names_the_same_leaders(tree, brokers_only, capture_folder, manifest):
    described = describe(capture_folder / "tools/topics-describe.txt").history
    end_ms = manifest["clock"]["end_ms"]
    by_log = read_cluster_history(tree)[0].state_at(end_ms)
    by_text, problems = read_cluster_history(brokers_only, described)
    assert (by_text.state_source, problems) == ("topics_describe", ())
    by_replica = read_cluster_history(brokers_only)[0]
    assert by_replica.state_source == "only_replica"
    in_text = {key: value for key, value in by_log.leaders.items() if key in by_text.partitions}
    assert by_text.state_at(end_ms).leaders == in_text
    replicated = {key for key, p in by_log.partitions.items() if len(p.replicas) > 1}
    assert replicated == {TopicPartition("audit", n) for n in range(6)}
    alone = {key: value for key, value in by_log.leaders.items() if key not in replicated}
    assert by_replica.state_at(end_ms).leaders == alone
    for history in (by_text, by_replica):  # no epochs, no times: the one leader holds for any epoch
        assert history.leader_terms(TopicPartition("orders", 1))[0][1:] == (None, 1, None)


def test_configs_as_described(tree, capture_folder, manifest):
    """Static settings of the brokers are not in the log, so the tool may name more configs, never other values."""
    state = read_cluster_history(tree)[0].state_at(manifest["clock"]["end_ms"])
    described = parse_topics_describe((capture_folder / "tools/topics-describe.txt").read_text())
    assert all(state.topic_config(topic).items() <= configs.items() for topic, configs in described.configs.items())
    assert any(state.topic_configs.values())


def test_log_end_offsets_by_index_and_by_reading_everything(tree):
    """Oracle: a full scan of the last segment."""
    for _, partition in tree.iter_partitions(kind=DirectoryKind.LIVE):
        last = partition.segments[-1]
        scan = scan_headers(last.path, check_crc=False)
        assert read_log_end_offset(last) == (int(scan.last_offset[-1]) + 1 if len(scan) else last.base_offset)


def test_replicas_are_complete(tree, manifest):
    """After a clean stop every replica reaches the leader's end, and the high watermark is the log's end."""
    states, problems = read_replica_states(tree)
    assert problems == ()
    history = read_cluster_history(tree)[0].state_at(manifest["clock"]["end_ms"])
    held = {}
    for state in states:
        held.setdefault(state.topic_partition, []).append(state)
    assert held.keys() == history.partitions.keys()
    for key, replicas in held.items():
        assert sorted(r.broker_id for r in replicas) == sorted(history.partitions[key].replicas)
        assert len({r.log_end_offset for r in replicas}) == 1
        assert {r.high_watermark for r in replicas} <= {replicas[0].log_end_offset, None}
        assert replicas[0].log_start_offset == 0


def test_consumer_groups(capture_folder, manifest):
    files = sorted((capture_folder / "tools").glob("consumer-groups-describe-*.txt"))
    assert len(files) == 3
    for file in files:
        rows = parse_consumer_groups(file.read_text())
        assert {(r.topic, r.partition) for r in rows} == {
            ("clicks", n) for n in range(len(manifest["topics"]["clicks"]))
        }
        assert all(r.lag_count == r.log_end_offset - r.committed_offset for r in rows)
        assert {r.client_host for r in rows} == {"127.0.0.1"}


def test_bad_sources_are_named_and_the_next_one_used(tmp_path, brokers_only, capture_folder):
    bad = tmp_path / "describe.txt"
    bad.write_bytes(b"Topic: t\tPartition: 0\tLeader: x\tReplicas: 0\tIsr: 0\n")
    found = describe(bad)
    (problem,) = found.problems["topics_describe"]
    assert read_cluster_history(brokers_only, found.history)[0].state_source == "only_replica"
    assert (problem.path, problem.position) == (str(bad), 1)
    bad.write_bytes(b"\xff\xfe")
    assert "cannot be read" in describe(bad).problems["topics_describe"][0].reason
    assert "No such file" in describe(tmp_path / "missing").problems["topics_describe"][0].reason


def test_a_directory_of_another_cluster_is_named(tree, segments_tree):
    foreign = discover_logs([segments_tree / "aryan-jadon+Distributed-Kafka-Clusters"]).directories
    mixed = dataclasses.replace(tree, directories=(*tree.directories, *foreign))
    (problem,) = read_cluster_history(mixed)[1]
    assert problem.path == foreign[0].path
    assert problem.reason.startswith("cluster.id 4fi2MkU0Ql2L0cPRncY20Q, others")
