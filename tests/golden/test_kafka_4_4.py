"""Specimens of Kafka 4.4.0: its metadata log, its segments, what its tools say. Oracle: what the laboratory set up and counted.

The archives are recordings of `make draw ARGS=--zones`; the oracle of segments is the laboratory's own reader of batches.
"""

import json
from pathlib import Path

import pytest

from pipeline.codec.log.segment import scan_headers
from pipeline.codec.tools.tool_text import parse_topics_describe
from pipeline.sources.files.cluster_state import read_cluster_history
from pipeline.sources.files.log_directories import discover_logs
from tests.lab.archive import unpack

ARCHIVES = sorted((Path(__file__).parents[1] / "data/zone_draws").glob("*/*.tar.zst"))[:2]


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def capture(request, tmp_path_factory):
    folder = unpack(request.param, tmp_path_factory.mktemp("recorded") / "capture")
    return folder, json.loads((folder / "manifest.json").read_text())


def test_the_metadata_log_tells_racks_and_leaders(capture):
    folder, manifest = capture
    history, problems = read_cluster_history(discover_logs([folder / "brokers"]))
    assert problems == ()
    end_ms = manifest["clock"]["end_ms"]
    racks = {broker_id: known.at(end_ms).rack for broker_id, known in history.brokers.items()}
    assert racks == dict(enumerate(manifest["pair"]["racks"]))
    own = {key.partition: known for key, known in history.partitions.items() if key.topic == manifest["topic"]}
    leaders = {partition: known.at(end_ms).leader_id for partition, known in own.items()}
    assert leaders == dict(enumerate(manifest["pair"]["leaders"]))
    assert manifest["bed"]["brokers"] == "4.4.0"


def test_segments_hold_what_was_counted(capture):
    folder, manifest = capture
    for partition, counted in enumerate(manifest["figures"]["partitions"]):
        logs = (folder / f"brokers/{counted['leader']}/{manifest['topic']}-{partition}").glob("*.log")
        rows = [row for log in logs for row in scan_headers(log).rows]
        found = {
            "batch_count": len(rows),
            "record_count": sum(int(row["record_count"]) for row in rows),
            "size_bytes": sum(int(row["size_bytes"]) for row in rows),
        }
        assert found | {"leader": counted["leader"]} == counted


def test_the_tool_names_the_same_leaders(capture):
    folder, manifest = capture
    described = parse_topics_describe((folder / "tools/topics-describe.txt").read_text())
    leaders = {state.partition: state.leader_id for state in described.partitions}
    assert leaders == dict(enumerate(manifest["pair"]["leaders"]))
