"""Records that bear times of past windows on a real cluster: the broker that takes them is named. Oracle: what was produced.

Minutes are ahead of the clock, so that nobody waits for windows to pass and topics are older than they.
"""

import re

import pytest
from confluent_kafka import Producer

from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.runs import plan_runs
from pipeline.steps import ingest_windows, judge_windows
from tests.config_files import write_configuration
from tests.integration.live.runs import wait_for_checkpoints
from tests.integration.test_leaders_moved import now_minute
from tests.lab.cluster import WRITES_ONLY_CHANGES, start_cluster
from tests.lab.live_traffic import MINUTE_MS
from tests.lab.process import PATIENCE_S
from tests.mail_parts import read_mail, text_of
from tests.spark.capture_runs import stored
from tests.table_rows import take_all

TOPIC, OLD = "orders", "old"
TIMELY, LATE = 3_000, 3_000
MINUTES, LATE_FROM = 5, 1


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Six even partitions on three brokers; from minute 1 on broker 1 takes as much again, stamped ten hours back."""
    folder = tmp_path_factory.mktemp("late-load")
    with start_cluster(folder / "cluster", 3, controller_settings=WRITES_ONLY_CHANGES, is_brief=True) as cluster:
        cluster.create_topic(TOPIC, "1:0,2:1,0:2,1:2,2:0,0:1")
        cluster.create_topic(OLD, "1:0")
        disks = {"kind": "log_directories", "paths": [str(broker.log_directory) for broker in cluster.brokers]}
        live = {"kind": "live_cluster", "bootstrap_servers": cluster.bootstrap, "internal_topics": False}
        off = {"keys": {"mode": "off"}, "replay": {"arrivals": False}}
        clusters = {"disks": {"sources": [disks]}, "live": {"sources": [live]}}
        path = write_configuration(folder, clusters, window="PT1M", **off)
        config, start_ms = load_config(path), now_minute() + 2 * MINUTE_MS
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 3})
        for minute in range(MINUTES):
            for number in range(TIMELY):
                stamp = start_ms + minute * MINUTE_MS + number * MINUTE_MS // TIMELY
                producer.produce(TOPIC, bytes(300), partition=number // 3 % 6, timestamp=stamp)
            for number in range(LATE if minute >= LATE_FROM else 0):
                topic, partition = (OLD, 0) if number < LATE // 2 else (TOPIC, 0)
                producer.produce(topic, bytes(300), partition=partition, timestamp=start_ms - 10 * HOUR_MS + number)
            assert producer.flush(PATIENCE_S) == 0
            wait_for_checkpoints(cluster, topics=(TOPIC, OLD))
            span = TimeWindow(start_ms + minute * MINUTE_MS, start_ms + (minute + 1) * MINUTE_MS)
            now_ms = span.end_ms + 20_000
            runs = plan_runs(config, span, run_id=str(minute), now_ms=now_ms)

            take_all(runs, (ingest_windows, judge_windows))
            deliver_alerts.run(config, None, now_ms=now_ms)
    return config, start_ms


@pytest.mark.parametrize("source", ["disks", "live"])
def test_what_was_late_counts_for_the_broker_that_took_it(judged, source):
    config, start_ms = judged
    rows = stored(config.warehouse, "gold.rule_measures")
    late = {
        (int(row["window_start"].timestamp() * 1000 - start_ms) // MINUTE_MS, row["subject"]): row["value"]
        for row in rows
        if (row["cluster"], row["rule"]) == (source, "late_load")
    }
    # a minute's records are seen a minute later; by logs broker 1 took four of six parts, its fair share is two of them
    expected = {
        (minute, f"broker {n}"): float(n == 1 and minute > LATE_FROM) for minute in range(2, MINUTES) for n in range(3)
    }
    assert late == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("source", ["disks", "live"])
def test_a_mail_names_the_broker_and_what_to_do(judged, source):
    config, _ = judged
    read = [read_mail(path.read_bytes()) for path in config.outbox.glob("*.eml")]
    (mail,) = (mail for mail in read if mail["Subject"].startswith(f"[FAIL] {source} broker 1: a broker takes records"))
    text = " ".join(text_of(mail).split())
    assert "took 2.00x its fair share of the bytes appended" in text
    assert "and 1.00x by record timestamps; most of the difference is in" in text
    assert {"old-0", "orders-0"} <= {*re.findall(r"[a-z]+-0", text)}
    assert "message.timestamp.type=LogAppendTime" in text
