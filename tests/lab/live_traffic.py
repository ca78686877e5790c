"""Traffic for a cluster that is read while it runs: records are stamped, so that nobody waits for windows to pass."""

import time

from confluent_kafka import KafkaException, Producer

MINUTE_MS = 60_000
MINUTES = 3
TOPICS = {
    "orders": "0:1:2,1:2:0,2:0:1,0:2:1,1:0:2,2:1:0",
    "packed": "0:1,1:2",
    "ledger": "1:2,2:0",
    "lone": "2,0",
    "empty": "0,1",
}
RECORDS = {"orders": 6_000, "packed": 3_000, "ledger": 600, "lone": 600}


def create_topics(cluster):
    for topic, assignment in TOPICS.items():
        cluster.create_topic(topic, assignment)


def past_minutes():
    """Start of the first of `MINUTES` whole minutes that are over, UTC milliseconds."""
    now_ms = time.time_ns() // 1_000_000
    return now_ms - now_ms % MINUTE_MS - (MINUTES + 1) * MINUTE_MS


def coming_minutes():
    """Start of the next whole minute, UTC milliseconds: later than anything the cluster's metadata knows by now."""
    now_ms = time.time_ns() // 1_000_000
    return now_ms - now_ms % MINUTE_MS + MINUTE_MS


def produce(bootstrap, start_ms):
    """Idempotent, compressed and transactional records, spread evenly over the minutes; one transaction is aborted."""
    plain = {"bootstrap.servers": bootstrap, "linger.ms": 5}
    idempotent = Producer({**plain, "enable.idempotence": True})
    packed = Producer({**plain, "compression.type": "lz4", "batch.num.messages": 200})
    send(idempotent, "orders", start_ms, size_bytes=300)
    send(packed, "packed", start_ms, size_bytes=200)
    send(packed, "lone", start_ms, size_bytes=200)
    ledger = Producer({**plain, "transactional.id": "ledger"})
    ledger.init_transactions()
    for place, end in enumerate(("commit", "abort", "commit")):
        ledger.begin_transaction()
        send(ledger, "ledger", start_ms + place * MINUTE_MS, size_bytes=100, count=200, minutes=1)
        ledger.commit_transaction() if end == "commit" else ledger.abort_transaction()


def send(producer, topic, start_ms, *, size_bytes, count=None, minutes=MINUTES):
    """Sends records spread over some minutes, and waits until they are there."""
    count = RECORDS[topic] if count is None else count
    failed = []
    partitions = len(TOPICS.get(topic, "0").split(","))

    def told(error, _):
        if error is not None:
            failed.append(error)

    for i in range(count):
        stamp = start_ms + i * minutes * MINUTE_MS // count
        # 50 records in a row to a partition, so that batches hold several
        producer.produce(
            topic,
            b"x" * size_bytes,
            key=b"key-%d" % (i % 97),
            timestamp=stamp,
            partition=i // 50 % partitions,
            callback=told,
        )
        if i % 500 == 499:
            producer.flush()
    producer.flush()
    if failed:
        raise KafkaException(failed[0])
