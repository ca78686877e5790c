"""`min.insync.replicas` above the number of replicas. Oracle: the broker."""

from confluent_kafka import Producer


def test_a_broker_asks_for_no_more_in_sync_than_there_are_replicas(kafka_cluster):
    kafka_cluster.create_topic("alone", min_insync_replicas=2)
    errors = []
    settings = {"bootstrap.servers": kafka_cluster.internal_bootstrap, "acks": "all", "message.timeout.ms": 10_000}
    producer = Producer(settings)
    producer.produce("alone", b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush()
    assert errors == [None]
