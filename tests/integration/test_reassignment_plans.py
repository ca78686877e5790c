"""Plans carried out on a real cluster with Kafka's own tools: the files attached to a mail, by the commands it shows.

The cluster is made skewed: broker 1 leads most of what is written. Oracle: the brokers afterwards, and the bytes they lead.
"""

import json
import re
import shlex
import time

import pytest
from confluent_kafka import Producer

from pipeline.advice.following import HotBroker
from pipeline.advice.recommendations import recommend
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts, ingest, judge_health, raise_incidents, score_health
from pipeline.jobs import recommend as recommend_job
from pipeline.model.placement import PlacementBroker
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.storage.window_status import trust_windows
from tests.config_files import write_configuration
from tests.integration.live.runs import wait_for_checkpoints
from tests.lab.cluster import WRITES_ONLY_CHANGES, run_tool, start_cluster
from tests.lab.live_traffic import MINUTE_MS, coming_minutes
from tests.lab.process import PATIENCE_S
from tests.mail_parts import read_mail, text_of
from tests.placements import place
from tests.unit.alerting.examples import new_evidence

TARGET = 1.1
BROKERS = [PlacementBroker(broker_id=number, rack=f"rack-{number}") for number in range(3)]
ASSIGNMENT = {
    "orders": [(1, 0), (1, 2), (1, 0), (1, 2), (0, 1), (2, 0)],
    "single": [(1,)] * 6 + [(0,), (2,)],  # whoever leads orders, broker 1 has 600 of 1,400
}
RECORDS = {"orders": 200, "single": 200}
VALUE = bytes(512)
BROKER_THEN = re.compile(r"broker (\d) .* ([\d.]+) %$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three brokers; nothing elects leaders unasked."""
    unasked = {"auto.leader.rebalance.enable": "false", **WRITES_ONLY_CHANGES}
    with start_cluster(
        tmp_path_factory.mktemp("plans"),
        3,
        settings={"num.replica.fetchers": "1"},
        controller_settings=unasked,
        is_brief=True,
    ) as running:
        for topic, replicas in ASSIGNMENT.items():
            running.create_topic(topic, ",".join(":".join(map(str, held)) for held in replicas))
        yield running


def produce(cluster, start_ms):
    """The same number of records to every partition of a topic, a batch each, spread over a minute."""
    settings = {"linger.ms": 0, "batch.num.messages": 1, "compression.type": "none"}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for topic, count in RECORDS.items():
        for partition in range(len(ASSIGNMENT[topic])):
            for number in range(count):
                stamp = start_ms + number * MINUTE_MS // count
                producer.produce(topic, VALUE, partition=partition, timestamp=stamp)
    assert producer.flush(PATIENCE_S) == 0


def described(cluster):
    """Leader and replicas by topic and partition, from the tool's text."""
    text = cluster.run_tool("kafka-topics", "--describe")
    rows = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)", text)
    ids = lambda listed: tuple(int(broker_id) for broker_id in listed.split(","))  # noqa: E731
    return {
        (t, int(p)): (int(leader), ids(replicas), ids(isr)) for t, p, leader, replicas, isr in rows if t in ASSIGNMENT
    }


def placed(cluster):
    """Partitions as the planner takes them; every record is as large as another."""
    sizes = {topic: {"load": count * 1_000, "size": count * 1_000} for topic, count in RECORDS.items()}
    return [
        place(number, replicas, topic=topic, leader=leader_id, in_sync=isr, **sizes[topic])
        for (topic, number), (leader_id, replicas, isr) in sorted(described(cluster).items())
    ]


def carried(cluster, start_ms):
    """Share of every broker in what is written now, by how far end offsets grow: all records are alike."""
    before = end_offsets(cluster)
    produce(cluster, start_ms)
    loads, now = dict.fromkeys(range(3), 0), end_offsets(cluster)
    for key, (leader_id, _, _) in described(cluster).items():
        loads[leader_id] += now[key] - before[key]
    return {broker_id: load / sum(loads.values()) for broker_id, load in loads.items()}


def end_offsets(cluster):
    found = {}
    for line in cluster.run_tool("kafka-get-offsets", "--topic", "|".join(ASSIGNMENT)).splitlines():
        name, number, offset = line.rsplit(":", 2)
        found[name, int(number)] = int(offset)
    return found


def carry_out(cluster, folder, files, commands):
    """What a mail says: its files in a folder, its commands one by one, `--verify` until all is complete.

    Checks that every partition lies and is led as the files say afterwards, and that no other has changed.
    """
    before = described(cluster)
    for name, text in files.items():
        (folder / name).write_text(text)
    wanted = replicas_of(files["reassignment.json"])
    execute, verify, elect = (as_run(line, cluster, folder) for line in commands)
    said = run_tool(*execute, artifacts=cluster.artifacts)
    assert "Successfully started partition reassignment" in said
    # what the tool prints for a rollback is what we hand over for one
    printed = next(line for line in said.splitlines() if line.startswith('{"version"'))
    assert replicas_of(printed) == replicas_of(files["rollback.json"])
    deadline = time.monotonic() + PATIENCE_S
    while (said := run_tool(*verify, artifacts=cluster.artifacts)).count("is completed.") < len(wanted):
        assert time.monotonic() < deadline, said
    said = run_tool(*elect, artifacts=cluster.artifacts)
    assert "Successfully completed" in said or "Valid replica already elected" in said
    after = described(cluster)
    assert {key: (after[key][0], after[key][1]) for key in wanted} == {
        key: (replicas[0], replicas) for key, replicas in wanted.items()
    }
    assert all(set(isr) == set(replicas) for _, replicas, isr in after.values())
    assert {key: row for key, row in after.items() if key not in wanted} == {
        key: row for key, row in before.items() if key not in wanted
    }


def replicas_of(text):
    return {(p["topic"], p["partition"]): tuple(p["replicas"]) for p in json.loads(text)["partitions"]}


def as_run(line, cluster, folder):
    """A command as somebody pastes it, in the folder that holds the files."""
    words = shlex.split(line.replace("$BOOTSTRAP", cluster.internal_bootstrap))
    return [str(folder / word) if (folder / word).is_file() else word for word in words]


def test_handing_over_leaders_verifies_and_brings_the_shares_where_it_said(cluster, tmp_path):
    hot = HotBroker(broker_id=1, window_start_ms=0, share_ratio=3 * 10 / 14, target_ratio=TARGET, load_follows=False)
    leaders = [r for r in recommend(hot, placed(cluster), BROKERS, ()) if r.action == "move_leaders"]
    assert leaders[0].moved_bytes == 0
    content = describe_broker_share(new_evidence(recommendations=tuple(leaders)))
    files = {file.name: file.text for file in content.attachments}
    (how,) = (section for section in content.sections if section.title.startswith("How to "))
    carry_out(cluster, tmp_path, files, how.code.splitlines())
    shares = carried(cluster, coming_minutes())
    assert {broker: 3 * share for broker, share in shares.items()} == pytest.approx(leaders[0].broker_ratios, abs=0.01)


@pytest.fixture
def mail(spark, cluster, tmp_path):
    """The one mail about a minute of traffic that this cluster got: read, judged and told by the pipeline."""
    start_ms = coming_minutes() + MINUTE_MS  # no other traffic is stamped so late
    produce(cluster, start_ms)
    wait_for_checkpoints(cluster)
    disks = {"kind": "log_directories", "paths": [str(broker.log_directory) for broker in cluster.brokers]}
    lab = {"sources": [disks], "topics": list(ASSIGNMENT), "gate": {"k": 1, "n": 1}}
    path = write_configuration(tmp_path, {"lab": lab}, window="PT1M", keys={"secret": "secret"})
    config, window = load_config(path), TimeWindow(start_ms, start_ms + MINUTE_MS)
    (context,) = plan_runs(config, window, run_id="test", now_ms=window.end_ms + MINUTE_MS)
    ingest.run(spark, context)
    trust_windows(context.warehouse, context.cluster_name, context.windows)
    score_health.run(spark, context, context.windows)
    recommend_job.run(context, context.windows)
    raise_incidents.run(context, judge_health.run(context, context.windows))
    deliver_alerts.run(config, None, now_ms=context.now_ms)
    (written,) = config.outbox.glob("*.eml")
    return read_mail(written.read_bytes())


def test_a_plan_from_a_mail_verifies_and_brings_the_shares_where_the_mail_said(cluster, mail, tmp_path):
    assert mail["Subject"].startswith("[FAIL] lab broker 1 carries ")
    text = text_of(mail)
    files = {part.get_filename(): part.get_payload(decode=True).decode() for part in mail.iter_attachments()}
    folder = tmp_path / "downloads"
    folder.mkdir()
    carry_out(cluster, folder, files, [line for line in text.splitlines() if line.startswith("kafka-")])
    _, _, then = text.partition("after action 1")
    predicted = {int(broker_id): float(percent) / 100 for broker_id, percent in BROKER_THEN.findall(then)}
    assert sorted(predicted) == [0, 1, 2]
    assert max(predicted.values()) <= TARGET / 3
    assert carried(cluster, coming_minutes()) == pytest.approx(predicted, abs=0.005)
