"""Clusters in which one broker is hot only because more of many equal keys hash to it: one mail, which says so.

Two planted captures as ingest leaves them: traffic, keys, leaders and brokers of four minutes. Keys are placed by CRC32 as
librdkafka does; `first` picks names whose places are uneven within what chance gives. Oracle: counts of the keys here.
"""

from __future__ import annotations

import dataclasses
import email
import email.policy
import zlib
from collections import Counter

import pytest

from pipeline.config.mail import Mail
from pipeline.jobs import judge_health, measure_rules, raise_incidents, score_health
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.gates.rows import at, gate_run, rows_of
from tests.mail_parts import attached

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
    for minute in range(MINUTES):
        head = {"cluster": run.cluster_name, "window_start": at(minute)}
        for partition in range(planted.partition_count):
            count = held[partition] * RECORDS
            of = {**head, "topic": "orders", "topic_id": "", "partition": partition}
            leader = partition % planted.broker_count
            rows[PARTITION_TRAFFIC].append(
                {**of, "leader_id": leader, "record_count": count, "batch_count": count, "size_bytes": count * RECORD_BYTES,
                 "batch_bytes_squared": float(count * RECORD_BYTES**2), "count_kind": "exact", "sampling_rate": 1.0}
            )  # fmt: skip
            rows[CLUSTER_STATE].append(
                {
                    **of,
                    "replica_id": leader,
                    "leader_id": leader,
                    "is_leader": True,
                    "is_in_sync": True,
                    "reassignment": None,
                    "configs": {},
                }
            )
        for key, partition in enumerate(partitions):
            rows[KEY_TRAFFIC].append(
                {**head, "topic": "orders", "topic_id": "", "partition": partition, "kind": "key", "key_id": f"{key:08x}{0:024x}",
                 "record_count": RECORDS, "size_bytes": RECORDS * RECORD_BYTES}
            )  # fmt: skip
        rows[BROKERS] += [{**head, "broker_id": broker} for broker in range(planted.broker_count)]
        rows[WINDOW_STATUS].append(
            {**head, "window_end": at(minute + 1), "source": "log_directories", "expected_count": 1, "arrived_count": 1,
             "newest_at": at(MINUTES), "as_of": at(MINUTES), "missing": None, "is_trusted": True}
        )  # fmt: skip
    for table, found in rows.items():
        run.replace(table, rows_of(table.name, found), windows)
    return windows


def judge(run, windows):
    score_health.run(None, run, windows)
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
    broker, ratio = planted.hot
    incidents, outbox = judge(run, plant(run, planted))
    assert [(row["subject"], row["state"]) for row in incidents] == [(f"broker {broker}", "new")]
    (queued,) = outbox
    message = email.message_from_bytes(queued["payload"], policy=email.policy.default)
    text = " ".join(attached(message).split())
    assert f"({ratio:.2f}x, limit 1.20x)" in " ".join(str(message["Subject"]).split())
    assert "The cause: hash luck, most in topic orders." in text
    assert "It is hot by hash luck: without it it would be at 1.00x, below the limit of 1.20x." in text
    mean = RECORDS * RECORD_BYTES * planted.key_count / planted.partition_count
    own = {p: count * RECORDS * RECORD_BYTES for p, count in Counter(planted.partitions).items()}
    lucky = {p: size for p, size in own.items() if p % planted.broker_count == broker and size > mean}
    for partition in lucky:
        assert f"orders-{partition} (+" in text
    assert "Keys that happen to hash together bring" in text
    assert "Move one of these partitions to a broker with room" in text


def test_a_gate_that_excuses_hash_luck_sends_none(run):
    gate = run.cluster.gate.model_copy(update={"hash_luck": "warn"})
    clusters = {run.cluster_name: run.cluster.model_copy(update={"gate": gate})}
    run = dataclasses.replace(run, config=run.config.model_copy(update={"clusters": clusters}))
    assert judge(run, plant(run, find_uneven(*CAPTURES["three brokers"]))) == ([], [])
