"""One of three brokers answers with lies. Oracle: the same cluster read while all of them tell the truth.

What a broker says of its own log's ends cannot be told from the truth (docs/SECURITY.md); all else either is as it was, or named.
"""

import time
from collections import Counter
from types import SimpleNamespace

import pytest

from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from tests.config_files import write_configuration
from tests.engines import sail
from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import MINUTE_MS, MINUTES, TOPICS, create_topics, past_minutes, produce
from tests.lab.lying_broker import ANSWERED, LIAR, LIES, be_everybody, lying_broker
from tests.lab.process import free_ports
from tests.spark.capture_runs import stored

LIST_OFFSETS, METADATA = 2, 3
LONGEST_S = 300
"""With all its time-outs a run takes half a minute; dripped to its end, one answer takes many minutes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three brokers, of which one is behind a port of its own."""
    listening, (port,) = free_ports(3), free_ports(1)
    advertised = [port if node_id == LIAR else own for node_id, own in enumerate(listening)]
    root = tmp_path_factory.mktemp("lying")
    with start_cluster(root, 3, client_ports=listening, advertised_ports=advertised, is_brief=True) as kafka:
        with lying_broker(port, listening[LIAR], 0, truth=1.0):
            create_topics(kafka)
            start_ms = past_minutes()
            produce(kafka.bootstrap, start_ms)
            sound = read_cluster(tmp_path_factory.mktemp("sound"), listening[:1], start_ms)
        yield SimpleNamespace(
            port=port, behind=listening[LIAR], honest=[listening[0], listening[2]], start_ms=start_ms, sound=sound
        )


def read_cluster(folder, ports, start_ms):
    """Records by topic, partition and window; and everything said to be wrong."""
    source = {"kind": "live_cluster", "bootstrap_servers": [f"127.0.0.1:{port}" for port in ports]}
    source |= {"connect_timeout": "PT3S", "request_timeout": "PT4S", "read_timeout": "PT6S"}
    clusters = {"c": {"sources": [source], "topics": list(TOPICS)}}
    config = load_config(write_configuration(folder, clusters, window="PT1M", keys={"secret": "secret"}))
    span = TimeWindow(start_ms, start_ms + MINUTES * MINUTE_MS)
    (run,) = plan_runs(config, span, run_id="lying", now_ms=time.time_ns() // 1_000_000)
    ingest.run(sail(), run)
    counts = Counter()
    for row in stored(run.warehouse, "silver.partition_traffic"):
        counts[row["topic"], row["partition"], row["window_start"]] += row["record_count"]
    wrong = [f"{row['path']}: {row['reason']}" for row in stored(run.warehouse, "bronze.quarantine")]
    return counts, wrong


def is_led_by_liar(topic, partition):
    return int(TOPICS[topic].split(",")[partition].partition(":")[0]) == LIAR


@pytest.mark.parametrize(
    "answered", [(1,), tuple(key for key in ANSWERED if key != LIST_OFFSETS)], ids=["fetch", "all"]
)
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lying_broker_speaks_for_itself_only(cluster, lie, answered, tmp_path):
    """Answers about the cluster may come from it: then what others led may be missing, too, and is named."""
    began_s = time.monotonic()
    with lying_broker(cluster.port, cluster.behind, 7, lies=(lie,), answered=answered, truth=0.3) as told:
        counts, wrong = read_cluster(tmp_path, cluster.honest[:1], cluster.start_ms)
    assert told
    assert time.monotonic() - began_s < LONGEST_S
    assert all(reason.isprintable() for reason in wrong)
    unlike = {
        (topic, partition)
        for topic, partition, at in cluster.sound[0] | counts
        if counts[topic, partition, at] != cluster.sound[0][topic, partition, at]
    }
    if answered == (1,):
        assert {key for key in unlike if not is_led_by_liar(*key)} == set(), (told, wrong)
    unnamed = [f"{topic}-{partition}" for topic, partition in unlike if f"{topic}-{partition}:" not in "\n".join(wrong)]
    assert unnamed == [], (told, wrong)


@pytest.mark.parametrize("order", ["liar first", "liar last"])
def test_a_broker_is_no_other_and_leads_nothing_of_others(cluster, order, tmp_path):
    ports = [cluster.port, *cluster.honest] if order == "liar first" else [*cluster.honest, cluster.port]
    with lying_broker(cluster.port, cluster.behind, 7, lies=(be_everybody,), answered=(METADATA,), truth=0.0) as told:
        counts, wrong = read_cluster(tmp_path, ports, cluster.start_ms)
    assert told
    assert counts == cluster.sound[0], wrong
    (reason,) = set(wrong) - set(cluster.sound[1])
    assert f"127.0.0.1:{cluster.port} contradicts most brokers about the addresses or leaders of broker 0" in reason


def test_of_two_addresses_neither_outvotes_the_other(cluster, tmp_path):
    """What the broker leads by both is read, the rest is missing and named: no window is whole."""
    ports = [cluster.port, cluster.honest[0]]
    with lying_broker(cluster.port, cluster.behind, 7, lies=(be_everybody,), answered=(METADATA,), truth=0.0):
        counts, wrong = read_cluster(tmp_path, ports, cluster.start_ms)
    assert {key: count for key, count in counts.items() if count != cluster.sound[0][key]} == {}
    missing = {(topic, partition) for topic, partition, _ in cluster.sound[0]} - {key[:2] for key in counts}
    unnamed = [
        f"{topic}-{partition}" for topic, partition in missing if f"{topic}-{partition}:" not in "\n".join(wrong)
    ]
    assert unnamed == [], wrong
