"""Windows of a real cluster that are judged late, a broker killed and restarted among them: one incident keeps its id.

Oracle: what was produced (broker 1 leads the hot partitions in minutes 1 to 4), and the mails as a reader has them.

Records are stamped with minutes that are over, so that nobody waits for windows to pass.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from tests.config_files import write_configuration
from tests.integration.live.runs import wait_for_checkpoints, wait_until
from tests.integration.test_leaders_moved import now_minute
from tests.lab.cluster import run_tool, start_cluster
from tests.lab.live_traffic import MINUTE_MS
from tests.lab.process import PATIENCE_S
from tests.mail_parts import read_mail, text_of
from tests.spark.capture_runs import stored
from tests.table_rows import take_all

TOPIC, ASSIGNMENT = "orders", "1:0:2,0:2:1,2:1:0,1:2:0,0:1:2,2:0:1"
RECORDS = 6_000
HOT = range(1, 5)
KILLED_MINUTE, DEAD = 2, 0
EVEN, CROWDED = (0, 1, 2, 3, 4, 5), (0, 3, 0, 3, 0, 3, 1, 2)


class Cluster:
    """The cluster and the pipeline's runs over it."""

    def __init__(self, cluster, folder):
        self.cluster, self.start_ms = cluster, now_minute() - 10 * MINUTE_MS
        disks = {"kind": "log_directories", "paths": [str(broker.log_directory) for broker in cluster.brokers]}
        lab = {"sources": [disks], "topics": [TOPIC], "freshness": "P1D", "gate": {"k": 2, "n": 2, "limit_ratio": 1.25}}
        off = {"keys": {"mode": "off"}, "replay": {"arrivals": False}}
        self.path = write_configuration(folder, {"lab": lab}, window="PT1M", **off)
        self.config = load_config(self.path)

    def produce(self, minute):
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "batch.num.messages": 3})
        partitions = CROWDED if minute in HOT else EVEN
        for number in range(RECORDS):
            stamp = self.start_ms + minute * MINUTE_MS + number * MINUTE_MS // RECORDS
            partition = partitions[number // 3 % len(partitions)]
            producer.produce(TOPIC, bytes(300), partition=partition, timestamp=stamp)
        assert producer.flush(PATIENCE_S) == 0

    def judge(self, first, last):
        """All steps over some minutes, a few after the last; then mails leave."""
        span = TimeWindow(self.start_ms + first * MINUTE_MS, self.start_ms + (last + 1) * MINUTE_MS)
        now_ms = now_minute() + MINUTE_MS
        runs = plan_runs(self.config, span, run_id=f"{first}-{last}", now_ms=now_ms)

        take_all(runs)
        deliver_alerts.run(self.config, None, now_ms=now_ms)

    def incidents(self):
        rows = [row for row in stored(self.config.warehouse, "gold.incidents") if row["rule"] == "broker_share"]
        return [(row["incident_id"], row["state"]) for row in sorted(rows, key=lambda row: row["window_start"])]

    def mails(self):
        """State, incident, text and files of the mails about a broker's share, in the order in which they left."""
        paths = sorted(self.config.outbox.glob("*.eml"), key=lambda path: path.stat().st_mtime_ns)
        read = [read_mail(path.read_bytes()) for path in paths]
        return [mail for mail in read if "broker 1" in mail["Subject"].lower()]

    def command(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *arguments, "--config", str(self.path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


def in_sync(cluster):
    address = f"127.0.0.1:{cluster.brokers[1].internal_port}"
    text = run_tool(
        "kafka-topics", "--bootstrap-server", address, "--describe", "--topic", TOPIC, artifacts=cluster.artifacts
    )
    return [len(found.split(",")) for found in re.findall(r"Isr: (\S+)", text)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """What was there after each run: minutes 3 and 4 first, then 1 and 2, then 5 and 6."""
    folder = tmp_path_factory.mktemp("late")
    auto = {"auto.leader.rebalance.enable": "false"}
    with start_cluster(folder / "cluster", 3, controller_settings=auto, is_brief=True) as cluster:
        cluster.create_topic(TOPIC, ASSIGNMENT)
        lab = Cluster(cluster, folder)
        for minute in range(KILLED_MINUTE):
            lab.produce(minute)
        cluster.kill_broker(DEAD)
        lab.produce(KILLED_MINUTE)
        cluster.start_broker(DEAD)
        wait_until(lambda: in_sync(cluster) == [3] * 6, "in-sync replicas")
        cluster.run_tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
        for minute in range(KILLED_MINUTE + 1, 7):
            lab.produce(minute)
        wait_for_checkpoints(cluster, topics=(TOPIC,))
        seen = []
        for first, last in ((3, 4), (1, 2), (1, 4), (5, 6)):
            lab.judge(first, last)
            seen.append(
                (
                    lab.incidents(),
                    [(m["X-Partition-Health-State"], m["X-Partition-Health-Incident"]) for m in lab.mails()],
                )
            )
        yield lab, seen


def test_late_windows_leave_the_id_as_it_was(walked):
    _, seen = walked
    ((first, state),) = seen[0][0]
    assert state == "new"
    assert {incident for rows, _ in seen for incident, _ in rows} == {first}
    assert {incident for _, mails in seen for _, incident in mails} == {first}


def test_a_mail_of_each_change_left_and_none_twice(walked):
    _, seen = walked
    states = [[state for state, _ in mails] for _, mails in seen]
    assert states[0] == ["new"]
    assert states[1] == states[2]  # judged again, nothing is new
    assert len(states[1]) <= 2  # that it began earlier is said once at most
    assert states[3] == [*states[2], "resolved"]


def test_every_mail_has_its_report(walked):
    lab, _ = walked
    for mail in lab.mails():
        for place in re.findall(r"(/\S+\.html)", text_of(mail)):
            assert Path(place).is_file()
        assert [part.get_filename() for part in mail.iter_attachments() if part.get_filename() == "report.html"]


def test_the_incident_began_in_the_late_window(walked):
    lab, _ = walked
    *_, resolved = lab.mails()
    began = min(row["since"] for row in stored(lab.config.warehouse, "gold.incidents", "since"))
    assert int(began.timestamp() * 1000) == lab.start_ms + HOT[0] * MINUTE_MS
    assert f"{began:%H:%M}" in text_of(resolved)


def test_its_id_can_be_muted_and_no_other(walked):
    lab, seen = walked
    incident = seen[0][0][0][0]
    code, said = lab.command("mute", incident, "--until", "2099-01-01T00:00:00Z", "--reason", "known")
    assert (code, incident in said) == (0, True), said
    code, said = lab.command(
        "mute", f"{incident}0", "--until", "2099-01-01T00:00:00Z", "--reason", "known", "--by", "us"
    )
    assert code != 0, json.dumps(said)
