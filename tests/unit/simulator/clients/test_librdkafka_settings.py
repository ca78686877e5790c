"""How long librdkafka keeps a partition, as `rd_kafka_conf_finalize` resolves it: twice linger.ms unless given."""

import pytest

from pipeline.simulator.clients.client import MS
from pipeline.simulator.clients.producer_settings import resolve_producer


@pytest.mark.parametrize(
    ("version", "config", "strategy", "sticky_ms"),
    [
        ("2.10.0", {}, "librdkafka-consistent_random", 10),
        ("2.10.0", {"linger.ms": "20"}, "librdkafka-consistent_random", 40),
        ("2.10.0", {"linger.ms": "0.5"}, "librdkafka-consistent_random", 1),
        ("2.10.0", {"linger.ms": "0"}, "librdkafka-consistent_random-1.5", 0),
        ("2.10.0", {"linger.ms": "0", "sticky.partitioning.linger.ms": "7"}, "librdkafka-consistent_random", 7),
        ("2.10.0", {"sticky.partitioning.linger.ms": "0"}, "librdkafka-consistent_random-1.5", 0),
        ("2.10.0", {"linger.ms": "900000"}, "librdkafka-consistent_random", 900_000),
        ("1.5.3", {}, "librdkafka-consistent_random-1.5", 10),
    ],
)
def test_sticky_time(version, config, strategy, sticky_ms):
    resolved = resolve_producer("librdkafka", version, config)
    assert resolved.strategy == strategy
    assert resolved.settings.sticky_linger_ns == sticky_ms * MS
