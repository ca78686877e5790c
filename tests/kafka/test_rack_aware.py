"""Kafka 4.4's rack-aware partitioner: the class itself, and producers that use it on brokers in three racks."""

import json
import subprocess
import sys

import pytest

from tests.lab.artifacts import NEWER_BROKER_VERSION, class_path, client_artifacts
from tests.lab.clients import PERF_TOOL, QUIET
from tests.lab.cluster import start_cluster
from tests.lab.process import PATIENCE_S, start_java
from tests.lab.rack_aware.__main__ import ANSWERS, ask_kafka

RACKS = ("a", "b", "c")
LEADERS = (0, 1, 2) * 4
SECONDS = 20
RATES = {"first": ("a", 2_100), "second": ("a", 1_050), "third": ("b", 900)}
"""Rack and records a second of each producer; none is in rack c."""
BATCH_SIZE = "batch.size=1024"  # so small that chance moves a partition's share by 0.3 points: 1.75 are allowed
MOST_OFF = 0.02  # of all bytes


def test_the_real_class_answers_as_committed():
    assert ask_kafka() == ANSWERS.read_text(encoding="ascii")


def start_producer(cluster, client_id, rack, rate_per_s):
    settings = (f"bootstrap.servers={cluster.bootstrap}", f"client.id={client_id}", f"client.rack={rack}", BATCH_SIZE)
    arguments = [
        *(QUIET, "-cp", class_path(client_artifacts(NEWER_BROKER_VERSION)), PERF_TOOL, "--topic", "orders"),
        *("--num-records", str(rate_per_s * SECONDS), "--record-size", "300", "--throughput", str(rate_per_s)),
        *("--command-property", *settings, "partitioner.rack.aware=true"),
    ]
    return start_java(client_id, arguments, cluster.root / "output" / f"{client_id}.out", heap_mb=128)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Bytes of each broker's logs, and the replay of all of them."""
    folder = tmp_path_factory.mktemp("racks")
    candidates = folder / "candidates.yaml"
    candidates.write_text(
        "- {name: plain, partitioner: java-builtin}\n- {name: rack-aware, config: {partitioner.rack.aware: true}}\n"
    )
    with start_cluster(folder / "kafka", 3, version=NEWER_BROKER_VERSION, racks=RACKS, is_brief=True) as cluster:
        cluster.create_topic("orders", ",".join(map(str, LEADERS)))
        processes = [start_producer(cluster, name, *load) for name, load in RATES.items()]
        try:
            for process in processes:
                process.wait(PATIENCE_S)
        finally:
            for process in processes:
                process.stop()
        sizes = [
            sum(log.stat().st_size for log in broker.log_directory.glob("orders-*/*.log")) for broker in cluster.brokers
        ]
        command = [sys.executable, "-m", "pipeline", "replay", cluster.root, "--candidates", candidates, "--seeds", "5"]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return sizes, {row["candidate"]: row for row in json.loads(done.stdout)["results"]}


def test_the_replay_finds_racks_and_shares_of_rack_aware_producers(replayed):
    sizes, results = replayed
    assert sizes[2] == 0 < sizes[1] < sizes[0]
    in_use = results["in-use"]["back_test"]
    assert (in_use["partitioner"], in_use["client"]) == ("java-builtin-rack-aware", "kafka-clients 4.4.0")
    assert in_use["settings"]["client.rack"] == "a (inferred)"  # of the producer that sends most
    for size, broker in zip(sizes, results["in-use"]["brokers"], strict=True):
        assert broker["predicted_bytes_share"]["median"] == pytest.approx(size / sum(sizes), abs=MOST_OFF)
    assert results["in-use"]["trust"] == "trusted"


def test_without_rack_awareness_brokers_would_be_even(replayed):
    """What the cause of the skew is: the same traffic, the same partitioner, without racks."""
    _, results = replayed
    even = [broker["predicted_bytes_share"]["median"] for broker in results["plain"]["brokers"]]
    assert even == pytest.approx([1 / 3] * 3, abs=0.05)


def test_a_candidate_that_is_rack_aware_keeps_the_racks_that_were_found(replayed):
    _, results = replayed
    assert results["rack-aware"]["is_as_in_use"]
