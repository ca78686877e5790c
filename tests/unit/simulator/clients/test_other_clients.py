"""What clients of other families than Java's and librdkafka's are simulated as; numbers from their sources."""

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import MS
from pipeline.simulator.clients.producer_settings import resolve_producer


@pytest.mark.parametrize(
    ("client", "version", "config", "expected"),
    [
        ("franz-go", "1.19.0", {}, ("franz-go-default", 0, 1_000_012, 5)),
        ("franz-go", "1.20.0", {}, ("franz-go-default", 10, 1_000_012, 5)),
        (
            "franz-go",
            "1.20.0",
            {"ProducerLinger": "3", "ProducerBatchMaxBytes": "500"},
            ("franz-go-default", 3, 500, 5),
        ),
        ("sarama", "1.61.1", {}, ("sarama-hash", 0, 1_048_576, 5)),
        (
            "sarama",
            "1.61.1",
            {"Producer.Flush.Frequency": "7", "Net.MaxOpenRequests": "1"},
            ("sarama-hash", 7, 1_048_576, 1),
        ),
        ("kafka-python", "3.0.12", {"linger_ms": "20"}, ("kafka-python", 20, 16_384, 5)),
        ("kafka-python", "3.0.12", {"batch_size": "0"}, ("kafka-python", 0, 1, 5)),
        ("aiokafka", "0.14.0", {"max_batch_size": "99"}, ("aiokafka", 0, 99, 1)),
    ],
)
def test_settings(client, version, config, expected):
    resolved = resolve_producer(client, version, config)
    settings = resolved.settings
    found = (resolved.strategy, settings.linger_ns // MS, settings.batch_bytes, settings.max_in_flight_count)
    assert found == expected
    assert resolved.notes == (f"{client}'s threads are taken to cost what the Java client's do",)


@pytest.mark.parametrize(
    ("client", "strategy", "placement", "ignores_keys"),
    [
        ("franz-go", "franz-go-default", "UNIFORM_BYTES", False),
        ("franz-go", "franz-go-sticky", "STICKY_NEIGHBOUR", True),
        ("franz-go", "franz-go-sarama-hasher", "STICKY_NEIGHBOUR", False),
        ("franz-go", "franz-go-least-backup", "LEAST_BACKUP", True),
        ("franz-go", "franz-go-round-robin", "ROUND_ROBIN", True),
        ("sarama", "sarama-random", "RANDOM", True),
        ("sarama", "sarama-round-robin", "ROUND_ROBIN", True),
        ("kafka-python", "kafka-python-sticky", "STICKY", False),
    ],
)
def test_strategies(client, strategy, placement, ignores_keys):
    settings = resolve_producer(client, "3", {}, strategy=strategy).settings
    assert (settings.placement, settings.ignores_keys) == (placement, ignores_keys)


@pytest.mark.parametrize("strategy", ["java-builtin", "sarama-hash-nil-encoder"])
def test_a_strategy_of_another_client_or_without_a_placement_is_refused(strategy):
    with pytest.raises(
        ConfigError, match=rf"{strategy}: the simulator does not follow it for sarama; expected sarama-"
    ):
        resolve_producer("sarama", "1.61", {}, strategy=strategy)


def test_kafka_python_asks_twice_and_is_idempotent():
    settings = resolve_producer("kafka-python", "3.0.12", {}).settings
    assert (settings.placement, settings.is_idempotent) == ("RANDOM_TWO_DRAWS", True)
    assert not resolve_producer("kafka-python", "3.0.12", {"enable_idempotence": "false"}).settings.is_idempotent
