"""The lab's broker is a real one: what goes in by librdkafka lies in its log as Kafka's own dump tool reads it."""

import re

from confluent_kafka import Producer

from tests.lab.cluster import run_tool
from tests.lab.process import PATIENCE_S


def test_dump_log_finds_what_was_produced(kafka_cluster):
    """Oracle: Kafka's DumpLogSegments on the file the broker wrote."""
    kafka_cluster.create_topic("first-words", partitions=1)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap, "linger.ms": 50})
    for number in range(30):
        producer.produce("first-words", key=f"key-{number % 3}", value=b"x" * number)
    assert producer.flush(PATIENCE_S) == 0
    segment = kafka_cluster.brokers[0].log_directory / "first-words-0" / f"{0:020d}.log"

    dump = run_tool("kafka-dump-log", "--files", str(segment))

    assert sum(int(count) for count in re.findall(r"\bcount: (\d+)", dump)) == 30
    assert set(re.findall(r"isvalid: (\w+)", dump)) == {"true"}
