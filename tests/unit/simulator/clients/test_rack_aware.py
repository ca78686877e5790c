"""Which settings make a Java producer rack-aware. Oracle: kafka-clients 4.4.0, for what it refuses; KIP-1123 for the rest."""

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.clients.producer_configs import JAVA
from pipeline.simulator.clients.producer_settings import resolve_producer

AWARE = {"partitioner.rack.aware": "true"}
IN_A = AWARE | {"client.rack": "a"}
ROUND_ROBIN = {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}


@pytest.mark.parametrize(
    ("version", "config", "strategy", "client_rack"),
    [
        ("4.4.0", IN_A, "java-builtin-rack-aware", "a"),
        ("4.4.0", IN_A | {"partitioner.adaptive.partitioning.enable": "false"}, "java-builtin-rack-aware", "a"),
        ("4.4.0", IN_A | {"partitioner.ignore.keys": "true"}, "java-builtin-ignore-keys", "a"),
        ("4.4.0", IN_A | ROUND_ROBIN, "java-round-robin-3.9.2", ""),
        ("4.4.0", {"client.rack": "a"}, "java-builtin", ""),
        ("4.3.0", IN_A, "java-builtin", ""),
    ],
)
def test_a_rack_counts_where_the_built_in_partitioner_asks_for_it(version, config, strategy, client_rack):
    resolved = resolve_producer(JAVA, version, config)
    assert (resolved.strategy, resolved.settings.client_rack) == (strategy, client_rack)
    assert ("client.rack" in " ".join(resolved.notes)) == (client_rack == "")


@pytest.mark.parametrize("others", [{}, {"client.rack": ""}, {"client.rack": " "}, ROUND_ROBIN])
def test_without_a_rack_the_client_refuses_to_start(others):
    with pytest.raises(ConfigError, match=r"client\.rack: .*; expected the client's rack, as its brokers name theirs"):
        resolve_producer(JAVA, "4.4.0", AWARE | others)


def test_the_rack_and_the_queues_are_two_settings():
    uniform = resolve_producer(JAVA, "4.4.0", IN_A | {"partitioner.adaptive.partitioning.enable": "false"}).settings
    assert (uniform.is_adaptive, resolve_producer(JAVA, "4.4.0", IN_A).settings.is_adaptive) == (False, True)


def test_a_strategy_by_name_is_as_good_as_the_setting():
    resolved = resolve_producer(JAVA, "4.4.0", {"client.rack": "b"}, strategy="java-builtin-rack-aware")
    assert resolved.settings == resolve_producer(JAVA, "4.4.0", IN_A | {"client.rack": "b"}).settings
    with pytest.raises(ConfigError, match=r"client\.rack"):
        resolve_producer(JAVA, "4.4.0", {}, strategy="java-builtin-rack-aware")


@pytest.mark.parametrize(
    ("version", "config", "client_rack"),
    [
        ("1.22.0", {"RackAwarePartitioning": "true", "Rack": "a"}, "a"),
        ("1.22.0", {"RackAwarePartitioning": "true"}, ""),
        ("1.22.0", {"Rack": "a"}, ""),
        ("1.21.0", {"RackAwarePartitioning": "true", "Rack": "a"}, ""),
    ],
)
@pytest.mark.parametrize("strategy", ["franz-go-default", "franz-go-sticky", "franz-go-least-backup"])
def test_franz_go_shows_any_partitioner_its_rack_alone(strategy, version, config, client_rack):
    """Facts: franz-go's pull request 1347."""
    assert resolve_producer("franz-go", version, config, strategy=strategy).settings.client_rack == client_rack
