"""Small log directories of two brokers whose traffic makes a replay doubtful: a topic for each reason."""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.model.log import Record
from tests.batches import make_batch, make_marker

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SECONDS = 180
CLUSTER_ID = "bWFkZS11cC1jbHVzdGVyLQ"
LOG_APPEND_TIME, TRANSACTIONAL = 0x08, 0x10
BROKERS = 2
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
WATCHED = {"right-metrics": 3, "metrics-of-other-bytes": 12, "metrics-of-another-hour": 9}
REQUEST_BYTES, HEADER_BYTES, RECORD_BYTES = 65, 61, 209


@dataclass(frozen=True)
class Sent:
    """A batch as sent: when, where to, and the instants of its records."""

    at_ms: int
    partition: int
    records_ms: tuple[int, ...]


@dataclass
class Log:
    """A partition's log while it is written."""

    content: bytearray = field(default_factory=bytearray)
    first_offset: int = 0
    next_offset: int = 0


class Producer:
    """One producer and the logs of its topic.

    Args:
        producer_id: Or -1 without idempotence.
        gap: Offsets that compaction took away before each batch.
    """

    def __init__(self, producer_id=4000, *, gap=0) -> None:
        self.logs = {}
        self._producer_id = producer_id
        self._gap = gap
        self._sequences = Counter()

    def send(self, batches, *, attributes=0, leader_epoch=0):
        """Appends batches; with LogAppendTime they bear their own instant, not their records'."""
        idempotent = self._producer_id >= 0
        for each in batches:
            log = self.logs.setdefault(each.partition, Log())
            base = log.next_offset + self._gap
            records = [
                Record(offset=base + n, timestamp_ms=at_ms, key=None, value=b"v" * 200, headers=())
                for n, at_ms in enumerate(each.records_ms)
            ]
            log.content += make_batch(
                records, attributes=attributes, producer_id=self._producer_id,
                producer_epoch=0 if idempotent else -1, leader_epoch=leader_epoch,
                base_sequence=self._sequences[each.partition] if idempotent else -1,
                max_timestamp_ms=each.at_ms if attributes & LOG_APPEND_TIME else None,
            )  # fmt: skip  # fields of a value, several a line
            self._sequences[each.partition] += len(records)
            log.next_offset = records[-1].offset + 1
        return self

    def end_transaction(self, at_ms, *, commit):
        """A marker on every partition."""
        for log in self.logs.values():
            log.content += make_marker(
                log.next_offset, commit=commit, producer_id=self._producer_id, timestamp_ms=at_ms
            )
            log.next_offset += 1


def make_batches(seed, *, partitions=3, seconds=SECONDS, per_s=6):
    """Batches of one to six records by a producer that draws a partition for each."""
    chance = random.Random(seed)
    batches = []
    for number in range(seconds * per_s):
        at_ms = START_MS + number * 1000 // per_s + chance.randrange(20, 1000 // per_s)
        times = tuple(sorted(at_ms - chance.randrange(20) for _ in range(chance.randrange(1, 7))))
        batches.append(Sent(times[-1], chance.randrange(partitions), times))
    return batches


def make_topics():
    """Producers by the topic they alone write to."""
    plain = make_batches(1)
    far_off = [
        Sent(each.at_ms, each.partition, (each.records_ms[0] - 400 * DAY_MS, *each.records_ms)) if n % 5 == 0 else each
        for n, each in enumerate(plain)
    ]
    hole = [each for each in plain if not START_MS + 58_000 <= each.at_ms < START_MS + 122_000]
    topics = {
        "plain": Producer().send(plain),
        "no-producer-ids": Producer(-1).send(plain),
        "log-append-time": Producer(4001).send(plain, attributes=LOG_APPEND_TIME),
        "compacted": Producer(4002, gap=2).send(plain),
        "late-start": _start_late(Producer(4003).send(plain)),
        "hole": Producer(4004).send(hole),
        "times-far-off": Producer(4005).send(far_off),
        "one-partition": Producer(4006).send(make_batches(2, partitions=1)),
        "moved": Producer(4007).send(plain[: len(plain) // 2]).send(plain[len(plain) // 2 :], leader_epoch=1),
        "aborted": _abort_some(Producer(4008), plain),
    }
    for number, topic in enumerate(WATCHED):
        topics[topic] = Producer(4010 + number).send(make_watched(topic))
    empty = Producer(4009)
    empty.logs = {partition: Log() for partition in range(3)}
    return topics | {"empty": empty}


def make_watched(topic):
    """Batches of a topic whose producer has metrics; each has a rate of its own, by which they are told apart."""
    return make_batches(10 + WATCHED[topic], per_s=WATCHED[topic])


def _start_late(producer):
    """Retention took the first third of each partition's log away."""
    for log in producer.logs.values():
        position = first = 0
        while position < len(log.content) // 3:
            size = int.from_bytes(log.content[position + 8 : position + 12], "big") + 12
            first += int.from_bytes(log.content[position + 57 : position + 61], "big")
            position += size
        log.content = log.content[position:]
        log.first_offset = first
    return producer


def _abort_some(producer, batches, per_transaction=20):
    """Every third transaction is aborted."""
    for number in range(0, len(batches), per_transaction):
        part = batches[number : number + per_transaction]
        producer.send(part, attributes=TRANSACTIONAL)
        producer.end_transaction(part[-1].at_ms + 1, commit=(number // per_transaction) % 3 != 2)
    return producer


def write_brokers(folder: Path, topics) -> Path:
    """A log directory per broker; partition p lies on broker p modulo two, that of topic ``moved`` on both."""
    for node_id in range(BROKERS):
        directory = folder / f"brokers/{node_id}"
        directory.mkdir(parents=True)
        lines = ["version=1", f"cluster.id={CLUSTER_ID}", f"node.id={node_id}"]
        (directory / "meta.properties").write_text("".join(f"{line}\n" for line in lines))
    for topic, producer in topics.items():
        for partition, log in producer.logs.items():
            for node_id in range(BROKERS) if topic == "moved" else (partition % BROKERS,):
                directory = folder / f"brokers/{node_id}/{topic}-{partition}"
                directory.mkdir()
                (directory / f"{log.first_offset:020d}.log").write_bytes(log.content)
    return folder / "brokers"


def write_scrapes(folder: Path) -> Path:
    """Exporter pages of the producers that are watched, below a folder for each."""
    _write_pages(folder / "right", "right-metrics")
    _write_pages(folder / "bytes", "metrics-of-other-bytes", scale=1.12)
    _write_pages(folder / "hour", "metrics-of-another-hour", later_ms=HOUR_MS)
    return folder


def _write_pages(folder: Path, topic, *, scale=1.0, later_ms=0, every_s=10) -> None:
    """Pages of a producer that sends each batch in a request of its own."""
    folder.mkdir(parents=True)
    batches = make_watched(topic)
    for second in range(0, SECONDS + 1, every_s):
        until_ms = START_MS + 1000 * second
        lines = []
        for node_id in range(BROKERS):
            own = [each for each in batches if each.at_ms < until_ms and each.partition % BROKERS == node_id]
            stored = sum(HEADER_BYTES + RECORD_BYTES * len(each.records_ms) for each in own)
            labels = f'{{client_id="{topic}",node_id="node-{node_id}"}}'
            lines += [
                f"kafka_producer_producer_node_metrics_outgoing_byte{labels} {scale * stored + REQUEST_BYTES * len(own)}",
                f"kafka_producer_producer_node_metrics_request{labels} {float(len(own))}",
                f"kafka_producer_producer_node_metrics_request_latency_avg{labels} {4.0 if own else 'NaN'}",
            ]
        (folder / f"{until_ms + later_ms}.prom").write_text("\n".join([*lines, ""]))
