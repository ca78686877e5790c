"""Traffic that a replay should not be trusted with, or only as far as it says: a topic for each reason, made up.

Every topic keeps its row: a prediction with what it takes for granted, or why there is none.
"""

import pytest

from pipeline.config_file import load_config
from pipeline.jobs import ingest, replay
from pipeline.model.window import TimeWindow, format_instant
from pipeline.storage.window_status import trust_windows
from tests.batches import make_batch, make_records
from tests.config_files import write_configuration
from tests.engines import sail
from tests.spark.awkward_traffic import SECONDS, START_MS, make_topics, write_brokers, write_scrapes
from tests.spark.capture_runs import make_secret, plan, stored

END_MS = START_MS + SECONDS * 1000
# Topic: whether its back-test may be trusted (None: either), a part of what `trust` says, a part of what it assumes.
SAID = {
    "plain": (None, "", ""),
    "no-producer-ids": (None, "", "no producer ids: all producers of the topic are replayed as one"),
    "log-append-time": (False, "LogAppendTime: when its records were sent is lost", ""),
    "compacted": (False, "the window is incomplete: ", ""),
    "late-start": (False, "begin", ""),
    "hole": (None, "", "minute"),
    "times-far-off": (False, "timestamps are far off", ""),
    "one-partition": (None, "", "one partition"),
    "moved": (None, "", "were elected in the window"),
    "aborted": (None, "", "aborted transactions"),
    "empty": (False, "no record", ""),
    "right-metrics": (None, "", ""),
    "metrics-of-other-bytes": (False, "metrics contradict the log: a producer's bytes differ by", ""),
    "metrics-of-another-hour": (None, "", "a producer without metrics"),
}


@pytest.fixture(scope="module")
def back_tests(tmp_path_factory):
    """Of every topic, by topic."""
    folder = tmp_path_factory.mktemp("awkward")
    write_brokers(folder, make_topics())
    sources = [
        {"kind": "log_directories", "paths": ["brokers"]},
        {"kind": "producer_metrics", "path": str(write_scrapes(folder / "scrapes"))},
    ]
    make_secret(folder)
    path = write_configuration(
        folder,
        {"demo": {"as_of": format_instant(END_MS + 1), "sources": sources}},
        window=f"PT{SECONDS}S",
        candidates=[{"name": "uniform", "partitioner": "java-builtin-uniform"}],
        replay={"seeds": 3},
    )
    context = plan(load_config(path), TimeWindow(START_MS, END_MS))
    ingest.run(sail(), context)
    trust_windows(context.warehouse, context.cluster_name, context.windows)
    replay.run(sail(), context, context.windows)
    comparison = stored(context.warehouse, "gold.scenario_comparison")
    tested = {row["topic"]: row for row in stored(context.warehouse, "gold.back_tests")}
    return {topic: (row, [other for other in comparison if other["topic"] == topic]) for topic, row in tested.items()}


def test_every_topic_has_a_row(back_tests):
    """None is left out silently."""
    assert back_tests.keys() == SAID.keys()


@pytest.mark.parametrize("topic", SAID)
def test_a_doubt_is_said(back_tests, topic):
    """In `trust`, or in `assumptions` where the prediction may still hold."""
    is_trusted, reason, assumption = SAID[topic]
    row, candidates = back_tests[topic]
    assert row["trust"] == "trusted" or row["trust"].startswith("not trustworthy: ")
    assert row["is_trusted"] == (row["trust"] == "trusted")
    assert is_trusted is None or row["is_trusted"] == is_trusted, row
    assert reason in row["trust"], row
    assert assumption in row["assumptions"], row
    assert not row["is_trusted"] or row["seed_count"] > 0, row
    assert {candidate["candidate"] for candidate in candidates} == {"in-use", "uniform"}
    for candidate in candidates:
        assert candidate["trust"] == "trusted" or candidate["trust"].startswith("not trustworthy: ")
        assert is_trusted is not False or candidate["trust"] != "trusted", candidate
        assert assumption in candidate["assumptions"], candidate


def test_metrics_that_fit_are_not_doubted(back_tests):
    """The one producer whose metrics are right."""
    row, _ = back_tests["right-metrics"]
    assert "metrics" not in row["trust"] + row["assumptions"]


def test_a_partition_on_a_disk_whose_owner_is_unknown_is_one_without_a_leader(tmp_path):
    """A host may write any number into its `meta.properties`: its traffic was more than its topic's partitions had."""
    for number, node in enumerate((1, 2, -7)):
        partition = tmp_path / f"brokers/b{number}/orders-{number}"
        partition.mkdir(parents=True)
        (partition.parent / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=c\n")
        (partition / "partition.metadata").write_text("version: 0\ntopic_id: gDY-1ROJSyK2s_UOjvrR2g")
        batches = (make_records(5, base_offset=5 * n, start_ms=START_MS + n * 1000) for n in range(20))
        (partition / f"{0:020d}.log").write_bytes(b"".join(map(make_batch, batches)))
    make_secret(tmp_path)
    sources = [{"kind": "log_directories", "paths": ["brokers"]}]
    path = write_configuration(
        tmp_path,
        {"demo": {"as_of": format_instant(END_MS + 1), "sources": sources}},
        window=f"PT{SECONDS}S",
        replay={"seeds": 3},
    )
    context = plan(load_config(path), TimeWindow(START_MS, END_MS))
    ingest.run(sail(), context)
    trust_windows(context.warehouse, context.cluster_name, context.windows)
    begun = []
    replay.run(sail(), context, context.windows, begun.append)
    assert begun == ["keys", "sessions", "candidates"]
    assert {row["baseline_partition_count"] for row in stored(context.warehouse, "gold.scenario_comparison")} == {3}
    leaders = {row["partition"]: row["leader_id"] for row in stored(context.warehouse, "gold.replay_results")}
    assert leaders == {0: 1, 1: 2, 2: -1}
