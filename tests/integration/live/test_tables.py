"""Tables filled from a running cluster. Oracle: those filled from the same cluster's log directories."""

import email
import time

import pytest

from expectations import gates
from expectations.gates import check_health
from pipeline.jobs import ingest, judge_health, raise_incidents, score_health
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.sources.live.connection import connect
from pipeline.sources.live.plan import choose_slices, plan_fetches
from pipeline.sources.live.state import read_live_state
from pipeline.verdicts.rules import describe_verdicts
from tests.integration.live.runs import kill_once_talked_to, live_source, rows_of, span_of, wait_until, write_config
from tests.lab.artifacts import BROKER_VERSION
from tests.lab.live_traffic import MINUTE_MS, MINUTES, RECORDS, TOPICS
from tests.lab.process import PATIENCE_S
from tests.spark.capture_runs import stored

PLACES = ("cluster", "lateness_ms", "segment_base_offset", "missing_offset_count")
"""What depends on where a batch was read from."""


NEWEST_ONLY = pytest.mark.parametrize("cluster", [BROKER_VERSION], indirect=True, scope="package")
"""For what hangs on Spark and takes a minute: the wire formats are compared on both."""


@pytest.fixture(scope="module")
def ingested(spark, cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    known = {name: (name, {}) for name in ("disks", "both", "live", "offsets")}
    sampled = ("live", {"sampling": {"partitions": 0.5, "time": 0.5}})
    config = write_config(folder, cluster, **known, sampled=sampled)
    for run in plan_runs(config, span_of(cluster), run_id="test", now_ms=span_of(cluster).end_ms + MINUTE_MS):
        ingest.run(spark, run)
        gates.check_ingested(spark, run)
        score_health.run(spark, run, score_health.pending_windows(run))
    return config.warehouse


def is_newest(row, cluster):
    return row["window_start"].timestamp() * 1000 == cluster.start_ms + (MINUTES - 1) * MINUTE_MS


def topics_written_to(ingested):
    """Topics by the windows that have batches of theirs."""
    return {(row["window_start"], row["topic"]) for row in rows_of(ingested, "silver.partition_traffic", "disks")}


def known_to_both(rows, cluster, written):
    """Rows without what depends on topics that were idle, such as how many partitions a broker led."""
    kept = [
        row
        for row in rows
        if is_newest(row, cluster) or "topic" not in row or (row["window_start"], row["topic"]) in written
    ]
    of_idle = ("leader_count", "leaders_term", "topic_mix_term")
    return [
        row if is_newest(row, cluster) else {name: value for name, value in row.items() if name not in of_idle}
        for row in kept
    ]


@NEWEST_ONLY
def test_tables_from_brokers_equal_those_from_their_disks(ingested, cluster):
    """But for topics that were idle: brokers tell that they are there now, not that they were in windows before."""
    written = topics_written_to(ingested)
    tables = ("record_batches", "partition_traffic", "key_traffic", "arrivals")
    for name in (*(f"silver.{table}" for table in tables), "gold.broker_share", "gold.partition_health"):
        volatile = ("position", *PLACES, "max_lateness_ms", "log_directory_count")
        disks, live = (rows_of(ingested, name, source, *volatile) for source in ("disks", "live"))
        assert known_to_both(live, cluster, written) == known_to_both(disks, cluster, written), name
        assert live, name


@NEWEST_ONLY
def test_brokers_complete_disks_and_change_nothing_that_those_know(ingested, cluster):
    for name in ("silver.record_batches", "silver.partition_traffic", "gold.broker_share"):
        assert rows_of(ingested, name, "both") == rows_of(ingested, name, "disks") != []
    replicas = {source: rows_of(ingested, "bronze.cluster_state", source) for source in ("both", "disks")}
    # brokers still write checkpoints of other topics: other tests of this cluster delete records
    settled = {source: [row for row in rows if row["topic"] in TOPICS] for source, rows in replicas.items()}
    assert settled["both"] == settled["disks"] != []
    answered = ("configs", "log_dir_total_bytes", "log_dir_usable_bytes")
    brokers = {source: rows_of(ingested, "bronze.brokers", source) for source in ("both", "disks", "live")}
    known, alone = (
        [{k: v for k, v in row.items() if k not in answered} for row in brokers[source]] for source in ("both", "disks")
    )
    assert known == alone != []
    for row in brokers["both"]:
        assert all(bool(row[name]) == is_newest(row, cluster) for name in answered)
    configs = {
        source: [row["configs"] for row in brokers[source] if is_newest(row, cluster)] for source in ("both", "live")
    }
    assert configs["both"] == configs["live"]


@NEWEST_ONLY
def test_records_by_offsets_and_sizes_are_near(ingested):
    """Exact where nothing but records takes offsets, within 1 % of bytes; transactions make records an upper bound."""
    totals = {}
    for source in ("live", "offsets"):
        for row in rows_of(ingested, "silver.partition_traffic", source):
            records, size = totals.get((source, row["topic"]), (0, 0))
            totals[source, row["topic"]] = (records + row["record_count"], size + row["size_bytes"])
    for topic in ("orders", "packed", "lone"):
        (exact, exact_bytes), (bound, about_bytes) = totals["live", topic], totals["offsets", topic]
        assert bound == exact == RECORDS[topic]
        assert about_bytes == pytest.approx(exact_bytes, rel=0.01)
    assert totals["offsets", "ledger"][0] >= totals["live", "ledger"][0]
    kinds = {row["count_kind"] for row in rows_of(ingested, "silver.partition_traffic", "offsets")}
    assert kinds == {"upper_bound"}
    shares = {
        source: {
            (r["window_start"], r["broker_id"]): r["share"] for r in rows_of(ingested, "gold.broker_share", source)
        }
        for source in ("live", "offsets")
    }
    assert shares["offsets"].keys() == shares["live"].keys()


@NEWEST_ONLY
def test_a_sample_is_the_whole_s_part_in_its_slices_and_says_so(ingested, cluster):
    volatile = ("position", *PLACES)
    whole = rows_of(ingested, "silver.record_batches", "live", *volatile)
    part = rows_of(ingested, "silver.record_batches", "sampled", *volatile)
    starts = (cluster.start_ms + minute * MINUTE_MS for minute in range(MINUTES))
    slices = choose_slices([TimeWindow(start, start + MINUTE_MS) for start in starts], 0.5, cluster="sampled")
    sampled = {(row["topic"], row["partition"]) for row in part}

    def is_in_part(row):
        at_ms = round(row["max_timestamp"].timestamp() * 1000)
        return (row["topic"], row["partition"]) in sampled and any(at_ms in piece for piece in slices)

    assert part == [row for row in whole if is_in_part(row)]
    traffic = {"live": {}, "sampled": {}}
    for source, by_kind in traffic.items():
        for row in rows_of(ingested, "silver.partition_traffic", source):
            by_kind.setdefault(row["sampling_rate"], []).append(row)
    assert traffic["live"].keys() == {1.0}
    read, looked_up = traffic["sampled"][0.5], traffic["sampled"][0.0]
    assert {row["count_kind"] for row in looked_up} == {"upper_bound"}
    chosen = {(row["topic"], row["partition"]) for row in read}
    assert len([key for key in chosen if key[0] == "orders"]) == 3
    assert chosen.isdisjoint((row["topic"], row["partition"]) for row in looked_up)
    told = sum(r["record_count"] for r in traffic["live"][1.0] if (r["topic"], r["partition"]) in chosen)
    assert {row["count_kind"] for row in read} == {"sampled"}
    assert sum(row["record_count"] for row in read) == pytest.approx(told, rel=0.25)  # scaled to the whole
    arrived = rows_of(ingested, "silver.arrivals", "sampled")
    assert {(row["count_kind"], row["sampling_rate"]) for row in arrived} == {("sampled", 0.25)}
    in_part = sum(row["record_count"] for row in part if not row["is_control"])
    assert sum(row["record_count"] for row in arrived) == in_part
    (status,) = {row["missing"] for row in rows_of(ingested, "bronze.window_status", "sampled")}
    assert status is None


@NEWEST_ONLY
def test_the_state_of_the_cluster_is_told(ingested, cluster):
    """Of the window that holds the moment all of it; of the newest one run what changes slowly; of those before only who led
    what was written to."""
    end = instant_of(span_of(cluster).end_ms)
    told = rows_of(ingested, "bronze.cluster_state", "live")
    live, present = ([row for row in told if (row["window_start"] < end) is is_before] for is_before in (True, False))
    disks = {
        (r["window_start"], r["topic"], r["partition"], r["replica_id"]): r
        for r in rows_of(ingested, "bronze.cluster_state", "disks")
    }
    same = ("topic_id", "leader_id", "leader_epoch", "is_leader", "is_preferred_leader")
    observed = ("size_bytes", "log_end_offset")
    of_newest = {(r["topic"], r["partition"], r["replica_id"]): r for r in disks.values() if is_newest(r, cluster)}
    assert present
    for row in present:
        other = of_newest[row["topic"], row["partition"], row["replica_id"]]
        assert {name: row[name] for name in (*observed, "is_in_sync")} == {
            name: other[name] for name in (*observed, "is_in_sync")
        }
    for row in live:
        assert row["is_in_sync"] is None
        other = disks[row["window_start"], row["topic"], row["partition"], row["replica_id"]]
        assert {name: row[name] for name in same} == {name: other[name] for name in same}
        of_then = {name: other[name] for name in observed} if is_newest(row, cluster) else dict.fromkeys(observed)
        assert {name: row[name] for name in observed} == of_then
    written = topics_written_to(ingested)
    assert len(live) == len(known_to_both(disks.values(), cluster, written))
    status = rows_of(ingested, "bronze.window_status", "live")
    assert [(r["arrived_count"], r["missing"]) for r in status] == [(r["expected_count"], None) for r in status]


def planned(cluster, topic):
    """What is to be fetched of a topic's first partition, and what cannot be."""
    now_ms = time.time_ns() // 1_000_000
    with connect(live_source(cluster)) as connection:
        state = read_live_state(connection, topics=[topic])
        return plan_fetches(
            connection, state, [TopicPartition(topic, 0)], span_of(cluster), lateness_ms=0, as_of_ms=now_ms
        )


def planned_without_leader(cluster, topic):
    """As `planned`, once the controller has fenced the killed broker: its session outlasts it by seconds."""
    answers = []

    def is_leaderless():
        answers.append(planned(cluster, topic))
        (unread,) = answers[-1][1]
        return unread.reason == "it has no leader"

    wait_until(is_leaderless, f"leaderless partition of {topic}")
    return answers[-1]


@NEWEST_ONLY
def test_a_broker_killed_mid_run_leaves_the_windows_unjudged_and_is_told(spark, cluster, tmp_path):
    impatient = {"read_timeout": "PT3S", "request_timeout": "PT5S"}
    config = write_config(tmp_path, cluster, live=("live", impatient))
    (run,) = plan_runs(config, span_of(cluster), run_id="killed", now_ms=span_of(cluster).end_ms + MINUTE_MS)
    killing = kill_once_talked_to(cluster, 2)
    try:
        ingest.run(spark, run)
        killing.join(PATIENCE_S)
        assert not killing.is_alive()
        gates.check_ingested(spark, run)
        windows = score_health.pending_windows(run)
        score_health.run(spark, run, windows)
        verdicts = judge_health.run(run, windows)
        health = check_health(run, verdicts)
        raise_incidents.run(run, verdicts)
        reads, (leaderless,) = planned_without_leader(cluster, "lone")  # its first partition is on broker 2 alone
    finally:
        killing.join(PATIENCE_S)
        cluster.start_broker(2)
    assert (reads, leaderless.reason) == ((), "it has no leader")
    assert not health.success
    shares = [v for v in verdicts if v.rule == "broker_share"]
    assert {v.verdict for v in shares} == {"incomplete"}
    assert len({v.window_start_ms for v in shares}) == MINUTES
    (incident,) = stored(config.warehouse, "gold.incidents")
    assert (incident["rule"], incident["subject"], incident["state"]) == ("source_arrival", "live_cluster", "new")
    (queued,) = stored(config.warehouse, "gold.alert_outbox")
    mail = email.message_from_bytes(queued["payload"])
    assert mail["Subject"].startswith("[DATA MISSING] cluster live: source ")
    text = describe_verdicts(verdicts, cluster=run.cluster_name, gate=run.cluster.gate, window_ms=run.window_ms)
    assert "health is not known, data is missing" in text
    assert "healthy, no broker" not in text
