"""Clusters in which one broker is hot only because more of many equal keys hash to it: one mail, which says so.

Keys are placed by CRC32 as librdkafka does; `first` picks names whose places are uneven within what chance gives. Two clusters are
planted as ingest leaves them: traffic, keys, leaders and brokers of four minutes; one of them as its brokers' disks hold it too,
for `partition-health run`. Oracle: counts of the keys here.
"""

import dataclasses
import zlib
from collections import Counter

import pytest

from pipeline.cli import main
from pipeline.config.mail import Mail
from pipeline.errors import HealthGateError
from pipeline.jobs import judge_health, measure_rules, raise_incidents, score_health
from pipeline.model.log import Record
from pipeline.model.window import TimeWindow, format_instant
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.batches import START_MS, make_batch
from tests.config_files import write_configuration
from tests.engines import sail
from tests.gates.examples import status
from tests.gates.rows import at, gate_run, rows_of
from tests.mail_parts import read_mail, text_of

RECORDS, RECORD_BYTES, MINUTES = 100, 100, 4


@dataclasses.dataclass(frozen=True)
class Planted:
    """So many equal keys over partitions that brokers lead in turn."""

    broker_count: int
    partition_count: int
    key_count: int
    first: int

    @property
    def partitions(self):
        return [zlib.crc32(f"key-{self.first + key}".encode()) % self.partition_count for key in range(self.key_count)]

    @property
    def keys_of_broker(self):
        return Counter(partition % self.broker_count for partition in self.partitions)

    @property
    def hot(self):
        """The broker with most keys, and its share ratio."""
        broker, count = self.keys_of_broker.most_common(1)[0]
        return broker, count * self.broker_count / self.key_count


def find_uneven(broker_count, partition_count, key_count):
    """The first names of keys that put one broker, and no other, a little above the limit."""
    for first in range(0, 10**6, key_count):
        planted = Planted(broker_count, partition_count, key_count, first)
        ratios = sorted(count * broker_count / key_count for count in planted.keys_of_broker.values())
        if 1.22 <= ratios[-1] <= 1.26 and ratios[-2] < 1.1:
            return planted
    raise AssertionError("no such names")


CAPTURES = {"three brokers": (3, 12, 300), "five brokers": (5, 20, 500)}


def plant(run, planted):
    """The tables as `ingest` and its data gate leave them."""
    windows = run.windows[:MINUTES]
    partitions = planted.partitions
    held = Counter(partitions)
    rows = {table: [] for table in (PARTITION_TRAFFIC, KEY_TRAFFIC, CLUSTER_STATE, BROKERS, WINDOW_STATUS)}
    state = {"is_leader": True, "is_in_sync": True, "reassignment": None, "configs": {}}
    for minute in range(MINUTES):
        head = {"cluster": run.cluster_name, "window_start": at(minute)}
        for partition in range(planted.partition_count):
            count = held[partition] * RECORDS
            leader = partition % planted.broker_count
            of = {**head, "topic": "orders", "topic_id": "", "partition": partition, "leader_id": leader}
            sums = {"size_bytes": count * RECORD_BYTES, "batch_bytes_squared": float(count * RECORD_BYTES**2)}
            sums |= {"record_count": count, "batch_count": count, "count_kind": "exact", "sampling_rate": 1.0}
            rows[PARTITION_TRAFFIC].append(of | sums)
            rows[CLUSTER_STATE].append(of | state | {"replica_id": leader})
        for key, partition in enumerate(partitions):
            of = {**head, "topic": "orders", "topic_id": "", "partition": partition, "kind": "key"}
            sums = {"record_count": RECORDS, "size_bytes": RECORDS * RECORD_BYTES}
            rows[KEY_TRAFFIC].append(of | sums | {"key_id": f"{key:08x}{0:024x}"})
        rows[BROKERS] += [{**head, "broker_id": broker} for broker in range(planted.broker_count)]
        whole = status(minute, expected_count=1, arrived_count=1, newest_at=at(MINUTES), as_of=at(MINUTES))
        rows[WINDOW_STATUS].append(whole | head | {"is_trusted": True})
    for table, found in rows.items():
        run.replace(table, rows_of(table.name, found), windows)
    return windows


def judge(run, windows):
    score_health.run(sail(), run, windows)
    measure_rules.run(run, windows)
    raise_incidents.run(run, judge_health.run(run, windows))
    return run.rows(INCIDENTS), run.rows(ALERT_OUTBOX)


@pytest.fixture
def run(tmp_path):
    context = gate_run(tmp_path)
    mail = Mail(to=["kafka-platform@example.org"])
    return dataclasses.replace(context, config=context.config.model_copy(update={"mail": mail}), notify=True)


@pytest.mark.parametrize("shape", CAPTURES.values(), ids=CAPTURES)
def test_a_broker_hot_by_hash_luck_gives_one_mail_that_says_so(run, shape):
    planted = find_uneven(*shape)
    incidents, outbox = judge(run, plant(run, planted))
    assert [(row["subject"], row["state"]) for row in incidents] == [(f"broker {planted.hot[0]}", "new")]
    (queued,) = outbox
    says_so(queued["payload"], planted)


def says_so(payload, planted):
    """The mail names cause, partitions with the bytes that luck brings them, and what to do."""
    broker, ratio = planted.hot
    message = read_mail(payload)
    text = " ".join(text_of(message).split())
    assert f"({ratio:.2f}x, limit 1.20x)" in " ".join(str(message["Subject"]).split())
    assert "Why by chance many keys hash to its partitions, most in topic orders" in text
    assert "It is hot by hash luck: without hash luck it would be at 1.00x, below the limit of 1.20x." in text
    held = Counter(planted.partitions)
    mean = planted.key_count / planted.partition_count
    lucky = {p for p, count in held.items() if p % planted.broker_count == broker and count > mean}
    for partition in lucky:
        assert f"orders-{partition} (+" in text
    assert "Keys that happen to hash together bring" in text
    assert "Move one of these partitions to a broker with room" in text


def write_disks(folder, planted, start_ms, minutes):
    """The log directories of its brokers, and what `kafka-topics --describe` says: 20 records of each key in a minute."""
    described = ["Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 0\tReplicationFactor: 1\tConfigs: "]
    for partition in range(planted.partition_count):
        broker = partition % planted.broker_count
        described.append(
            f"\tTopic: orders\tPartition: {partition}\tLeader: {broker}\tReplicas: {broker}\tIsr: {broker}"
        )
        keys = [b"key-%d" % (planted.first + key) for key, own in enumerate(planted.partitions) if own == partition]
        log = folder / f"brokers/{broker}/orders-{partition}"
        log.mkdir(parents=True)
        log.joinpath("partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
        log.joinpath("leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        log.parent.joinpath("meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=disks\n")
        starts_ms = [start_ms + 3_000 * turn for turn in range(20 * minutes)]
        sent = [(at_ms + 2_500 * n // len(keys), key) for at_ms in starts_ms for n, key in enumerate(keys)]
        records = (
            Record(offset=n, timestamp_ms=at_ms, key=key, value=b"v" * 400) for n, (at_ms, key) in enumerate(sent)
        )
        log.joinpath(f"{0:020d}.log").write_bytes(b"".join(make_batch([record]) for record in records))
    (folder / "topics.txt").write_text("\n".join([*described, ""]))


def test_a_run_over_the_disks_of_such_a_cluster_leaves_the_same_mail(tmp_path, capsys):
    planted = find_uneven(*CAPTURES["three brokers"])
    span = TimeWindow(START_MS - START_MS % 60_000, START_MS - START_MS % 60_000 + 120_000)
    write_disks(tmp_path, planted, span.start_ms, minutes=2)
    cluster = {
        "as_of": format_instant(span.end_ms),
        "gate": {"k": 2, "n": 2},
        "sources": [
            {"kind": "log_directories", "paths": [str(tmp_path / "brokers")]},
            {"kind": "topics_describe", "path": str(tmp_path / "topics.txt")},
        ],
    }
    settings = {"window": "PT1M", "mail": {"to": ["a@example.org"]}, "candidates": [], "replay": {"arrivals": False}}
    config = write_configuration(tmp_path, {"prod": cluster}, **settings)
    assert main(("run", "--config", str(config), "--window", str(span), "--notify")) == HealthGateError.exit_code
    assert f"broker {planted.hot[0]}: " in capsys.readouterr().out
    (mail,) = (tmp_path / "outbox").glob("*.eml")
    says_so(mail.read_bytes(), planted)


def test_a_gate_that_excuses_hash_luck_sends_none(run):
    gate = run.cluster.gate.model_copy(update={"hash_luck": "warn"})
    clusters = {run.cluster_name: run.cluster.model_copy(update={"gate": gate})}
    run = dataclasses.replace(run, config=run.config.model_copy(update={"clusters": clusters}))
    assert judge(run, plant(run, find_uneven(*CAPTURES["three brokers"]))) == ([], [])
